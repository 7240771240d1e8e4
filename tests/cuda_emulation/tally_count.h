// The steps of work that emulated kernels have counted (csrc/cuda/tally.h).
#pragma once

#include <atomic>

namespace cuda_emulation {

inline std::atomic<long long>& tally_count() {
  static std::atomic<long long> count{0};
  return count;
}

}  // namespace cuda_emulation
