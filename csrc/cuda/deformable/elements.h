// Adjacent elements that a lane reads and writes at once.
#pragma once

#include <cstdint>

namespace visops {
namespace {

constexpr int kWideBytes = 16;
template <class T>
constexpr int kWideCount = kWideBytes / static_cast<int>(sizeof(T));

inline bool begins_wide(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % kWideBytes == 0;
}

template <class T, int kCount>
struct alignas(kCount * sizeof(T)) Elements {
  T value[kCount];
};

template <int kCount, class T>
__device__ Elements<T, kCount> load_elements(const T* from) {
  return *reinterpret_cast<const Elements<T, kCount>*>(from);
}

template <int kCount, class T>
__device__ void store_elements(T* to, const Elements<T, kCount>& elements) {
  *reinterpret_cast<Elements<T, kCount>*>(to) = elements;
}

}  // namespace
}  // namespace visops
