// Suppression by lowering scores, on CUDA, for boxes of any kind.
//
// NOTE [ Soft suppression on CUDA ]
// Strategy: a block has a segment. The boxes that it keeps are sequential by nature: which one is
// next is known when the last one has lowered the others. But scores only fall. So each warp puts
// its two best candidates on a short list, and says how good the best is that it left out. One warp
// then goes from box to box within the list, for as long as its best is better than what was left
// out. After that all threads lower their candidates by the boxes that were kept, in order, and
// look for their best on the way. A candidate's box and score are read once for some ten kept
// boxes, and the block waits twice for them, not for each.
//
// Scores and boxes of a segment that fits are copied to shared memory; longer ones are read from
// global memory again and again. They lie there in the order of threads: of each kThreads
// candidates, neighbours belong to different warps, because scores of neighbours are often alike,
// and a short list with three good candidates of one warp would end early.
//
// Split: blocks stride over every 32 positions and have the segments that begin there. The host
// waits for nothing. Every score is the same product in the same order as on the CPU: what the
// short list computes ahead is forgotten, but for the boxes that it keeps.
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
constexpr int kWarps = 2;  // fibers switch at every barrier
#else
constexpr int kWarps = 16;
#endif
constexpr int kThreads = kWarps * kWarp;
constexpr int kListed = 2 * kWarps;          // candidates of the short list
constexpr int kSharedBytes = 80 * kThreads;  // for a segment's boxes and scores
constexpr unsigned kWholeWarp = 0xffffffffu;
static_assert(kListed <= kWarp, "a lane has one of them");

__device__ inline uint32_t greatest_of_warp(uint32_t value) {
  return __reduce_max_sync(kWholeWarp, value);
}
__device__ inline uint64_t greatest_of_warp(uint64_t value) {
  const auto high = static_cast<uint32_t>(value >> 32), low = static_cast<uint32_t>(value);
  const uint32_t most = greatest_of_warp(high);
  return static_cast<uint64_t>(most) << 32 | greatest_of_warp(high == most ? low : 0u);
}

// A number that rises with the score; 0 for those below 0, which are out, and NaN.
__device__ inline uint32_t rank_of(float score) {
  return score >= 0.0f ? bit_cast<uint32_t>(score + 0.0f) + 1 : 0;  // -0 as 0
}
__device__ inline uint64_t rank_of(double score) {
  return score >= 0.0 ? bit_cast<uint64_t>(score + 0.0) + 1 : 0;
}

// A candidate among others: by score, then by position.
template <class Acc>
struct Standing {
  decltype(rank_of(Acc())) rank;  // 0: nobody
  uint64_t before;                // ~position

  __device__ static Standing nobody() { return {0, 0}; }
  __device__ static Standing of(Acc score, int64_t position) {
    const auto rank = rank_of(score);
    return {rank, rank == 0 ? 0 : ~static_cast<uint64_t>(position)};
  }
  __device__ int64_t position() const { return static_cast<int64_t>(~before); }
  __device__ bool is_somebody() const { return rank != 0; }
  __device__ bool operator==(const Standing& other) const {
    return rank == other.rank && before == other.before;
  }
  __device__ bool operator>(const Standing& other) const {
    return rank > other.rank || (rank == other.rank && before > other.before);
  }
};

template <class Acc>
__device__ Standing<Acc> best_of_warp(const Standing<Acc>& mine) {
  const auto rank = greatest_of_warp(mine.rank);
  return {rank, greatest_of_warp(mine.rank == rank ? mine.before : uint64_t{0})};
}

// Where candidates lie in memory, and back.
__device__ inline int64_t place_of(int64_t position) {
  const int64_t run = position / kThreads * kThreads;
  const int at = static_cast<int>(position - run);
  return run + at % kWarps * kWarp + at / kWarps;
}
__device__ inline int64_t position_at(int64_t place) {
  const int64_t run = place / kThreads * kThreads;
  const int at = static_cast<int>(place - run);
  return run + at % kWarp * kWarps + at / kWarp;
}

// Places of all candidates: whole runs.
VISOPS_FN int64_t all_places(const NmsParams& c) {
  return (c.count + kThreads - 1) / kThreads * kThreads;
}

// A Kind of boxes has a type Number, in which scores are computed, a type Box, load() and
// overlap() of two boxes that are not inert.
template <class Kind>
struct Candidates {
  typename Kind::Box* boxes;
  typename Kind::Number* scores;  // kSoftNmsOut once a candidate has been kept
  int64_t first;                  // place of the first of them

  __device__ typename Kind::Box& box(int64_t place) const { return boxes[place - first]; }
  __device__ typename Kind::Number& score(int64_t place) const { return scores[place - first]; }
};

template <class Kind>
struct SharedSegment {
  using Acc = typename Kind::Number;
  Standing<Acc> listed[kListed];
  Standing<Acc> left_out[kWarps];
  typename Kind::Box kept[kListed];  // since the last barrier but one
  unsigned lowering;                 // those of them that are not inert, as bits
  int64_t room;                      // for boxes; 0: done
  int64_t end;
};

// The score of a candidate after the kept boxes whose bits are set.
template <class Kind>
__device__ typename Kind::Number lowered(const SoftNmsParams& p, typename Kind::Number threshold,
                                         const typename Kind::Box* kept, unsigned lowering,
                                         const typename Kind::Box& box,
                                         typename Kind::Number score) {
  using Acc = typename Kind::Number;
  if (is_inert(box)) return score;
  for (unsigned rest = lowering; rest != 0; rest &= rest - 1) {
    const Acc overlap = Kind::overlap(kept[__ffs(static_cast<int>(rest)) - 1], box);
    if (!(overlap > threshold)) continue;
    score = decayed(p, score, overlap);
    if (!(score >= static_cast<Acc>(0))) break;
  }
  return score;
}

// Writes the warp's best two, and the best that it leaves out. A thread offers one, its best, and
// knows its second.
template <class Kind, class Acc = typename Kind::Number>
__device__ void list_best(const Standing<Acc>& best, const Standing<Acc>& second,
                          SharedSegment<Kind>* shared) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const Standing<Acc> first = best_of_warp(best);
  const Standing<Acc> next = best_of_warp(best == first ? Standing<Acc>::nobody() : best);
  Standing<Acc> rest = best;
  if (best == first || best == next) rest = second;
  rest = best_of_warp(rest);
  if (threadIdx.x % kWarp != 0) return;
  shared->listed[2 * warp] = first;
  shared->listed[2 * warp + 1] = next;
  shared->left_out[warp] = rest;
}

// Keeps boxes of the short list in turn. Called by the first warp.
template <class Kind>
__device__ void keep_listed(const SoftNmsParams& p, const Candidates<Kind> all,
                            typename Kind::Number threshold, SharedSegment<Kind>* shared) {
  using Acc = typename Kind::Number;
  const int lane = static_cast<int>(threadIdx.x);
  auto mine = lane < kListed ? shared->listed[lane] : Standing<Acc>::nobody();
  const auto limit = best_of_warp(lane < kWarps ? shared->left_out[lane] : Standing<Acc>::nobody());
  typename Kind::Box box = {};
  Acc score = 0;
  if (mine.is_somebody()) {
    const int64_t place = place_of(mine.position());
    box = all.box(place);
    score = all.score(place);
  }
  int64_t room = shared->room;
  unsigned lowering = 0;
  for (int n = 0; room > 0; ++n) {
    const auto best = best_of_warp(mine);
    if (!(best > limit)) {
      if (!limit.is_somebody()) room = 0;  // nobody is left
      break;
    }
    if (mine == best) {
      const int64_t position = best.position();
      p.candidates.kept[position] = 1;
      static_cast<Acc*>(p.scores)[position] = score;
      all.score(place_of(position)) = static_cast<Acc>(kSoftNmsOut);
      shared->kept[n] = box;
      mine = Standing<Acc>::nobody();
    }
    --room;
    __syncwarp();
    if (is_inert(shared->kept[n])) continue;
    lowering |= 1u << n;
    if (!mine.is_somebody()) continue;
    score = lowered<Kind>(p, threshold, shared->kept, 1u << n, box, score);
    mine = Standing<Acc>::of(score, mine.position());
  }
  __syncwarp();  // all lanes have read `room`
  if (lane == 0) {
    shared->lowering = lowering;
    shared->room = room;
  }
}

// Called by all threads of the block, which synchronise here.
template <class Kind>
__device__ void suppress_segment(const SoftNmsParams& p, const Candidates<Kind>& given,
                                 int64_t begin, int most_runs, SharedSegment<Kind>* shared) {
  using Acc = typename Kind::Number;
  const NmsParams& c = p.candidates;
  const Acc threshold = decay_threshold<Acc>(p);
  if (threadIdx.x == 0) {
    shared->end = end_of_segment(c.segment, begin, c.count);
    shared->room = c.max_output < 0 ? shared->end - begin : c.max_output;
    shared->lowering = 0;
  }
  __syncthreads();
  const int64_t end = shared->end, first = begin / kThreads * kThreads;
  const int64_t ahead = position_at(threadIdx.x) - threadIdx.x;  // of a position before its place
  const bool fits = end - first <= static_cast<int64_t>(most_runs) * kThreads;
  auto* boxes = dynamic_shared<typename Kind::Box>();
  auto* scores = reinterpret_cast<Acc*>(boxes + most_runs * kThreads);
  const Candidates<Kind> all = {fits ? boxes : given.boxes, fits ? scores : given.scores,
                                fits ? first : 0};
  if (fits) {
    for (int64_t place = first + threadIdx.x; place + ahead < end; place += kThreads) {
      if (place + ahead < begin) continue;
      all.box(place) = given.box(place);
      all.score(place) = given.score(place);
    }
  }
  while (shared->room > 0) {
    const unsigned lowering = shared->lowering;
    auto best = Standing<Acc>::nobody(), second = best;
    for (int64_t place = first + threadIdx.x; place + ahead < end; place += kThreads) {
      if (place + ahead < begin) continue;
      Acc score = all.score(place);
      if (!(score >= static_cast<Acc>(0))) continue;
      if (lowering != 0) {
        const Acc before = score;
        score = lowered<Kind>(p, threshold, shared->kept, lowering, all.box(place), score);
        if (score != before) all.score(place) = score;
      }
      const auto mine = Standing<Acc>::of(score, place + ahead);
      if (mine > best) {
        second = best;
        best = mine;
      } else if (mine > second) {
        second = mine;
      }
    }
    list_best(best, second, shared);
    __syncthreads();
    if (threadIdx.x < kWarp) keep_listed(p, all, threshold, shared);
    __syncthreads();
  }
  __syncthreads();  // all have seen that there is no room, before the next segment has some
}

template <class Kind>
__global__ void __launch_bounds__(kThreads)
    soft_nms_prepare(const __grid_constant__ SoftNmsParams p, const Candidates<Kind> all) {
  using Acc = typename Kind::Number;
  const NmsParams& c = p.candidates;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads;
  for (int64_t place = first + threadIdx.x; place < all_places(c); place += stride) {
    const int64_t i = position_at(place);
    if (i >= c.count) continue;
    all.boxes[place] = Kind::load(c, c.order[i]);
    c.kept[i] = 0;
    const Acc score = static_cast<const Acc*>(p.scores)[i] + static_cast<Acc>(0);  // no -0
    const bool takes_part = static_cast<double>(score) >= p.min_score;
    all.scores[place] = takes_part ? score : static_cast<Acc>(kSoftNmsOut);
  }
}

template <class Kind>
__global__ void __launch_bounds__(kThreads)
    soft_nms_suppress(const __grid_constant__ SoftNmsParams p, const Candidates<Kind> all,
                      const int most_runs) {
  __shared__ SharedSegment<Kind> shared;
  const NmsParams& c = p.candidates;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t parts = (c.count + kWarp - 1) / kWarp;
  for (int64_t part = blockIdx.x; part < parts; part += gridDim.x) {
    const int64_t i = part * kWarp + lane;
    const bool begins = i < c.count && (i == 0 || c.segment[i] != c.segment[i - 1]);
    for (unsigned rest = __ballot_sync(kWholeWarp, begins); rest != 0; rest &= rest - 1) {
      const int64_t begin = part * kWarp + __ffs(static_cast<int>(rest)) - 1;
      suppress_segment(p, all, begin, most_runs, &shared);
    }
  }
}

template <class Kind>
void launch_soft_nms(const SoftNmsParams& p, Workspace& workspace) {
  using Box = typename Kind::Box;
  using Acc = typename Kind::Number;
  const int64_t count = p.candidates.count;
  if (count == 0) return;
  const int64_t runs = all_places(p.candidates) / kThreads;
  const Candidates<Kind> all = {allocate<Box>(workspace, runs * kThreads),
                                allocate<Acc>(workspace, runs * kThreads), 0};
  launch(soft_nms_prepare<Kind>, grid_for(runs), dim3(kThreads), 0, workspace.stream(), p, all);
  constexpr int kRunBytes = kThreads * static_cast<int>(sizeof(Box) + sizeof(Acc));
  constexpr int kRuns = kSharedBytes / kRunBytes;
  const int most_runs = runs < kRuns ? static_cast<int>(runs) : kRuns;
  launch(soft_nms_suppress<Kind>, grid_for((count + kWarp - 1) / kWarp), dim3(kThreads),
         most_runs * kRunBytes, workspace.stream(), p, all, most_runs);
}

}  // namespace
}  // namespace visops
