// Candidates of soft suppression compared, on CUDA.
#pragma once

#include <cstdint>

#include "core/element.h"
#include "cuda/launch.h"

namespace visops {
namespace {

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

}  // namespace
}  // namespace visops
