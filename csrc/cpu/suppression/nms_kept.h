// Kept boxes as a structure of arrays, and the test of a candidate against a run of them.
#pragma once

#include <cstring>

#if defined(_MSC_VER)
#include <intrin.h>
#endif

#include "core/box.h"
#include "cpu/read_soon.h"

namespace visops {
namespace {

constexpr int kRun = 16;  // boxes tested at a time

// The index of the lowest bit that is set; `bits` is not 0.
VISOPS_ALWAYS_INLINE int lowest_bit(unsigned bits) {
#if defined(_MSC_VER)
  unsigned long index;
  _BitScanForward(&index, bits);
  return static_cast<int>(index);
#else
  return __builtin_ctz(bits);
#endif
}

// kRun boxes, coordinate by coordinate.
template <class Acc>
struct BoxRun {
  const Acc *x1, *y1, *x2, *y2, *area;  // [kRun] each
};

// Boxes in runs: a run is one piece of memory, so that looking at a few boxes somewhere takes few
// cache lines and one page. Slots not stored are zero, and so overlap nothing.
template <class Acc>
struct KeptBoxes {
  Acc* memory;  // [runs, 5, kRun]

  KeptBoxes(Acc* memory, int64_t size) : memory(memory) {
    memset(memory, 0, static_cast<size_t>(elements(size)) * sizeof(Acc));
  }

  static constexpr int64_t elements(int64_t size) { return 5 * ((size + kRun - 1) / kRun * kRun); }

  // The run that box i is in.
  VISOPS_ALWAYS_INLINE BoxRun<Acc> run(int64_t i) const {
    const Acc* x1 = memory + i / kRun * (5 * kRun);
    return {x1, x1 + kRun, x1 + 2 * kRun, x1 + 3 * kRun, x1 + 4 * kRun};
  }

  // Prefetches the runs of boxes [begin, end), two at most.
  void fetch_soon(int64_t begin, int64_t end) const {
    const int64_t most = begin + 2 * kRun;
    const Acc* first = run(begin).x1;
    visops::fetch_soon(first, run((end < most ? end : most) - 1).area + kRun - first);
  }

  Box<Acc> box(int64_t i) const {
    const BoxRun<Acc> r = run(i);
    const int64_t l = i % kRun;
    return {r.x1[l], r.y1[l], r.x2[l], r.y2[l], r.area[l]};
  }

  void store(int64_t i, const Box<Acc>& box) {
    Acc* x1 = memory + i / kRun * (5 * kRun) + i % kRun;
    x1[0] = box.x1;
    x1[kRun] = box.y1;
    x1[2 * kRun] = box.x2;
    x1[3 * kRun] = box.y2;
    x1[4 * kRun] = box.area;
  }
};

// use(l, meets, inter, all) for each box l of the run: whether it and the box intersect, the
// intersection's area, and the union's, in the arithmetic of overlap_of().
template <class Acc, class Use>
VISOPS_ALWAYS_INLINE void for_each_of_run(const Box<Acc>& box, const BoxRun<Acc>& run,
                                          const Use& use) {
  const Acc zero = static_cast<Acc>(0);
  const Acc *x1 = run.x1, *y1 = run.y1, *x2 = run.x2, *y2 = run.y2, *area = run.area;
  for (int l = 0; l < kRun; ++l) {
    const Acc left = x1[l] < box.x1 ? box.x1 : x1[l], right = box.x2 < x2[l] ? box.x2 : x2[l];
    const Acc top = y1[l] < box.y1 ? box.y1 : y1[l], bottom = box.y2 < y2[l] ? box.y2 : y2[l];
    const Acc width = right - left, height = bottom - top;
    const Acc inter = width * height, all = area[l] + box.area - inter;
    use(l, (width > zero) & (height > zero), inter, all);
  }
}

// NOTE [ Two tests of overlap ]
// Divisions are slow and hardly ever needed. The first test is inter >= t * union, in vectors, with
// a t smaller than the threshold by far more than rounding (`above`). Where that holds for a box of
// the run, the second has the arithmetic of overlaps() and decides.
template <class Acc>
struct OverlapTest {
  Acc threshold, above;

  explicit OverlapTest(Acc threshold)
      : threshold(threshold), above(threshold * (static_cast<Acc>(1) - static_cast<Acc>(1e-6))) {}
  static OverlapTest of(double iou_threshold) {
    return OverlapTest(threshold_of(iou_threshold, static_cast<Acc>(0)));
  }

  // False if the box certainly overlaps none of the run.
  VISOPS_ALWAYS_INLINE bool may_meet(const Box<Acc>& box, const BoxRun<Acc>& run) const {
    int found = 0;
    for_each_of_run(box, run, [&](int, bool meets, Acc inter, Acc all) {
      found |= meets & (inter >= above * all);
    });
    return found != 0;
  }

  // Whether the box overlaps one of them.
  VISOPS_ALWAYS_INLINE bool meets(const Box<Acc>& box, const BoxRun<Acc>& run) const {
    if (!may_meet(box, run)) return false;
    int found = 0;
    for_each_of_run(box, run, [&](int, bool meets, Acc inter, Acc all) {
      found |= meets & (inter / all > threshold);
    });
    return found != 0;
  }

  // ... or one of the boxes [begin, end), or others of their runs.
  VISOPS_ALWAYS_INLINE bool meets(const Box<Acc>& box, const KeptBoxes<Acc>& kept, int64_t begin,
                                  int64_t end) const {
    for (int64_t i = begin / kRun * kRun; i < end; i += kRun) {
      if (meets(box, kept.run(i))) return true;
    }
    return false;
  }
};

}  // namespace
}  // namespace visops
