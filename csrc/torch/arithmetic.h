// The arithmetic of a tensor's elements, for operators that take every type.
#pragma once

#include "core/check.h"
#include "core/numbers/arithmetic.h"
#include "torch/tensor.h"

namespace visops {

// Throws, naming op and argument, for types without sums (quantized, 8-bit floats).
inline Arithmetic arithmetic_of(const char* op, const char* argument, const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case ScalarType::Bool: return Arithmetic::kBool;
    case ScalarType::Byte:
    case ScalarType::Char: return Arithmetic::kInt8;
    case ScalarType::Short:
    case ScalarType::UInt16: return Arithmetic::kInt16;
    case ScalarType::Int:
    case ScalarType::UInt32: return Arithmetic::kInt32;
    case ScalarType::Long:
    case ScalarType::UInt64: return Arithmetic::kInt64;
    case ScalarType::Half: return Arithmetic::kFloat16;
    case ScalarType::BFloat16: return Arithmetic::kBFloat16;
    case ScalarType::Float: return Arithmetic::kFloat32;
    case ScalarType::Double: return Arithmetic::kFloat64;
    case ScalarType::ComplexHalf: return Arithmetic::kComplex32;
    case ScalarType::ComplexFloat: return Arithmetic::kComplex64;
    case ScalarType::ComplexDouble: return Arithmetic::kComplex128;
    default:
      fail(op, argument, " has dtype ", dtype_text(tensor.scalar_type()),
           ", which is not supported");
  }
}

}  // namespace visops
