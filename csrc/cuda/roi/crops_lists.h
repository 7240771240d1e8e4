// The boxes that concern a block of threads, by rising index.
#pragma once

#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kListThreads = 256;
constexpr int kListWarp = 32;

// `Box` is an index, or what else is to be known of a box.
template <int Most, class Box = int32_t>
struct BoxList {
  Box boxes[Most];
  int count;  // more than Most: the list is incomplete
  int in_warps[kListThreads / kListWarp];
};

// Appends the box of every thread that wants it, in the threads' order. Called by all threads of
// the block, which synchronise here; the list may be read when this returns. Synchronise again
// before the next call.
template <int Most, class Box>
__device__ inline void append_box(bool is_wanted, const Box& box, BoxList<Most, Box>* list) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kListWarp, warp = thread / kListWarp;
  const unsigned wanted = __ballot_sync(0xffffffffu, is_wanted);
  if (lane == 0) list->in_warps[warp] = __popc(wanted);
  __syncthreads();
  int at = list->count;
  for (int w = 0; w < warp; ++w) at += list->in_warps[w];
  at += __popc(wanted & ((1u << lane) - 1u));
  if (is_wanted && at < Most) list->boxes[at] = box;
  __syncthreads();  // all have read the count
  if (thread == kListThreads - 1) list->count = at + (is_wanted ? 1 : 0);
  __syncthreads();
}

// Called by all threads of the block. append_box() must be called before the list is read: it
// synchronises first.
template <int Most, class Box>
__device__ inline void clear_list(BoxList<Most, Box>* list) {
  if (threadIdx.x == 0) list->count = 0;
}

}  // namespace
}  // namespace visops
