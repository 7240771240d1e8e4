// What the emulation counts: the steps of work that kernels count (csrc/cuda/tally.h), and
// launches.
#pragma once

#include <atomic>

namespace cuda_emulation {

inline std::atomic<long long>& tally_count() {
  static std::atomic<long long> count{0};
  return count;
}

// Launches of one kernel in a row count once: with small constants, they do what is one on a GPU.
struct LaunchCount {
  std::atomic<long long> count{0};
  std::atomic<const void*> last{nullptr};

  void add(const void* kernel) {
    if (last.exchange(kernel) != kernel) ++count;
  }
  long long take() {
    last = nullptr;
    return count.exchange(0);
  }
};

inline LaunchCount& launch_count() {
  static LaunchCount count;
  return count;
}

}  // namespace cuda_emulation
