// Greedy suppression on CUDA, for every kind of boxes.
//
// NOTE [ Suppression on CUDA ]
// Strategy: one kernel gathers the boxes, another one decides, whatever their number and however
// long chains of overlaps are. A warp decides a unit: two or four candidates next to each other. It
// goes through the earlier boxes of their segment, best first and 32 at a time, one a lane. Few of
// them meet one of its candidates; for those the overlap is computed. Where that exceeds the
// threshold, the warp waits until the earlier candidate is decided. A kept one suppresses; else the
// warp goes on. Candidates of a unit that nothing has suppressed in the end are decided one after
// another.
//
// This is what going through all candidates in order gives: a candidate is out if a kept one
// overlaps it, and kept if all earlier ones that overlap it are out. Each pair is tested once at
// most, pairs with an earlier candidate that was suppressed by a better one included, and a
// candidate that is out is done. O(count) memory; the host waits for nothing.
//
// Waiting ends: warps take units in their order, by a counter on the device, and wait for earlier
// units only. Those have been taken by warps that are running. The first of the units that are not
// finished waits for nobody.
//
// Decisions are bits, 32 candidates a word: below, which are decided; above, which of those are
// kept. A word is changed and read by atomics, so both are seen at once.
//
// Rounding: NOTE [ Overlap ], without contraction (-fmad=false).
//
// Assumes what check_nms() and the fronts establish: every candidate's box exists, and equal
// numbers in `segment` are adjacent. Boxes need not be finite. A segment has fewer than 2^31
// candidates: comparing so many would take days.
#pragma once

#include "core/numbers/ceil_div.h"
#include "core/suppression/nms.h"
#include "core/suppression/scratch.h"
#include "cuda/suppression/segments.h"
#include "cuda/threads.h"

namespace visops {
namespace {

constexpr uint8_t kOpen = 2;  // in p.kept: to be decided
constexpr int kAtOnce = 2;    // earlier candidates that a lane compares at a time

using Decisions = unsigned long long;  // the type that atomicOr() takes

// A kind of boxes, `Shape`, has
//   Number                  the type of the overlap
//   kOwn                    candidates of a unit, of which a word has several
//   Stored, stored(box)     what memory holds of a box; .box() gives the box back
//   load(params, candidate) a candidate's box
//   Outline, outline(box)   what meet() needs of a Stored
//   meet(a, b)              whether boxes can overlap by more than 0
//   nothing()               a Stored that meets nothing
template <class Shape>
struct NmsScratch {
  typename Shape::Stored* boxes;  // [count] in order; nothing() unless a candidate is to be decided
  int64_t* first;                 // [count] first position of the segment
  Decisions* decisions;           // [count / 32]
  unsigned long long* taken;      // units so far

  NmsScratch(const NmsParams& p, Workspace& workspace) {
    using Stored = typename Shape::Stored;
    const int64_t words = parts_of(p.count, kWarp);
    char* memory =
        allocate<char>(workspace, p.count * static_cast<int64_t>(sizeof(Stored) + sizeof(int64_t)) +
                                      (words + 1) * static_cast<int64_t>(sizeof(Decisions)));
    boxes = take_array<Stored>(&memory, p.count);
    first = take_array<int64_t>(&memory, p.count);
    decisions = take_array<Decisions>(&memory, words);
    taken = take_array<unsigned long long>(&memory, 1);
  }
};

template <class Shape>
__global__ void __launch_bounds__(kThreads)
    nms_prepare(const __grid_constant__ NmsParams p, const NmsScratch<Shape> scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (first_thread() == 0) *scratch.taken = 0;
  for (int64_t word = first_warp(); word * kWarp < p.count; word += all_warps()) {
    const int64_t i = word * kWarp + lane;
    bool is_open = false, is_kept = false;
    if (i < p.count) {
      const int64_t image = p.segment == nullptr ? i - i % p.per_image : 0;
      const int64_t candidate = image + p.order[i];
      const auto box = Shape::load(p, candidate);
      const ScoreFilter& f = p.filter;
      const bool takes_part = f.scores == nullptr ||
                              load_coordinate<double>(f.scores, f.dtype, candidate) > f.threshold;
      const bool inert = is_inert(box);
      is_open = takes_part && !inert;
      is_kept = takes_part && inert;
      p.kept[i] = is_open ? kOpen : (is_kept ? 1 : 0);
      scratch.boxes[i] = is_open ? Shape::stored(box) : Shape::nothing();
      scratch.first[i] = p.segment == nullptr ? image : first_of_segment(p.segment, i);
    }
    const Decisions decided = __ballot_sync(kWholeWarp, !is_open);
    const Decisions kept = __ballot_sync(kWholeWarp, is_kept);
    if (lane == 0) scratch.decisions[word] = kept << 32 | decided;
  }
}

// Whether a kept one of the earlier candidates that the lanes have overlaps `mine`; of the lanes
// for which `tests` is set. Waits until those that overlap are decided.
template <class Shape>
__device__ bool is_suppressed(const NmsScratch<Shape>& scratch, typename Shape::Number threshold,
                              const typename Shape::Stored* earlier,
                              const typename Shape::Stored* mine, bool tests) {
  bool waits = tests && overlaps(earlier->box(), mine->box(), threshold);
  if (!__any_sync(kWholeWarp, waits)) return false;
  const int64_t at = earlier - scratch.boxes;
  do {
    const Decisions found =
        waits ? atomicOr(scratch.decisions + at / kWarp, Decisions{0}) >> at % kWarp : 0;
    if (__any_sync(kWholeWarp, (found >> 32 & 1) != 0)) return true;
    waits = waits && (found & 1) == 0;
  } while (__any_sync(kWholeWarp, waits));
  return false;
}

// Those of the candidates `open` of a unit that no kept one at [first, begin) overlaps. A lane has
// kAtOnce earlier ones at a time, and says by bits which candidates of the unit each of them meets.
// Where it has less, what it had before stands in for them.
template <class Shape>
__device__ unsigned left_by_earlier(const NmsScratch<Shape>& scratch,
                                    typename Shape::Number threshold, int64_t first, int64_t begin,
                                    unsigned open) {
  constexpr int kOwn = Shape::kOwn;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int count = static_cast<int>(begin - first);
  const typename Shape::Stored* const unit = scratch.boxes + begin;
  typename Shape::Outline mine[kOwn], other[kAtOnce];
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    mine[k] = Shape::outline((open >> k & 1) != 0 ? unit[k] : Shape::nothing());
  }
#pragma unroll
  for (int j = 0; j < kAtOnce; ++j) other[j] = Shape::outline(Shape::nothing());
  const typename Shape::Stored* next = scratch.boxes + first + lane;
  for (int at = 0; at < count; at += kAtOnce * kWarp, next += kAtOnce * kWarp) {
    unsigned wanted = 0, meets = 0;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (at + lane + j * kWarp >= count) continue;
      other[j] = Shape::outline(next[j * kWarp]);
      wanted |= open << j * kOwn;
    }
#pragma unroll
    for (int bit = 0; bit < kAtOnce * kOwn; ++bit) {
      meets |= Shape::meet(other[bit / kOwn], mine[bit % kOwn]) ? 1u << bit : 0;
    }
    meets &= wanted;
    while (__any_sync(kWholeWarp, meets != 0)) {
      const unsigned highest = __reduce_max_sync(kWholeWarp, meets);
      const auto bit = static_cast<unsigned>(63 - __clzll(static_cast<int64_t>(highest)));
      const unsigned k = bit % kOwn;
      if ((open >> k & 1) != 0 && is_suppressed(scratch, threshold, next + bit / kOwn * kWarp,
                                                unit + k, (meets >> bit & 1) != 0)) {
        open &= ~(1u << k);
      }
      meets &= (1u << bit) - 1;
    }
    if (open == 0) break;
  }
  return open;
}

// Those of the candidates `open` of a unit, all of a segment, that are kept if nothing earlier
// overlaps them. A lane has two of them.
template <class Shape>
__device__ unsigned left_by_unit(const NmsScratch<Shape>& scratch, typename Shape::Number threshold,
                                 int64_t begin, unsigned open) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int earlier = lane / Shape::kOwn, later = lane % Shape::kOwn;
  const bool tests = earlier < later && (open >> earlier & 1) != 0 && (open >> later & 1) != 0;
  const unsigned overlapping =
      __ballot_sync(kWholeWarp, tests && overlaps(scratch.boxes[begin + earlier].box(),
                                                  scratch.boxes[begin + later].box(), threshold));
  for (int k = 0; k < Shape::kOwn; ++k) {
    if ((open >> k & 1) != 0) open &= ~(overlapping >> k * Shape::kOwn & ((1u << Shape::kOwn) - 1));
  }
  return open;
}

template <class Shape>
__global__ void __launch_bounds__(kThreads)
    nms_decide(const __grid_constant__ NmsParams p, const NmsScratch<Shape> scratch,
               const typename Shape::Number threshold) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t units = parts_of(p.count, Shape::kOwn);
  for (int64_t turn = first_warp(); turn < units; turn += all_warps()) {
    unsigned long long unit = lane == 0 ? atomicAdd(scratch.taken, 1ull) : 0;
    unit = __shfl_sync(kWholeWarp, unit, 0);
    const int64_t begin = static_cast<int64_t>(unit) * Shape::kOwn, i = begin + lane;
    const bool is_mine = lane < Shape::kOwn && i < p.count;
    const int64_t first = is_mine ? scratch.first[i] : 0;
    unsigned rest = __ballot_sync(kWholeWarp, is_mine && p.kept[i] == kOpen);
    while (rest != 0) {
      const int64_t segment = __shfl_sync(kWholeWarp, first, __ffs(static_cast<int>(rest)) - 1);
      const unsigned open = __ballot_sync(kWholeWarp, (rest >> lane & 1) != 0 && first == segment);
      unsigned kept = left_by_earlier(scratch, threshold, segment, begin, open);
      kept = left_by_unit(scratch, threshold, begin, kept);
      if (lane == 0) {
        const Decisions found = Decisions{kept} << 32 | open;
        atomicOr(scratch.decisions + begin / kWarp, found << begin % kWarp);
      }
      if ((open >> lane & 1) != 0) p.kept[i] = kept >> lane & 1;
      rest &= ~open;
    }
  }
}

template <class Shape>
void launch_nms(const NmsParams& p, Workspace& workspace) {
  if (p.count == 0) return;
  const NmsScratch<Shape> scratch(p, workspace);
  launch(nms_prepare<Shape>, grid_of_threads(p.count), dim3(kThreads), 0, workspace.stream(), p,
         scratch);
  launch(nms_decide<Shape>, grid_of_warps(parts_of(p.count, Shape::kOwn)), dim3(kThreads), 0,
         workspace.stream(), p, scratch, threshold_of(p.iou_threshold, typename Shape::Number()));
}

}  // namespace
}  // namespace visops
