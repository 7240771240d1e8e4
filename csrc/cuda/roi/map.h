// Maps of RoIAlign on CUDA: their pixels, and what the threads of a warp are.
#pragma once

#include <stdexcept>

#include "core/roi/layout.h"

namespace visops {
namespace {

constexpr int kWarp = 32;

// load_element(), but for Half by the one instruction that GPUs have for it.
template <class T>
__device__ inline typename Accumulate<T>::type load_number(const T* at) {
  return load_element(at);
}
#if defined(__CUDA_ARCH__)
__device__ inline float load_number(const Half* at) {
  float number;
  asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(at->bits));
  return number;
}
#endif

// Whether lanes are channels, so that a warp reads and writes side by side; else they are bins, or
// pixels of a row.
VISOPS_FN bool lanes_are_channels(const RoiMap& map, int64_t channels) {
  return map.channel_stride == 1 && channels >= kWarp;
}

VISOPS_FN int64_t parts_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

template <class F>
void with_floating_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kFloat16: return f(static_cast<Half*>(nullptr));
    case DType::kBFloat16: return f(static_cast<BFloat16*>(nullptr));
    case DType::kFloat32: return f(static_cast<float*>(nullptr));
    case DType::kFloat64: return f(static_cast<double*>(nullptr));
    default: throw std::logic_error("visops.roi_align: no kernel for this dtype");
  }
}

template <class F>
void with_element_type(DType dtype, const F& f) {
  if (dtype == DType::kUInt8) return f(static_cast<uint8_t*>(nullptr));
  with_floating_type(dtype, f);
}

}  // namespace
}  // namespace visops
