// Parameters of kernels, copied to the memory of the device: as parameters of a kernel, which
// unlike copies from memory of the host wait for nothing.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/dispatch/workspace.h"
#include "cuda/launch.h"

namespace visops {
namespace {

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kLaidWords = 7;  // so that tests see several launches
#else
constexpr int kLaidWords = 960;  // parameters have 4 KB
#endif
constexpr int kLayThreads = 256;

struct LaidWords {
  int32_t count;
  uint32_t word[kLaidWords];
};

__global__ void __launch_bounds__(kLayThreads)
    lay_down_words(const __grid_constant__ LaidWords words, uint32_t* const to) {
  for (int i = static_cast<int>(threadIdx.x); i < words.count; i += kLayThreads) {
    to[i] = words.word[i];
  }
}

// Numbers in the GPU's memory, for the length of the call.
template <class T>
const T* laid_down(const std::vector<T>& numbers, Workspace& workspace) {
  static_assert(sizeof(T) % sizeof(uint32_t) == 0 && std::is_trivially_copyable_v<T>,
                "whole words");
  const auto* from = reinterpret_cast<const char*>(numbers.data());
  const auto count = static_cast<int64_t>(numbers.size() * sizeof(T) / sizeof(uint32_t));
  auto* const to = allocate<T>(workspace, static_cast<int64_t>(numbers.size()));
  for (int64_t first = 0; first < count; first += kLaidWords) {
    LaidWords words = {};
    words.count = static_cast<int32_t>(std::min<int64_t>(kLaidWords, count - first));
    std::memcpy(words.word, from + first * 4, static_cast<size_t>(words.count) * 4);
    launch(lay_down_words, dim3(1), dim3(kLayThreads), 0, workspace.stream(), words,
           reinterpret_cast<uint32_t*>(to) + first);
  }
  return to;
}

}  // namespace
}  // namespace visops
