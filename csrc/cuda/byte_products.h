// __byte_perm(), __funnelshift_r(), __dp2a_lo() and __dp2a_hi(), which few files need.
#pragma once

#include "cuda/launch.h"

#if defined(VISOPS_CUDA_EMULATION)
#include <byte_products.h>  // of the emulation, as <cuda_runtime.h> is
#endif

#include "core/numbers/element.h"

namespace visops {
namespace {

constexpr float kByteOffset = 8388608.0f;  // 2^23

// Byte `k` of a word, plus kByteOffset: a float whose lowest bits are the byte needs no conversion,
// and differences of such are exact.
__device__ inline float offset_byte(uint32_t word, int k) {
  const uint32_t selector = 0x7440u + static_cast<uint32_t>(k);
#if defined(__CUDA_ARCH__)
  float number;  // without a move between registers of two types
  asm("prmt.b32 %0, %1, %2, %3;" : "=f"(number) : "r"(word), "n"(0x4b000000), "r"(selector));
  return number;
#else
  return bit_cast<float>(__byte_perm(word, 0x4b000000u, selector));
#endif
}

}  // namespace
}  // namespace visops
