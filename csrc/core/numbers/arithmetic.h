// How sums of products are computed, for operators that take every type of element.
//
// Integers wrap, as in NumPy and torch. Sums and products modulo 2^n have the same bits signed and
// unsigned, so only the size of an integer type matters. Booleans are "or" and "and". Complex
// elements are pairs (real, imaginary) of their own type.
#pragma once

#include <cstdint>

#include "core/numbers/element.h"
#include "core/platform.h"

namespace visops {

enum class Arithmetic : int {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kComplex32,
  kComplex64,
  kComplex128
};

VISOPS_FN bool is_complex(Arithmetic kind) { return kind >= Arithmetic::kComplex32; }
VISOPS_FN bool is_integer(Arithmetic kind) {
  return kind >= Arithmetic::kInt8 && kind <= Arithmetic::kInt64;
}

// Bytes of an element; a complex one is a pair.
VISOPS_FN int64_t element_size(Arithmetic kind) {
  switch (kind) {
    case Arithmetic::kBool:
    case Arithmetic::kInt8: return 1;
    case Arithmetic::kInt16:
    case Arithmetic::kFloat16:
    case Arithmetic::kBFloat16: return 2;
    case Arithmetic::kInt32:
    case Arithmetic::kFloat32:
    case Arithmetic::kComplex32: return 4;
    case Arithmetic::kInt64:
    case Arithmetic::kFloat64:
    case Arithmetic::kComplex64: return 8;
    case Arithmetic::kComplex128: return 16;
  }
  return 0;
}

// Bytes of a term of a sum on the CPU, or of each part of a complex one. Bytes are computed in 16
// bits, as no instruction set multiplies bytes; halves in float32.
VISOPS_FN int64_t term_size(Arithmetic kind) {
  switch (kind) {
    case Arithmetic::kInt8:
    case Arithmetic::kInt16: return 2;
    case Arithmetic::kInt64:
    case Arithmetic::kFloat64:
    case Arithmetic::kComplex128: return 8;
    default: return 4;
  }
}

namespace {

// How many parts of a size make up a count.

VISOPS_FN int64_t parts_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

}  // namespace

// The lesser and the greater of two sizes. std::min and std::max are functions that objects share,
// and kernels are compiled for several instruction sets.

VISOPS_FN int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
VISOPS_FN int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

// Pixels beyond the rim, mirrored without repeating the rim.

// The pixel that stands for number `i` of `n`, mirrored at 0 and n - 1 until it is inside.
VISOPS_FN int32_t mirrored(int32_t i, int32_t n) {
  while (i < 0 || i >= n) {
    if (n == 1) return 0;
    i = i < 0 ? -i : 2 * (n - 1) - i;
  }
  return i;
}

}  // namespace visops
