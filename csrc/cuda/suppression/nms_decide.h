// Greedy suppression on CUDA, for every kind of boxes.
//
// NOTE [ Suppression on CUDA ]
// Strategy: one kernel gathers the boxes, another one decides, whatever their number and however
// long chains of overlaps are. A warp has a candidate. It goes through the earlier boxes of its
// segment, best first and 128 at a time, four a lane. Few of them meet the candidate; for those the
// overlap is computed. Where that exceeds the threshold, the warp waits until the earlier candidate
// is decided. A kept one suppresses; else the warp goes on.
//
// This is what going through all candidates in order gives: a candidate is out if a kept one
// overlaps it, and kept if all earlier ones that overlap it are out. Each pair is tested once at
// most, pairs with an earlier candidate that was suppressed by a better one included, and a
// candidate that is out is done. O(count) memory; the host waits for nothing.
//
// Where a segment is long, most of the earlier boxes are far away. Then the front sorts positions
// by codes that this kernel computes: levels, each eight times as long as all before it, the best
// first, and within a level places along a curve. Each 32 neighbours have bounds, and so have each
// 1024: only boxes in bounds that meet a candidate's are tested. Levels keep what suppresses most,
// the best boxes, at the beginning.
//
// Waiting ends: warps take candidates in their order, by a counter on the device, and wait for
// earlier ones only. Those have been taken by warps that are running. The first of the candidates
// that are not decided waits for nobody.
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

#include "core/numbers/arithmetic.h"
#include "core/suppression/nms.h"
#include "cuda/suppression/places.h"
#include "cuda/suppression/segments.h"
#include "cuda/threads.h"

namespace visops {
namespace {

constexpr uint8_t kOpen = 2;  // in p.kept: to be decided
constexpr int kAtOnce = 4;    // earlier candidates that a lane compares at a time
constexpr int kRun = 1024;    // neighbours with bounds
#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int64_t kFirstLevel = 40;
#else
constexpr int64_t kFirstLevel = 1024;
#endif
constexpr int kLevelBits = 3;

using Decisions = unsigned long long;  // the type that atomicOr() takes

// A kind of boxes, `Shape`, has
//   Number                  the type of the overlap
//   Stored, stored(box)     what memory holds of a box; .box() gives the box back
//   load(params, candidate) a candidate's box
//   Outline, outline(box)   what meet() needs of a Stored
//   meet(a, b)              whether boxes can overlap by more than 0
//   nothing()               a Stored that meets nothing
//   bounds(box)             parallel to the axes, a Box<Number>; nothing<Number>() of nothing()
template <class Shape>
struct NmsScratch {
  using Stored = typename Shape::Stored;
  using Bounds = Box<typename Shape::Number>;
  Stored* boxes;              // [count] in order; nothing() unless a candidate is to be decided
  int64_t* first;             // [count] first position of the segment
  Decisions* decisions;       // [count / 32]
  unsigned long long* taken;  // candidates so far
  // Where p.by_place is given:
  Stored* placed;   // [count] boxes by place
  Bounds* of_warp;  // [count / 32] of those
  Bounds* of_run;   // [count / 1024]

  NmsScratch(const NmsParams& p, Workspace& workspace) {
    const int64_t words = parts_of(p.count, kWarp);
    const int64_t placed_count = p.by_place == nullptr ? 0 : p.count;
    const int64_t warps = parts_of(placed_count, kWarp), runs = parts_of(placed_count, kRun);
    const auto bytes = [](int64_t count, size_t size) {
      return count * static_cast<int64_t>(size);
    };
    char* memory = allocate<char>(workspace, bytes(p.count + placed_count, sizeof(Stored)) +
                                                 bytes(warps + runs, sizeof(Bounds)) +
                                                 bytes(p.count, sizeof(int64_t)) +
                                                 bytes(words + 1, sizeof(Decisions)));
    boxes = take_array<Stored>(&memory, p.count);
    placed = take_array<Stored>(&memory, placed_count);
    first = take_array<int64_t>(&memory, p.count);
    decisions = take_array<Decisions>(&memory, words);
    taken = take_array<unsigned long long>(&memory, 1);
    of_warp = take_array<Bounds>(&memory, warps);
    of_run = take_array<Bounds>(&memory, runs);
  }
};

// The first position of i's image, where images are the segments.
__device__ inline int64_t first_of_image(const NmsParams& p, int64_t i) {
  return i - i % p.per_image;
}

// How many of a segment's candidates the level of its candidate number `rank`, and those before,
// have; the level's number.
__device__ inline int64_t end_of_level(int64_t rank, uint32_t* level) {
  int64_t end = kFirstLevel;
  for (*level = 0; rank >= end && *level < (1u << kLevelBits) - 1; ++*level) end *= 8;
  return rank < end ? end : INT64_MAX / 2;
}

// Codes by position.
template <class Shape>
__global__ void __launch_bounds__(kThreads) nms_codes(const __grid_constant__ NmsParams p) {
  for (int64_t i = first_thread(); i < p.count; i += all_threads()) {
    const int64_t image = first_of_image(p, i);
    const auto box = Shape::load(p, image + p.order[i]);
    uint32_t level, place = 0;
    end_of_level(i - image, &level);
    if (!is_inert(box)) place = place_of(Shape::bounds(Shape::stored(box)));
    p.codes[i] = code_of(level << (32 - kLevelBits) | place >> kLevelBits);
  }
}

template <class Shape>
__global__ void __launch_bounds__(kThreads)
    nms_prepare(const __grid_constant__ NmsParams p, const NmsScratch<Shape> scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (first_thread() == 0) *scratch.taken = 0;
  for (int64_t word = first_warp(); word * kWarp < p.count; word += all_warps()) {
    const int64_t i = word * kWarp + lane;
    bool is_open = false, is_kept = false;
    if (i < p.count) {
      const int64_t image = p.segment == nullptr ? first_of_image(p, i) : 0;
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

// Boxes by place, and bounds. A block has a run.
template <class Shape>
__global__ void __launch_bounds__(kThreads)
    nms_gather(const __grid_constant__ NmsParams p, const NmsScratch<Shape> scratch) {
  using Bounds = typename NmsScratch<Shape>::Bounds;
  __shared__ Bounds of_warp[kRun / kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int64_t run = blockIdx.x; run * kRun < p.count; run += gridDim.x) {
    for (int at = static_cast<int>(threadIdx.x); at < kRun; at += kThreads) {
      const int64_t i = run * kRun + at;
      Bounds bounds = nothing<typename Shape::Number>();
      if (i < p.count) {
        const auto box = scratch.boxes[first_of_image(p, i) + p.by_place[i]];
        scratch.placed[i] = box;
        bounds = Shape::bounds(box);
      }
      bounds = bounds_of_warp(bounds);
      if (lane != 0) continue;
      of_warp[at / kWarp] = bounds;
      if (i < p.count) scratch.of_warp[i / kWarp] = bounds;
    }
    __syncthreads();
    if (threadIdx.x < kRun / kWarp) {
      const Bounds bounds = bounds_of_warp(of_warp[lane]);
      if (lane == 0) scratch.of_run[run] = bounds;
    }
    __syncthreads();  // before the next run's bounds replace these
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

// Whether a kept candidate at [first, i) overlaps the one at i. A lane has kAtOnce of them at a
// time, and says by bits which meet it. Where it has less, what it had before stands in for them.
template <class Shape>
__device__ bool is_suppressed_by_earlier(const NmsScratch<Shape>& scratch,
                                         typename Shape::Number threshold, int64_t first,
                                         int64_t i) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int count = static_cast<int>(i - first);
  const auto mine = Shape::outline(scratch.boxes[i]);
  typename Shape::Outline other[kAtOnce];
#pragma unroll
  for (int j = 0; j < kAtOnce; ++j) other[j] = Shape::outline(Shape::nothing());
  const typename Shape::Stored* next = scratch.boxes + first + lane;
  for (int at = 0; at < count; at += kAtOnce * kWarp, next += kAtOnce * kWarp) {
    unsigned is_there = 0, meets = 0;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (at + lane + j * kWarp >= count) continue;
      other[j] = Shape::outline(next[j * kWarp]);
      is_there |= 1u << j;
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) meets |= Shape::meet(other[j], mine) ? 1u << j : 0;
    meets &= is_there;
    while (__any_sync(kWholeWarp, meets != 0)) {
      const unsigned highest = __reduce_max_sync(kWholeWarp, meets);
      const auto j = static_cast<unsigned>(63 - __clzll(static_cast<int64_t>(highest)));
      if (is_suppressed(scratch, threshold, next + j * kWarp, scratch.boxes + i,
                        (meets >> j & 1) != 0)) {
        return true;
      }
      meets &= (1u << j) - 1;
    }
  }
  return false;
}

// The same, by the boxes near it.
template <class Shape>
__device__ bool is_suppressed_nearby(const NmsParams& p, const NmsScratch<Shape>& scratch,
                                     typename Shape::Number threshold, int64_t first, int64_t i) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto outline = Shape::outline(scratch.boxes[i]);
  const auto bounds = Shape::bounds(scratch.boxes[i]);
  const int64_t last = first + p.per_image < p.count ? first + p.per_image : p.count;
  uint32_t level;
  int64_t end = first + end_of_level(i - first, &level);
  if (end > last) end = last;
  for (int64_t run = first / kRun; run * kRun < end; run += kWarp) {
    const bool is_run = (run + lane) * kRun < end;
    unsigned runs =
        __ballot_sync(kWholeWarp, is_run && bounds_meet(scratch.of_run[run + lane], bounds));
    for (; runs != 0; runs &= runs - 1) {
      const int64_t warp = (run + __ffs(static_cast<int>(runs)) - 1) * (kRun / kWarp);
      const bool is_warp = (warp + lane) * kWarp < end;
      unsigned warps =
          __ballot_sync(kWholeWarp, is_warp && bounds_meet(scratch.of_warp[warp + lane], bounds));
      for (; warps != 0; warps &= warps - 1) {
        const int64_t at = (warp + __ffs(static_cast<int>(warps)) - 1) * kWarp + lane;
        bool tests = first <= at && at < last;
        tests = tests && Shape::meet(Shape::outline(scratch.placed[at]), outline);
        if (!__any_sync(kWholeWarp, tests)) continue;
        const int64_t earlier = tests ? first + p.by_place[at] : i;
        tests = earlier < i;
        if (is_suppressed(scratch, threshold, scratch.boxes + earlier, scratch.boxes + i, tests)) {
          return true;
        }
      }
    }
  }
  return false;
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

template <class Shape, bool uses_places>
__global__ void __launch_bounds__(kThreads)
    nms_decide(const __grid_constant__ NmsParams p, const NmsScratch<Shape> scratch,
               const typename Shape::Number threshold) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int64_t turn = first_warp(); turn < p.count; turn += all_warps()) {
    const unsigned long long taken = lane == 0 ? atomicAdd(scratch.taken, 1ull) : 0;
    const auto i = static_cast<int64_t>(__shfl_sync(kWholeWarp, taken, 0));
    if (p.kept[i] != kOpen) continue;  // the whole warp
    const int64_t first = scratch.first[i];
    bool is_out = false;
    if constexpr (uses_places) {
      is_out = is_suppressed_nearby(p, scratch, threshold, first, i);
    } else {
      is_out = is_suppressed_by_earlier(scratch, threshold, first, i);
    }
    __syncwarp();  // all lanes have read what lane 0 replaces
    if (lane == 0) {
      const Decisions found = is_out ? 1 : Decisions{1} << 32 | 1;
      atomicOr(scratch.decisions + i / kWarp, found << i % kWarp);
      p.kept[i] = is_out ? 0 : 1;
    }
  }
}

template <class Shape>
void launch_nms(const NmsParams& p, Workspace& workspace) {
  if (p.count == 0) return;
  void* stream = workspace.stream();
  if (p.codes != nullptr) {
    launch(nms_codes<Shape>, grid_of_threads(p.count), dim3(kThreads), 0, stream, p);
    return;
  }
  const NmsScratch<Shape> scratch(p, workspace);
  launch(nms_prepare<Shape>, grid_of_threads(p.count), dim3(kThreads), 0, stream, p, scratch);
  if (p.by_place != nullptr) {
    launch(nms_gather<Shape>, grid_for(parts_of(p.count, kRun)), dim3(kThreads), 0, stream, p,
           scratch);
  }
  launch(p.by_place == nullptr ? nms_decide<Shape, false> : nms_decide<Shape, true>,
         grid_of_warps(p.count), dim3(kThreads), 0, stream, p, scratch,
         threshold_of(p.iou_threshold, typename Shape::Number()));
}

}  // namespace
}  // namespace visops
