// Suppression by lowering scores, on CUDA, for boxes of any kind.
//
// NOTE [ Soft suppression on CUDA ]
// A block has the segments that begin among as many positions as it has threads, one after another.
// A segment takes a round for each box that it keeps. All threads lower the scores of their
// candidates by the box kept last and look for the highest score on the way; one reduction over the
// block finds the next box. A segment's rounds are sequential by nature; different segments, such
// as images and classes, run at once. The host waits for nothing. Every score is the same product
// in the same order as on the CPU.
//
// Rounding: NOTE [ Overlap ] and decayed(), without contraction (-fmad=false).
//
// Assumes what check_nms(), check_soft_nms() and the fronts establish: every candidate's box
// exists, equal numbers in `segment` are adjacent, and `order` rises within a segment. Boxes need
// not be finite, and scores may be NaN.

#pragma once

#include "core/suppression/soft_nms.h"
#include "core/workspace.h"
#include "cuda/suppression/segments.h"

namespace visops {
namespace {

constexpr int kWarp = 32;
#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kThreads = 2 * kWarp;  // fibers switch at every barrier of every round
#else
constexpr int kThreads = 256;
#endif
constexpr int kWarps = kThreads / kWarp;

template <class Acc>
struct Best {
  Acc score;
  int64_t position;

  __device__ bool is_before(const Best& other) const {
    return score > other.score || (score == other.score && position < other.position);
  }
};

template <class Acc>
__device__ Best<Acc> best_of_warp(Best<Acc> best) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const Best<Acc> other = {__shfl_xor_sync(0xffffffffu, best.score, step),
                             __shfl_xor_sync(0xffffffffu, best.position, step)};
    if (other.is_before(best)) best = other;
  }
  return best;
}

// Returns it to all threads of the block, which may use `shared` again after their next
// __syncthreads().
template <class Acc>
__device__ Best<Acc> best_of_block(Best<Acc> best, Best<Acc>* shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  best = best_of_warp(best);
  if (lane == 0) shared[threadIdx.x / kWarp] = best;
  __syncthreads();
  return best_of_warp(shared[lane % kWarps]);
}

template <class Acc>
struct SharedSegment {
  Best<Acc> best[kWarps];
  int64_t end;
};

// A Kind of boxes has a type Number, in which scores are computed, a type Box, load() and
// overlap() of two boxes that are not inert.
template <class Kind>
__device__ void suppress_segment(const SoftNmsParams& p, const typename Kind::Box* boxes,
                                 int64_t begin, SharedSegment<typename Kind::Number>* shared) {
  using Acc = typename Kind::Number;
  using Box = typename Kind::Box;
  const NmsParams& c = p.candidates;
  auto* scores = static_cast<Acc*>(p.scores);
  const Acc threshold = decay_threshold<Acc>(p), out = static_cast<Acc>(kSoftNmsOut);
  if (threadIdx.x == 0) shared->end = end_of_segment(c.segment, begin, c.count);
  __syncthreads();
  const int64_t end = shared->end;
  int64_t room = c.max_output < 0 ? end - begin : c.max_output;
  bool lowers = false;
  Box kept = {};
  for (; room > 0; --room) {
    Best<Acc> best = {out, end};
    for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
      Acc score = scores[i];
      if (c.kept[i] != 0 || !(score >= static_cast<Acc>(0))) continue;
      if (lowers) {
        const Box box = boxes[i];
        const Acc iou = is_inert(box) ? static_cast<Acc>(0) : Kind::overlap(kept, box);
        if (iou > threshold) scores[i] = score = decayed(p, score, iou);
        if (!(score >= static_cast<Acc>(0))) continue;
      }
      const Best<Acc> mine = {score, i};
      if (mine.is_before(best)) best = mine;
    }
    best = best_of_block(best, shared->best);
    if (best.position == end) break;  // nothing is left
    kept = boxes[best.position];
    lowers = !is_inert(kept);
    if (threadIdx.x == 0) c.kept[best.position] = 1;
    __syncthreads();
  }
  __syncthreads();  // before the next segment's end replaces this one
}

template <class Kind>
__global__ void __launch_bounds__(kThreads)
    soft_nms_prepare(const __grid_constant__ SoftNmsParams p, typename Kind::Box* const boxes) {
  using Acc = typename Kind::Number;
  const NmsParams& c = p.candidates;
  auto* scores = static_cast<Acc*>(p.scores);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < c.count;
       i += stride) {
    boxes[i] = Kind::load(c, c.order[i]);
    c.kept[i] = 0;
    const Acc score = scores[i] + static_cast<Acc>(0);  // no -0, as on the CPU
    const bool takes_part = static_cast<double>(score) >= p.min_score;
    scores[i] = takes_part ? score : static_cast<Acc>(kSoftNmsOut);
  }
}

template <class Kind>
__global__ void __launch_bounds__(kThreads)
    soft_nms_suppress(const __grid_constant__ SoftNmsParams p,
                      const typename Kind::Box* const boxes) {
  __shared__ SharedSegment<typename Kind::Number> shared;
  __shared__ unsigned begins[kWarps];  // positions at which a segment begins, as bits
  const NmsParams& c = p.candidates;
  const int64_t parts = (c.count + kThreads - 1) / kThreads;
  for (int64_t part = blockIdx.x; part < parts; part += gridDim.x) {
    const int64_t i = part * kThreads + threadIdx.x;
    const bool mine = i < c.count && (i == 0 || c.segment[i] != c.segment[i - 1]);
    const unsigned bits = __ballot_sync(0xffffffffu, mine);
    if (threadIdx.x % kWarp == 0) begins[threadIdx.x / kWarp] = bits;
    __syncthreads();
    for (int w = 0; w < kWarps; ++w) {
      for (unsigned rest = begins[w]; rest != 0; rest &= rest - 1) {
        const int lane = __ffs(static_cast<int>(rest)) - 1;
        suppress_segment<Kind>(p, boxes, part * kThreads + w * kWarp + lane, &shared);
      }
    }
    __syncthreads();  // before the next part's beginnings replace these
  }
}

template <class Kind>
void launch_soft_nms(const SoftNmsParams& p, Workspace& workspace) {
  const int64_t count = p.candidates.count;
  if (count == 0) return;
  auto* boxes = allocate<typename Kind::Box>(workspace, count);
  const dim3 blocks = grid_for((count + kThreads - 1) / kThreads);
  launch(soft_nms_prepare<Kind>, blocks, dim3(kThreads), 0, workspace.stream(), p, boxes);
  launch(soft_nms_suppress<Kind>, blocks, dim3(kThreads), 0, workspace.stream(), p, boxes);
}

}  // namespace
}  // namespace visops
