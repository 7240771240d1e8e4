// The least distance along a line, for blocks of adjacent pixels.
#pragma once

#include <cstdint>

#include "core/masks/distance.h"

namespace visops {
namespace {

constexpr int kBlock = 64;  // pixels

// The best candidates so far of a block.
template <class T, bool kSites>
struct Best {
  alignas(64) T near[kBlock];
  alignas(64) int32_t site[kSites ? kBlock : 1];

  // Only the first `count` pixels exist; the others have distance 0, so that nobody looks for them.
  void start(const T* nears, const int32_t* sites, int64_t count) {
    for (int64_t i = 0; i < kBlock; ++i) near[i] = i < count ? nears[i] : static_cast<T>(0);
    if constexpr (kSites) {
      for (int64_t i = 0; i < kBlock; ++i) site[i] = sites[i];
    }
  }

  T farthest() const {
    T most = near[0];
    for (int i = 1; i < kBlock; ++i) most = near[i] > most ? near[i] : most;
    return most;
  }

  // Candidates `step` away, one for each pixel.
  template <Metric kMetric>
  VISOPS_ALWAYS_INLINE void offer(const T* VISOPS_RESTRICT nears,
                                  const int32_t* VISOPS_RESTRICT sites, T step) {
    for (int i = 0; i < kBlock; ++i) {
      const T found = distance_through(kMetric, nears[i], step);
      if constexpr (kSites) {
        const bool wins = found < near[i] || (found == near[i] && sites[i] < site[i]);
        site[i] = wins ? sites[i] : site[i];
        near[i] = wins ? found : near[i];
      } else {
        near[i] = found < near[i] ? found : near[i];
      }
    }
  }
};

// Looks for better candidates k = 1, 2, ... steps away, until none can be better. `at(k)` gives
// them, before and after the block, as a pair of pointers, null beyond the line's ends. Returns how
// many steps that took.
template <Metric kMetric, class T, bool kSites, class Candidates>
VISOPS_ALWAYS_INLINE int64_t search(Best<T, kSites>& best, int64_t reach,
                                    const Candidates& candidates) {
  constexpr int64_t kLooks = 4;  // steps between looks at what is still needed
  for (int64_t k = 1; k <= reach; k += kLooks) {
    const T most = best.farthest();
    const T next = step_of(kMetric, static_cast<int32_t>(k), T());
    if (next > most || (!kSites && next == most)) return k;
    for (int64_t at = k; at < k + kLooks && at <= reach; ++at) {
      candidates(at, step_of(kMetric, static_cast<int32_t>(at), T()));
    }
  }
  return reach;
}

}  // namespace
}  // namespace visops
