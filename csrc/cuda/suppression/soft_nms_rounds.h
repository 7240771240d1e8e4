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
// Short segments: boxes and scores are copied to shared memory, in the order of threads. Of each
// kThreads candidates, neighbours belong to different warps, because scores of neighbours are often
// alike, and a short list with three good candidates of one warp would end early.
//
// Long segments: 32 neighbours are a group. It has bounds, and remembers its best candidate and how
// good its second is. A kept box lowers only what it intersects, so a group that meets none of the
// kept boxes stays as it is, and nobody reads it. A lane has a group, and looks which kept boxes
// meet it; the warp then lowers the groups that any of them meets, one after another. It looks for
// a group's best anew if that was kept, or if the best or the second may have fallen.
//
// Bounds are small if neighbours lie near each other. For lists that may have long segments, the
// front sorts candidates by codes that this kernel computes: places of centres along a curve.
// Where scores tie, the candidate's number decides, whatever the order.
//
// Split: blocks stride over every 32 positions and have the segments that begin there. The host
// waits for nothing. Every score is the same product in the same order as on the CPU: what the
// short list computes ahead is forgotten, but for the boxes that it keeps.
//
// Rounding: NOTE [ Overlap ] and decayed(), without contraction (-fmad=false).
//
// Assumes what check_nms(), check_soft_nms() and the fronts establish: every candidate's box
// exists, and equal numbers in `segment` are adjacent. Boxes need not be finite, and scores may be
// NaN.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/dispatch/workspace.h"
#include "core/numbers/element.h"
#include "core/suppression/soft_nms.h"
#include "cuda/launch.h"
#include "cuda/suppression/places.h"
#include "cuda/suppression/segments.h"
#include "cuda/tally.h"

namespace visops {
namespace {

// Candidates of soft suppression compared, on CUDA.

constexpr int kWarp = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;

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

// A candidate among others of its segment: by score, then by number. Read and written whole.
template <class Acc>
struct alignas(16) Standing {
  decltype(rank_of(Acc())) rank;  // 0: nobody
  uint64_t before;                // ~number

  __device__ static Standing nobody() { return {0, 0}; }
  __device__ static Standing of(Acc score, int64_t number) {
    const auto rank = rank_of(score);
    return {rank, rank == 0 ? 0 : ~static_cast<uint64_t>(number)};
  }
  __device__ bool is_somebody() const { return rank != 0; }
  __device__ bool operator>(const Standing& other) const {
    return rank > other.rank || (rank == other.rank && before > other.before);
  }
};

// The lane with the best of the warp; -1 if all have nobody.
template <class Acc>
__device__ int leader_of_warp(const Standing<Acc>& mine) {
  const auto rank = greatest_of_warp(mine.rank);
  if (rank == 0) return -1;
  unsigned leaders = __ballot_sync(kWholeWarp, mine.rank == rank);
  if ((leaders & (leaders - 1)) != 0) {
    const uint64_t before = greatest_of_warp(mine.rank == rank ? mine.before : uint64_t{0});
    leaders = __ballot_sync(kWholeWarp, mine.rank == rank && mine.before == before);
  }
  return __ffs(static_cast<int>(leaders)) - 1;
}

// What `lane` has; nobody for -1.
template <class Acc>
__device__ Standing<Acc> standing_of(const Standing<Acc>& mine, int lane) {
  if (lane < 0) return Standing<Acc>::nobody();
  return {__shfl_sync(kWholeWarp, mine.rank, lane), __shfl_sync(kWholeWarp, mine.before, lane)};
}

template <class Acc>
__device__ Standing<Acc> best_of_warp(const Standing<Acc>& mine) {
  return standing_of(mine, leader_of_warp(mine));
}

// The best of some candidates, and how good the best of the others is.
template <class Acc>
struct Leaders {
  Standing<Acc> best, second;
  int64_t position;  // of the best

  __device__ static Leaders nobody() {
    return {Standing<Acc>::nobody(), Standing<Acc>::nobody(), 0};
  }
  __device__ void add(const Leaders& other) {
    if (other.best > best) {
      second = best;
      if (other.second > second) second = other.second;
      best = other.best;
      position = other.position;
    } else if (other.best > second) {
      second = other.best;
    }
  }
};

constexpr int kCodeThreads = 256;

// Codes of all candidates by number; any for inert ones.
template <class Kind>
__global__ void __launch_bounds__(kCodeThreads)
    soft_nms_codes(const __grid_constant__ SoftNmsParams p) {
  const NmsParams& c = p.candidates;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kCodeThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kCodeThreads + threadIdx.x; i < c.count;
       i += stride) {
    p.codes[i] = code_of(place_of(Kind::bounds_of(Kind::load(c, i))));
  }
}

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kWarps = 2;  // fibers switch at every barrier
#else
constexpr int kWarps = 16;
#endif
constexpr int kThreads = kWarps * kWarp;
constexpr int kListed = 2 * kWarps;          // candidates of the short list
constexpr int kSharedBytes = 80 * kThreads;  // for a segment's boxes and scores
static_assert(kListed <= kWarp, "a lane has one of them");

// Where the i-th candidate of a short segment lies in shared memory, and back.
__device__ inline int slot_of(int i) {
  const int run = i / kThreads * kThreads, at = i - run;
  return run + at % kWarps * kWarp + at / kWarps;
}
__device__ inline int index_at(int slot) {
  const int run = slot / kThreads * kThreads, at = slot - run;
  return run + at % kWarp * kWarps + at / kWarp;
}

// A Kind of boxes has a type Number, in which scores are computed, a type Box, load(), and of boxes
// that are not inert, bounds_of() one and overlap() of two.
template <class Kind>
struct Candidates {
  using Acc = typename Kind::Number;
  typename Kind::Box* boxes;  // these by position
  Acc* scores;                // kSoftNmsOut once a candidate has been kept
  Box<Acc>* bounds;           // of every 32 positions; null: all segments are short
  Leaders<Acc>* leaders;      // of the groups of all segments
  int most_runs;              // kThreads candidates each, that shared memory holds

  __device__ typename Kind::Box* shared_boxes() const {
    return dynamic_shared<typename Kind::Box>();
  }
  __device__ Acc* shared_scores() const {
    return reinterpret_cast<Acc*>(shared_boxes() + most_runs * kThreads);
  }
};

constexpr int64_t kUnknown = INT64_MIN;  // the position of a group's best

template <class Kind>
struct SharedSegment {
  using Acc = typename Kind::Number;
  int64_t begin, end;
  bool is_short;  // boxes and scores are in shared memory
  Standing<Acc> listed[kListed];
  int64_t position[kListed];  // of those on the list
  typename Kind::Box boxes[kListed];
  Standing<Acc> left_out[kWarps];
  typename Kind::Box kept[kListed];  // since the last barrier but one
  Box<Acc> bounds[kListed];          // of those that are not inert
  unsigned lowering;                 // which are not, as bits
  int64_t room;                      // for boxes; 0: done

  // Fewer than 2^31: memory does not hold so many.
  __device__ int groups() const { return static_cast<int>((end - 1) / kWarp - begin / kWarp) + 1; }
  // A long segment's leaders begin at twice its first group: it has more than one group, and so its
  // last ones come before those of the next segment, which may begin in its last group.
  __device__ Leaders<Acc>& leaders(const Candidates<Kind>& all, int group) const {
    return all.leaders[begin / kWarp * 2 + group];
  }
};

// The score of a candidate after a kept box, which is not inert.
template <class Kind>
__device__ typename Kind::Number lowered_by(const SoftNmsParams& p, typename Kind::Number threshold,
                                            const typename Kind::Box& kept,
                                            const typename Kind::Box& box,
                                            typename Kind::Number score) {
  tally();
  const typename Kind::Number overlap = Kind::overlap(kept, box);
  return overlap > threshold ? decayed(p, score, overlap) : score;
}

// The score after the round's kept boxes whose bits are set. Boxes are copies, in registers: from
// references, their least and greatest corners would be chosen first, and then read again.
template <class Kind>
__device__ typename Kind::Number lowered(const SoftNmsParams& p, typename Kind::Number threshold,
                                         const SharedSegment<Kind>& shared, unsigned lowering,
                                         const typename Kind::Box box,
                                         typename Kind::Number score) {
  using Acc = typename Kind::Number;
  for (unsigned rest = lowering; rest != 0 && score >= static_cast<Acc>(0); rest &= rest - 1) {
    const typename Kind::Box kept = shared.kept[__ffs(static_cast<int>(rest)) - 1];
    score = lowered_by<Kind>(p, threshold, kept, box, score);
  }
  return score;
}

template <class Acc>
__device__ Standing<Acc> standing_at(const SoftNmsParams& p, Acc score, int64_t position) {
  if (!(score >= static_cast<Acc>(0))) return Standing<Acc>::nobody();
  return Standing<Acc>::of(score, p.by_code ? p.candidates.order[position] : position);
}

// Lowers this thread's candidates of a short segment; returns its leaders.
template <class Kind, class Acc = typename Kind::Number>
__device__ Leaders<Acc> lower_own(const SoftNmsParams& p, const Candidates<Kind>& all,
                                  Acc threshold, const SharedSegment<Kind>& shared) {
  auto mine = Leaders<Acc>::nobody();
  const unsigned lowering = shared.lowering;
  auto slot = static_cast<int>(threadIdx.x);
  for (int64_t i = shared.begin + index_at(slot); i < shared.end; i += kThreads, slot += kThreads) {
    const Acc before = all.shared_scores()[slot];
    if (!(before >= static_cast<Acc>(0))) continue;
    Acc score = before;
    if (lowering != 0) {
      score = lowered(p, threshold, shared, lowering, all.shared_boxes()[slot], before);
      if (score != before) all.shared_scores()[slot] = score;
    }
    mine.add({standing_at(p, score, i), Standing<Acc>::nobody(), i});
  }
  return mine;
}

// The first of a lane's groups; the others follow at a distance of kThreads.
__device__ inline int own_group() {
  const int thread = static_cast<int>(threadIdx.x);
  return thread / kWarp + thread % kWarp * kWarps;
}

// The kept boxes that meet a group, as bits.
template <class Kind, class Acc>
__device__ unsigned meeting(const SharedSegment<Kind>& shared, const Box<Acc> bounds) {
  unsigned found = 0;
  for (unsigned rest = shared.lowering; rest != 0; rest &= rest - 1) {
    const Box<Acc>& kept = shared.bounds[__ffs(static_cast<int>(rest)) - 1];
    found |= bounds_meet(kept, bounds) ? rest & (0 - rest) : 0;
  }
  return found;
}

// Lowers the candidates of a warp's groups, of a long segment; returns this lane's leaders.
template <class Kind, class Acc = typename Kind::Number>
__device__ Leaders<Acc> lower_groups(const SoftNmsParams& p, const Candidates<Kind>& all,
                                     Acc threshold, const SharedSegment<Kind>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, groups = shared.groups();
  for (int start = static_cast<int>(threadIdx.x) / kWarp; start < groups; start += kThreads) {
    const int own = start + lane * kWarps;
    unsigned lowering = 0;
    auto second = Standing<Acc>::nobody().rank;
    bool is_unknown = false;
    if (own < groups) {
      const Leaders<Acc>& leaders = shared.leaders(all, own);
      is_unknown = leaders.position == kUnknown;
      second = leaders.second.rank;
      if (is_unknown || leaders.best.is_somebody()) {
        lowering = meeting(shared, all.bounds[shared.begin / kWarp + own]);
      }
    }
    const unsigned unknown = __ballot_sync(kWholeWarp, is_unknown);
    unsigned rest = unknown | __ballot_sync(kWholeWarp, lowering != 0);
    for (; rest != 0; rest &= rest - 1) {
      const int owner = __ffs(static_cast<int>(rest)) - 1;
      const unsigned by = __shfl_sync(kWholeWarp, lowering, owner);
      const auto least = __shfl_sync(kWholeWarp, second, owner);
      const int64_t first = (shared.begin / kWarp + start + owner * kWarps) * kWarp;
      const int64_t i = first + lane;
      Acc score = static_cast<Acc>(kSoftNmsOut);
      bool matters = (unknown & 1u << owner) != 0;
      if (shared.begin <= i && i < shared.end) {
        const Acc before = all.scores[i];
        score = before;
        if (by != 0 && before >= static_cast<Acc>(0)) {
          score = lowered(p, threshold, shared, by, all.boxes[i], before);
          if (score != before) {
            all.scores[i] = score;
            matters = matters || rank_of(before) >= least;
          }
        }
      }
      if (!__any_sync(kWholeWarp, matters)) continue;  // the leaders haven't changed
      auto standing = standing_at(p, score, i);
      const int leader = leader_of_warp(standing);
      const auto best = standing_of(standing, leader);
      if (lane == leader) standing = Standing<Acc>::nobody();
      const auto next = best_of_warp(standing);
      if (lane == owner) shared.leaders(all, own) = {best, next, first + leader};
    }
  }
  auto mine = Leaders<Acc>::nobody();
  for (int own = own_group(); own < groups; own += kThreads) mine.add(shared.leaders(all, own));
  return mine;
}

// Writes the warp's best two, and the best that it leaves out. A thread offers its best.
template <class Kind, class Acc = typename Kind::Number>
__device__ void list_best(const Leaders<Acc>& mine, SharedSegment<Kind>* shared) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  auto offered = mine.best, rest = mine.best;
  for (int i = 2 * warp; i < 2 * warp + 2; ++i) {
    const int leader = leader_of_warp(offered);
    if (lane != (leader < 0 ? 0 : leader)) continue;
    shared->listed[i] = offered;
    shared->position[i] = mine.position;
    offered = Standing<Acc>::nobody();
    rest = mine.second;
  }
  rest = best_of_warp(rest);
  if (lane == 0) shared->left_out[warp] = rest;
}

// Keeps boxes of the short list in turn. Called by the first warp.
template <class Kind>
__device__ void keep_listed(const SoftNmsParams& p, const Candidates<Kind>& all,
                            typename Kind::Number threshold, SharedSegment<Kind>* shared) {
  using Acc = typename Kind::Number;
  const int lane = static_cast<int>(threadIdx.x);
  const auto limit = best_of_warp(lane < kWarps ? shared->left_out[lane] : Standing<Acc>::nobody());
  auto mine = lane < kListed ? shared->listed[lane] : Standing<Acc>::nobody();
  const auto least = limit.rank + (mine.before > limit.before ? 0u : 1u);  // to be better than that
  int64_t position = 0;
  int slot = 0;  // in shared memory
  typename Kind::Box box = {};
  Acc score = 0;
  if (mine.is_somebody()) {
    position = shared->position[lane];
    if (shared->is_short) slot = slot_of(static_cast<int>(position - shared->begin));
    box = shared->is_short ? all.shared_boxes()[slot] : all.boxes[position];
    score = shared->is_short ? all.shared_scores()[slot] : all.scores[position];
    shared->boxes[lane] = box;
  }
  const unsigned inert = __ballot_sync(kWholeWarp, is_inert(box));
  const int64_t room = shared->room;
  __syncwarp();
  bool is_last = false;
  int kept = 0, turn = -1;  // of this lane's
  unsigned lowering = 0;
  for (; kept < room; ++kept) {
    if (mine.rank < least) mine.rank = 0;  // for this round
    const int leader = leader_of_warp(mine);
    if (leader < 0) {
      is_last = !limit.is_somebody();
      break;
    }
    if (lane == leader) {
      turn = kept;
      mine.rank = 0;
    }
    if ((inert & 1u << leader) != 0) continue;
    lowering |= 1u << kept;
    if (!mine.is_somebody()) continue;
    score = lowered_by<Kind>(p, threshold, shared->boxes[leader], box, score);
    mine.rank = rank_of(score);
  }
  if (turn >= 0) {
    p.candidates.kept[position] = 1;
    static_cast<Acc*>(p.scores)[position] = score;
    if (shared->is_short) {
      all.shared_scores()[slot] = static_cast<Acc>(kSoftNmsOut);
    } else {
      all.scores[position] = static_cast<Acc>(kSoftNmsOut);
      const auto group = static_cast<int>(position / kWarp - shared->begin / kWarp);
      shared->leaders(all, group).position = kUnknown;
    }
    shared->kept[turn] = box;
    shared->bounds[turn] = Kind::bounds_of(box);
  }
  if (lane == 0) {
    shared->lowering = lowering;
    shared->room = is_last ? 0 : room - kept;
  }
}

// Brings a segment to where its rounds want it.
template <class Kind>
__device__ void prepare_segment(const Candidates<Kind>& all, const SharedSegment<Kind>& shared) {
  using Acc = typename Kind::Number;
  if (shared.is_short) {
    auto slot = static_cast<int>(threadIdx.x);
    for (int64_t i = shared.begin + index_at(slot); i < shared.end;
         i += kThreads, slot += kThreads) {
      all.shared_boxes()[slot] = all.boxes[i];
      all.shared_scores()[slot] = all.scores[i];
    }
    return;
  }
  const int groups = shared.groups();
  for (int own = own_group(); own < groups; own += kThreads) {
    shared.leaders(all, own) = {Standing<Acc>::nobody(), Standing<Acc>::nobody(), kUnknown};
  }
}

// Called by all threads of the block, which synchronise here.
template <class Kind>
__device__ void suppress_segment(const SoftNmsParams& p, const Candidates<Kind>& all, int64_t begin,
                                 SharedSegment<Kind>* shared) {
  const NmsParams& c = p.candidates;
  const auto threshold = decay_threshold<typename Kind::Number>(p);
  if (threadIdx.x == 0) {
    const int64_t end = end_of_segment(c.segment, begin, c.count);
    shared->begin = begin;
    shared->end = end;
    shared->is_short = end - begin <= all.most_runs * kThreads;
    shared->room = c.max_output < 0 ? end - begin : c.max_output;
    shared->lowering = 0;
  }
  __syncthreads();
  prepare_segment(all, *shared);
  while (shared->room > 0) {
    list_best(shared->is_short ? lower_own(p, all, threshold, *shared)
                               : lower_groups(p, all, threshold, *shared),
              shared);
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
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i - lane < c.count;
       i += stride) {
    Box<Acc> bounds = nothing<Acc>();
    if (i < c.count) {
      const typename Kind::Box box = Kind::load(c, c.order[i]);
      const Acc score = static_cast<const Acc*>(p.scores)[i] + static_cast<Acc>(0);  // no -0
      const bool takes_part = static_cast<double>(score) >= p.min_score;
      all.boxes[i] = is_inert(box) ? typename Kind::Box{} : box;  // others overlap that by 0
      all.scores[i] = takes_part ? score : static_cast<Acc>(kSoftNmsOut);
      c.kept[i] = 0;
      if (takes_part && !is_inert(box)) bounds = Kind::bounds_of(box);
    }
    if (all.bounds == nullptr) continue;
    bounds = bounds_of_warp(bounds);
    if (lane == 0) all.bounds[i / kWarp] = bounds;
  }
}

template <class Kind>
__global__ void __launch_bounds__(kThreads)
    soft_nms_suppress(const __grid_constant__ SoftNmsParams p,
                      const __grid_constant__ Candidates<Kind> all) {
  __shared__ SharedSegment<Kind> shared;
  const NmsParams& c = p.candidates;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t parts = (c.count + kWarp - 1) / kWarp;
  for (int64_t part = blockIdx.x; part < parts; part += gridDim.x) {
    const int64_t i = part * kWarp + lane;
    const bool begins = i < c.count && (i == 0 || c.segment[i] != c.segment[i - 1]);
    for (unsigned rest = __ballot_sync(kWholeWarp, begins); rest != 0; rest &= rest - 1) {
      const int64_t begin = part * kWarp + __ffs(static_cast<int>(rest)) - 1;
      suppress_segment(p, all, begin, &shared);
    }
  }
}

template <class Kind>
void launch_soft_nms(const SoftNmsParams& p, Workspace& workspace) {
  using Acc = typename Kind::Number;
  const int64_t count = p.candidates.count;
  if (count == 0) return;
  const int64_t runs = (count + kThreads - 1) / kThreads, groups = (count + kWarp - 1) / kWarp;
  if (p.codes != nullptr) {
    launch(soft_nms_codes<Kind>, grid_for((count + kCodeThreads - 1) / kCodeThreads),
           dim3(kCodeThreads), 0, workspace.stream(), p);
    return;
  }
  constexpr int kRunBytes = kThreads * static_cast<int>(sizeof(typename Kind::Box) + sizeof(Acc));
  constexpr int kRuns = kSharedBytes / kRunBytes;
  static_assert(kRuns * kRunBytes + sizeof(SharedSegment<Kind>) <= 48 << 10, "for every device");
  const bool has_long = runs > kRuns;
  const Candidates<Kind> all = {allocate<typename Kind::Box>(workspace, count),
                                allocate<Acc>(workspace, count),
                                has_long ? allocate<Box<Acc>>(workspace, groups) : nullptr,
                                has_long ? allocate<Leaders<Acc>>(workspace, 2 * groups) : nullptr,
                                has_long ? kRuns : static_cast<int>(runs)};
  launch(soft_nms_prepare<Kind>, grid_for(runs), dim3(kThreads), 0, workspace.stream(), p, all);
  launch(soft_nms_suppress<Kind>, grid_for(groups), dim3(kThreads), all.most_runs * kRunBytes,
         workspace.stream(), p, all);
}

}  // namespace
}  // namespace visops
