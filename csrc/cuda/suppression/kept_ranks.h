// Going through flags in order, a block together.
#pragma once

#include <cstdint>

#include "cuda/threads.h"

namespace visops {
namespace {

constexpr int kWords = 8;  // of 32 flags, which a warp has at a time
constexpr int kOfWarp = kWords * kWarp;
constexpr int kFlagsAtOnce = kWarps * kOfWarp;

// f(i, rank) for the i of [begin, end) that are kept; ranks count from `rank` on, and those of
// `most` and more are left out. Returns the rank after the last one, or more than `most`. Called by
// all threads of a block. A warp has 256 flags in turn, so that ranks rise from warp to warp, and
// counts them by their bits.
template <class IsKept, class F>
__device__ int64_t each_kept(int64_t begin, int64_t end, int64_t rank, int64_t most,
                             const IsKept& is_kept, const F& f) {
  __shared__ int of_warp[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int64_t at = begin; at < end && rank < most; at += kFlagsAtOnce) {
    const int64_t mine = at + warp * kOfWarp + lane;
    unsigned bits[kWords];
    int count = 0;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int64_t i = mine + w * kWarp;
      bits[w] = __ballot_sync(kWholeWarp, i < end && is_kept(i));
      count += __popc(bits[w]);
    }
    if (lane == 0) of_warp[warp] = count;
    __syncthreads();
    int64_t to_warp = rank;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) to_warp += of_warp[w];
      rank += of_warp[w];
    }
    __syncthreads();  // before the next counts replace these
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int64_t to = to_warp + __popc(bits[w] & ((1u << lane) - 1));
      if ((bits[w] >> lane & 1) != 0 && to < most) f(mine + w * kWarp, to);
      to_warp += __popc(bits[w]);
    }
  }
  return rank;
}

}  // namespace
}  // namespace visops
