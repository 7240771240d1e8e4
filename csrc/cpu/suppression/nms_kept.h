// Kept boxes as a structure of arrays, and the test of a candidate against a run of them.
#pragma once

#include <cstring>

#include "core/box.h"
#include "core/dispatch/workspace.h"
#include "core/suppression/nms.h"
#include "cpu/prefetch.h"

namespace visops {
namespace {

constexpr int kRun = 16;  // boxes tested at a time

// The index of the lowest bit that is set; `bits` is not 0.
VISOPS_ALWAYS_INLINE int lowest_bit(unsigned bits) { return __builtin_ctz(bits); }

// Arrays of `size` and kRun more elements: a run may begin at the last box. Slots not stored are
// zero, and so overlap nothing.
template <class Acc>
struct KeptBoxes {
  Acc *x1, *y1, *x2, *y2, *area;

  KeptBoxes(Acc* memory, int64_t size) {
    const int64_t step = size + kRun;
    x1 = memory;
    y1 = x1 + step;
    x2 = y1 + step;
    y2 = x2 + step;
    area = y2 + step;
    memset(memory, 0, static_cast<size_t>(elements(size)) * sizeof(Acc));
  }

  static constexpr int64_t elements(int64_t size) { return 5 * (size + kRun); }

  // Prefetches what a test of the boxes [begin, end) reads; of many, the first.
  void fetch_run(int64_t begin, int64_t end) const {
    const int64_t count = end - begin < 3 * kRun ? end - begin : 3 * kRun;
    for (const Acc* array : {x1, y1, x2, y2, area}) prefetch(array + begin, count);
  }

  Box<Acc> box(int64_t i) const { return {x1[i], y1[i], x2[i], y2[i], area[i]}; }

  void store(int64_t i, const Box<Acc>& box) {
    x1[i] = box.x1;
    y1[i] = box.y1;
    x2[i] = box.x2;
    y2[i] = box.y2;
    area[i] = box.area;
  }
};

// use(l, meets, inter, all) for each of the kRun boxes i + l: whether it and the box intersect, the
// intersection's area, and the union's, in the arithmetic of overlap_of().
template <class Acc, class Use>
VISOPS_ALWAYS_INLINE void for_each_of_run(const Box<Acc>& box, const KeptBoxes<Acc>& kept,
                                          int64_t i, const Use& use) {
  const Acc zero = static_cast<Acc>(0);
  const Acc *x1 = kept.x1 + i, *y1 = kept.y1 + i, *x2 = kept.x2 + i, *y2 = kept.y2 + i;
  const Acc* area = kept.area + i;
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

  // False if the box certainly overlaps none of the kRun boxes from i on.
  VISOPS_ALWAYS_INLINE bool may_meet_run(const Box<Acc>& box, const KeptBoxes<Acc>& kept,
                                         int64_t i) const {
    int found = 0;
    for_each_of_run(box, kept, i, [&](int, bool meets, Acc inter, Acc all) {
      found |= meets & (inter >= above * all);
    });
    return found != 0;
  }

  // Whether the box overlaps one of them.
  VISOPS_ALWAYS_INLINE bool meets_run(const Box<Acc>& box, const KeptBoxes<Acc>& kept,
                                      int64_t i) const {
    if (!may_meet_run(box, kept, i)) return false;
    int found = 0;
    for_each_of_run(box, kept, i, [&](int, bool meets, Acc inter, Acc all) {
      found |= meets & (inter / all > threshold);
    });
    return found != 0;
  }

  // A bit for each of them that it overlaps.
  VISOPS_ALWAYS_INLINE unsigned met_of_run(const Box<Acc>& box, const KeptBoxes<Acc>& kept,
                                           int64_t i) const {
    unsigned met = 0;
    for_each_of_run(box, kept, i, [&](int l, bool meets, Acc inter, Acc all) {
      met |= static_cast<unsigned>(meets & (inter / all > threshold)) << l;
    });
    return met;
  }

  // Whether it overlaps one of the boxes [begin, end); a few boxes after them may be tested too.
  VISOPS_ALWAYS_INLINE bool meets(const Box<Acc>& box, const KeptBoxes<Acc>& kept, int64_t begin,
                                  int64_t end) const {
    for (int64_t i = begin; i < end; i += kRun) {
      if (meets_run(box, kept, i)) return true;
    }
    return false;
  }
};

// Segments of a list, in parallel: equal numbers are adjacent, and segments are independent.

// body(first, count) for each segment of the `total` numbers. A task has the segments that begin
// in its part, `grain` numbers or more: no segment is split, so threads can't change a result.
template <class Body>
void for_each_segment(Workspace& workspace, const int64_t* segment, int64_t total, int64_t grain,
                      const Body& body) {
  const auto starts = [&](int64_t i) { return i == 0 || segment[i] != segment[i - 1]; };
  const auto part = [&](int64_t begin, int64_t end) {
    while (begin < end && !starts(begin)) ++begin;
    while (begin < end) {
      int64_t next = begin + 1;
      while (next < total && !starts(next)) ++next;
      body(begin, next - begin);
      begin = next;
    }
  };
  parallel_for(workspace, total, grain, part);
}

// A segment's results on the CPU.

struct SegmentOutput {
  uint8_t* kept;
  int64_t left;  // how many more may be kept

  SegmentOutput(const NmsParams& p, int64_t begin, int64_t count)
      : SegmentOutput(p.kept + begin, count) {
    if (p.max_output >= 0) left = p.max_output;
  }
  SegmentOutput(uint8_t* kept, int64_t count) : kept(kept), left(count) {
    memset(kept, 0, static_cast<size_t>(count));
  }

  // False if there is no room.
  bool keep(int64_t i) {
    if (left == 0) return false;
    kept[i] = 1;
    --left;
    return true;
  }
};

// The memory that suppression of rotated boxes takes.

// The memory of a segment, or of all of them: for each candidate its box, and so many elements and
// integers of the runs that find neighbours.
template <int64_t Elements, int64_t Integers>
struct RotatedScratch {
  RotatedBox* boxes;
  double* elements;
  int32_t* integers;

  // Whether that is enough for a segment of `count` candidates, and so for larger ones.
  static constexpr bool holds(int64_t elements, int64_t integers, int64_t count) {
    return elements <= Elements * count && integers <= Integers * count;
  }

  static RotatedScratch allocate(Workspace& workspace, int64_t count) {
    constexpr int64_t bytes =
        sizeof(RotatedBox) + Elements * sizeof(double) + Integers * sizeof(int32_t);
    char* memory = visops::allocate<char>(workspace, count * bytes);
    RotatedScratch scratch;
    scratch.boxes = take_array<RotatedBox>(&memory, count);
    scratch.elements = take_array<double>(&memory, count * Elements);
    scratch.integers = take_array<int32_t>(&memory, count * Integers);
    return scratch;
  }

  // The part of the segment that begins with candidate `begin`.
  RotatedScratch part(int64_t begin) const {
    return {boxes + begin, elements + begin * Elements, integers + begin * Integers};
  }
};

}  // namespace
}  // namespace visops
