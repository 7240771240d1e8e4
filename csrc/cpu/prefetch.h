// NOTE [ Prefetching ]
// Hardware foresees the rows of a plane, but neither the next plane nor places that the data name.
// A box of RoIAlign reads a few pixels of every row, each some cache lines long and at irregular
// distances; so while some pixels are being summed, the next ones are prefetched. Otherwise three
// quarters of the time is spent waiting (measured: the means of 1,000 boxes on 256 channels of 200
// x 336 take 20 ms, without prefetching 75). Deformable attention and convolution do the same.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace visops {
namespace {

inline int64_t address_of(const void* pointer) {
  return static_cast<int64_t>(reinterpret_cast<intptr_t>(pointer));
}

// Prefetches bytes [address, address + bytes); any address is safe.
template <bool is_written = false>
VISOPS_ALWAYS_INLINE void prefetch([[maybe_unused]] int64_t address,
                                   [[maybe_unused]] int64_t bytes) {
#if defined(__GNUC__)
  constexpr int64_t kLine = 64;
  for (int64_t line = 0; line < bytes; line += kLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(address + line), is_written ? 1 : 0);
  }
#endif
}

// Prefetches `count` elements from `from` on.
template <class T>
VISOPS_ALWAYS_INLINE void prefetch(const T* from, int64_t count) {
  prefetch(address_of(from), count * static_cast<int64_t>(sizeof(T)));
}

}  // namespace
}  // namespace visops
