// Numbers of the host, copied to the memory of the device.
//
// NOTE [ Numbers as parameters ]
// Kernels often need some thousand numbers that the host has computed. A copy from pageable memory
// takes the host longer than a small kernel takes the GPU, and one from pinned memory needs a pool
// of buffers that live until the GPU has read them. Parameters of a kernel have neither: a launch
// copies them. So numbers travel as parameters of a kernel that stores them where others look for
// them, 32 KB to a launch, which CUDA takes since 12.1. A few have a kernel with fewer parameters,
// since a launch copies all that there are.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "core/dispatch/workspace.h"
#include "core/numbers/arithmetic.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kSendThreads = 128;
constexpr size_t kMostParameterBytes = 32764;
#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kFewWords = 7, kManyWords = 40;  // so that tests see several launches
#else
constexpr int kFewWords = 960, kManyWords = 8184;
#endif

template <int kCount>
struct SentWords {
  uint32_t* to;
  int32_t count;
  uint32_t word[kCount];
};

static_assert(sizeof(SentWords<kManyWords>) <= kMostParameterBytes, "a launch takes no more");

template <int kCount>
__global__ void __launch_bounds__(kSendThreads)
    store_words(const __grid_constant__ SentWords<kCount> words) {
  const int step = static_cast<int>(gridDim.x) * kSendThreads;
  for (int i = static_cast<int>(blockIdx.x) * kSendThreads + static_cast<int>(threadIdx.x);
       i < words.count; i += step) {
    words.to[i] = words.word[i];
  }
}

template <int kCount>
void send_parts(const char* from, uint32_t* to, int64_t count, void* stream) {
  constexpr int64_t kBytes = sizeof(uint32_t);
  for (int64_t first = 0; first < count; first += kCount) {
    SentWords<kCount> words = {};
    words.to = to + first;
    words.count = static_cast<int32_t>(std::min<int64_t>(kCount, count - first));
    std::memcpy(words.word, from + first * kBytes, static_cast<size_t>(words.count * kBytes));
    launch(store_words<kCount>, grid_for(parts_of(words.count, kSendThreads)), dim3(kSendThreads),
           0, stream, words);
  }
}

void send_words(const void* from, void* to, int64_t count, void* stream) {
  const auto send = count <= kFewWords ? send_parts<kFewWords> : send_parts<kManyWords>;
  send(static_cast<const char*>(from), static_cast<uint32_t*>(to), count, stream);
}

// Numbers in the GPU's memory, for the length of the call.
template <class T>
const T* sent(const T* numbers, int64_t count, Workspace& workspace) {
  constexpr int64_t kWord = sizeof(uint32_t);
  static_assert(sizeof(T) % kWord == 0 && std::is_trivially_copyable_v<T>, "whole words");
  T* const to = allocate<T>(workspace, count);
  const auto bytes = count * static_cast<int64_t>(sizeof(T));
  send_words(numbers, to, bytes / kWord, workspace.stream());
  return to;
}

template <class T>
const T* sent(const std::vector<T>& numbers, Workspace& workspace) {
  return sent(numbers.data(), static_cast<int64_t>(numbers.size()), workspace);
}

}  // namespace
}  // namespace visops
