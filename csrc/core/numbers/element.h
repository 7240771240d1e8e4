// Element types: names, sizes, and conversion to and from the accumulation type.
//
// Half and BFloat16 are storage only; arithmetic is in float. Conversions round to nearest even.
// Integer results round half to even and saturate.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/platform.h"

namespace visops {

enum class DType : int {
  kBool,
  kUInt8,
  kInt8,
  kInt16,
  kUInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64
};

// Bytes of torch's largest element, complex128.
constexpr int64_t kLargestElement = 16;

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
// A boolean. Bytes seen as booleans, such as OpenCV's masks of 0 and 255, are true unless 0.
struct Truth {
  uint8_t value;
};

VISOPS_FN int64_t element_size(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8: return 1;
    case DType::kInt16:
    case DType::kUInt16:
    case DType::kFloat16:
    case DType::kBFloat16: return 2;
    case DType::kInt32:
    case DType::kFloat32: return 4;
    case DType::kInt64:
    case DType::kFloat64: return 8;
  }
  return 0;
}

VISOPS_FN bool is_floating(DType dtype) { return dtype >= DType::kFloat16; }

template <class To, class From>
VISOPS_FN To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast needs equal sizes");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

// Every 64-bit ARM processor converts halves. nvcc does not know the type.
#if defined(__aarch64__) && defined(__GNUC__) && !defined(__CUDACC__)
#define VISOPS_NATIVE_HALF 1
#endif

VISOPS_FN float half_to_float(uint16_t bits) {
#if defined(VISOPS_NATIVE_HALF)
  return bit_cast<__fp16>(bits);
#elif defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) return bit_cast<float>(sign | 0x7f800000 | ((magnitude & 0x3ff) << 13));
  // Shift exponent and mantissa into place and rescale by 2^(127-15): exact, subnormals included.
  const float scaled = bit_cast<float>(magnitude << 13) * 5.192296858534828e+33f;
  return bit_cast<float>(sign | bit_cast<uint32_t>(scaled));
#endif
}

VISOPS_FN uint16_t float_to_half(float value) {
#if defined(VISOPS_NATIVE_HALF)
  return bit_cast<uint16_t>(static_cast<__fp16>(value));
#elif defined(__CUDA_ARCH__)
  uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
#else
  const uint32_t bits = bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // rounds to infinity
  if (magnitude < 0x38800000) {
    // Subnormal: adding 0.5 lets the float adder round at half's last place.
    const float rounded = bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bit_cast<uint32_t>(rounded) - 0x3f000000));
  }
  const uint32_t odd = (magnitude >> 13) & 1;
  return static_cast<uint16_t>(sign | ((magnitude + 0xc8000fff + odd) >> 13));
#endif
}

VISOPS_FN uint16_t float_to_bfloat16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint16_t rounded;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
  return rounded;
#else
  const uint32_t bits = bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
#endif
}

// The type that samples of a stored type are computed in.
template <class T>
struct Accumulate {
  using type = float;
};
template <>
struct Accumulate<double> {
  using type = double;
};

// An integer below 2^23 as a float. GPUs convert integers at a fraction of the rate at which they
// add: as the low bits of 2^23's mantissa it needs no conversion.
VISOPS_FN float small_to_float(uint32_t value) {
#if defined(__CUDA_ARCH__)
  return bit_cast<float>(0x4b000000 | value) - 8388608.0f;
#else
  return static_cast<float>(value);
#endif
}

VISOPS_FN float load_element(const Truth* p) { return p->value != 0 ? 1.0f : 0.0f; }
VISOPS_FN float load_element(const uint8_t* p) { return small_to_float(*p); }
VISOPS_FN float load_element(const int16_t* p) { return static_cast<float>(*p); }
VISOPS_FN float load_element(const uint16_t* p) { return small_to_float(*p); }
VISOPS_FN float load_element(const Half* p) { return half_to_float(p->bits); }
VISOPS_FN float load_element(const BFloat16* p) {
  return bit_cast<float>(static_cast<uint32_t>(p->bits) << 16);
}
VISOPS_FN float load_element(const float* p) { return *p; }
VISOPS_FN double load_element(const double* p) { return *p; }

// Round half to even without a library call: adding 1.5 * 2^23 leaves the integer in the low bits.
VISOPS_FN int32_t round_saturate(float value, float low, float high) {
  const float above = value > low ? value : low;  // NaN becomes `low`
  const float clamped = above < high ? above : high;
  return bit_cast<int32_t>(clamped + 12582912.0f) - 0x4b400000;
}

VISOPS_FN void store_element(uint8_t* p, float v) {
  *p = static_cast<uint8_t>(round_saturate(v, 0.0f, 255.0f));
}
VISOPS_FN void store_element(int16_t* p, float v) {
  *p = static_cast<int16_t>(round_saturate(v, -32768.0f, 32767.0f));
}
VISOPS_FN void store_element(uint16_t* p, float v) {
  *p = static_cast<uint16_t>(round_saturate(v, 0.0f, 65535.0f));
}
VISOPS_FN void store_element(Half* p, float v) { p->bits = float_to_half(v); }
VISOPS_FN void store_element(BFloat16* p, float v) { p->bits = float_to_bfloat16(v); }
VISOPS_FN void store_element(float* p, float v) { *p = v; }
VISOPS_FN void store_element(double* p, double v) { *p = v; }

VISOPS_FN bool is_finite(double v) { return v - v == 0.0; }

// From a dtype to the C++ type of a map's elements. Accumulate<T> is what they are computed in.

// f(T*), for maps that have a gradient.
template <class F>
static VISOPS_ALWAYS_INLINE void with_floating_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kFloat16: return f(static_cast<Half*>(nullptr));
    case DType::kBFloat16: return f(static_cast<BFloat16*>(nullptr));
    case DType::kFloat64: return f(static_cast<double*>(nullptr));
    default: return f(static_cast<float*>(nullptr));
  }
}

// f(T*), for everything that is sampled: images and feature maps.
template <class F>
static VISOPS_ALWAYS_INLINE void with_element_type(DType dtype, const F& f) {
  if (dtype == DType::kUInt8) return f(static_cast<uint8_t*>(nullptr));
  with_floating_type(dtype, f);
}

// Numbers rounded to a dtype.

// As torch rounds a number that it compares with elements of this dtype.
VISOPS_FN double rounded_to(DType dtype, double value) {
  if (dtype == DType::kFloat64) return value;
  const auto single = static_cast<float>(value);
  if (dtype == DType::kFloat16) return half_to_float(float_to_half(single));
  if (dtype == DType::kBFloat16) {
    const BFloat16 stored = {float_to_bfloat16(single)};
    return load_element(&stored);
  }
  return single;
}

}  // namespace visops
