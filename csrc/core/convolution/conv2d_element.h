// How elements of each type are stored and summed.
#pragma once

#include "core/numbers/arithmetic.h"

namespace visops {

// Stored as kParts numbers of type Stored (2: real, imaginary), summed as Value.
template <class Stored_, class Value_, int parts>
struct ConvElement {
  using Stored = Stored_;
  using Value = Value_;
  static constexpr int kParts = parts;
};

// Bytes become 16 bits: no instruction set multiplies bytes.
VISOPS_FN uint16_t conv_value(uint8_t v) { return v; }
VISOPS_FN uint16_t conv_value(uint16_t v) { return v; }
VISOPS_FN uint32_t conv_value(uint32_t v) { return v; }
VISOPS_FN uint64_t conv_value(uint64_t v) { return v; }
VISOPS_FN float conv_value(Half v) { return load_element(&v); }
VISOPS_FN float conv_value(BFloat16 v) { return load_element(&v); }
VISOPS_FN float conv_value(float v) { return v; }
VISOPS_FN double conv_value(double v) { return v; }

VISOPS_FN void conv_store(uint8_t* p, uint16_t v) { *p = static_cast<uint8_t>(v); }
VISOPS_FN void conv_store(uint16_t* p, uint16_t v) { *p = v; }
VISOPS_FN void conv_store(uint32_t* p, uint32_t v) { *p = v; }
VISOPS_FN void conv_store(uint64_t* p, uint64_t v) { *p = v; }
VISOPS_FN void conv_store(Half* p, float v) { store_element(p, v); }
VISOPS_FN void conv_store(BFloat16* p, float v) { store_element(p, v); }
VISOPS_FN void conv_store(float* p, float v) { *p = v; }
VISOPS_FN void conv_store(double* p, double v) { *p = v; }

// Calls work(ConvElement<...>{}) for `kind`, which is not kBool.
template <class Work>
static inline void with_conv_element(Arithmetic kind, const Work& work) {
  switch (kind) {
    case Arithmetic::kBool: return;
    case Arithmetic::kInt8: return work(ConvElement<uint8_t, uint16_t, 1>{});
    case Arithmetic::kInt16: return work(ConvElement<uint16_t, uint16_t, 1>{});
    case Arithmetic::kInt32: return work(ConvElement<uint32_t, uint32_t, 1>{});
    case Arithmetic::kInt64: return work(ConvElement<uint64_t, uint64_t, 1>{});
    case Arithmetic::kFloat16: return work(ConvElement<Half, float, 1>{});
    case Arithmetic::kBFloat16: return work(ConvElement<BFloat16, float, 1>{});
    case Arithmetic::kFloat32: return work(ConvElement<float, float, 1>{});
    case Arithmetic::kFloat64: return work(ConvElement<double, double, 1>{});
    case Arithmetic::kComplex32: return work(ConvElement<Half, float, 2>{});
    case Arithmetic::kComplex64: return work(ConvElement<float, float, 2>{});
    case Arithmetic::kComplex128: return work(ConvElement<double, double, 2>{});
  }
}

VISOPS_FN int64_t conv_parts(Arithmetic kind) { return is_complex(kind) ? 2 : 1; }

}  // namespace visops
