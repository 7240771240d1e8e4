#include "core/dispatch/workspace.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace visops {

// New memory is mapped at first touch, 4 KiB at a time, which for a batch of images costs more than
// warping it. From 4 MiB on we ask for large pages, as NumPy does; a refusal is harmless. Addresses
// must begin a page, which on ARM may have 64 KiB.
void prefer_large_pages([[maybe_unused]] void* data, [[maybe_unused]] int64_t bytes) {
#if defined(__linux__)
  constexpr int64_t kPage = 65536, kWorthIt = int64_t{1} << 22;
  if (bytes < kWorthIt) return;
  const auto begin = (reinterpret_cast<uintptr_t>(data) + kPage - 1) & ~uintptr_t{kPage - 1};
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) & ~uintptr_t{kPage - 1};
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace visops
