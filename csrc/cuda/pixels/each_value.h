// The values of a channel, in any order: for extremes and sums of integers.
#pragma once

#include "core/numbers/element.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// use(value) for each of them, by all kThreads threads of the block; 16 bytes are loaded at once.
template <int kThreads, class T, class Use>
__device__ void each_value(const T* data, int64_t count, const Use& use) {
  struct alignas(16) Words {
    uint32_t word[4];
  };
  constexpr int kValues = sizeof(Words) / sizeof(T);
  static_assert(kThreads >= kValues, "a thread for each value beside whole words");
  const auto thread = static_cast<int>(threadIdx.x);
  const auto beyond = static_cast<int>(reinterpret_cast<uintptr_t>(data) % sizeof(Words));
  const int64_t aligned = (kValues - beyond / static_cast<int>(sizeof(T))) % kValues;
  const int64_t before = aligned < count ? aligned : count;
  const int64_t whole = (count - before) / kValues, after = before + whole * kValues;
  if (thread < before) use(data[thread]);
  if (thread < count - after) use(data[after + thread]);
  for (int64_t i = thread; i < whole; i += kThreads) {
    const Words words = reinterpret_cast<const Words*>(data + before)[i];
#pragma unroll
    for (int j = 0; j < kValues; ++j) {
      if constexpr (sizeof(T) == 1) {
        use(static_cast<T>(words.word[j / 4] >> (8 * (j % 4))));
      } else {
        use(bit_cast<T>(words.word[j]));
      }
    }
  }
}

}  // namespace
}  // namespace visops
