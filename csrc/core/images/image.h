// Images in memory: strides, and `fill` as an element.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/images/sampling.h"
#include "core/numbers/element.h"

namespace visops {

constexpr int64_t kMaxFill = 64;  // fronts cut a wider per-channel fill into groups of channels

struct Strides {
  int64_t batch, channel, row, column;  // in elements
};

// GPUs read images through the read-only path, so stores can't delay the loads behind them.
template <class T>
VISOPS_FN T load_readonly(const T* p) {
#if defined(__CUDA_ARCH__)
  return __ldg(p);
#else
  return *p;
#endif
}
VISOPS_FN Half load_readonly(const Half* p) { return Half{load_readonly(&p->bits)}; }
VISOPS_FN BFloat16 load_readonly(const BFloat16* p) { return BFloat16{load_readonly(&p->bits)}; }

// `fill` as an element of `dtype`: its bytes, lowest first.
VISOPS_FN uint64_t fill_bits(DType dtype, double fill) {
  const float single = static_cast<float>(fill);
  switch (dtype) {
    case DType::kBool: return fill != 0.0;
    case DType::kUInt8: return static_cast<uint64_t>(round_saturate(single, 0.0f, 255.0f));
    case DType::kUInt16: return static_cast<uint64_t>(round_saturate(single, 0.0f, 65535.0f));
    case DType::kInt16: return static_cast<uint64_t>(round_saturate(single, -32768.0f, 32767.0f));
    case DType::kInt8:
    case DType::kInt32:
    case DType::kInt64:  // check_fill() has checked the range
      return static_cast<uint64_t>(static_cast<int64_t>(rint(fill)));
    case DType::kFloat16: return float_to_half(single);
    case DType::kBFloat16: return float_to_bfloat16(single);
    case DType::kFloat32: return bit_cast<uint32_t>(single);
    case DType::kFloat64: return bit_cast<uint64_t>(fill);
  }
  return 0;
}

// The element whose bytes are the low bytes of `bits`. Little-endian only, like torch itself.
template <class T>
VISOPS_FN T element_from_bits(uint64_t bits) {
  T element;
  memcpy(&element, &bits, sizeof(T));
  return element;
}

}  // namespace visops
