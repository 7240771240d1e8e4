// Asks for memory before it is needed. Hardware foresees the rows of a plane, but neither the next
// plane nor places that the data name.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace visops {
namespace {

inline int64_t address_of(const void* pointer) {
  return static_cast<int64_t>(reinterpret_cast<intptr_t>(pointer));
}

// Bytes [address, address + bytes), which need not exist.
template <bool is_written = false>
VISOPS_ALWAYS_INLINE void fetch_soon([[maybe_unused]] int64_t address,
                                     [[maybe_unused]] int64_t bytes) {
#if defined(__GNUC__)
  constexpr int64_t kLine = 64;
  for (int64_t line = 0; line < bytes; line += kLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(address + line), is_written ? 1 : 0);
  }
#endif
}

}  // namespace
}  // namespace visops
