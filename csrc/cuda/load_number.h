// Reading elements as the type that they are computed in.
#pragma once

#include "core/element.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// load_element(), with the GPU's own conversion for Half.
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

}  // namespace
}  // namespace visops
