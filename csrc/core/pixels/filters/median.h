// Medians of small squares: what fronts and kernels share.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/element.h"

namespace visops {

// Up to this side, squares go through a network: NOTE [ Small medians ].
constexpr int64_t kMostSmallMedian = 7;

constexpr int kMedianChunk = 64;

struct MedianParams {
  // [side], each of width + side - 1 values; kMedianChunk more can be read.
  const void* const* rows;
  void* to;             // [width] of the same dtype, none of the rows
  DType dtype;          // uint8 or float32
  int64_t width, side;  // side: 3, 5 or 7
};

// For one row, in the calling thread.
extern KernelStub<MedianParams> median_stub;

// The median of a few values, and the order of values: the arithmetic that all backends share.
//
// NOTE [ Small medians ]
// Forgetful selection: of the first N / 2 + 2 of N values, neither the least nor the greatest can
// be the median. Both are dropped and the next value is taken in, until three are left. Places are
// known when it is compiled, so it is a network of exchanges without a jump. Neither order of
// summation nor rounding is involved. In squares of 3 and 5, NaN takes part in exchanges as in any
// comparison: the result depends on its place, and is the same everywhere. Source of the idea: D.
// E. Knuth, "The Art of Computer Programming", volume 3, section 5.3.3.
//
// NOTE [ Large medians ]
// Floating values of squares of 7 and more are compared by integers: -0 is before 0, and NaN behind
// all numbers. Compilers make vectors of so many exchanges of integers only.

template <int begin, int end, class Each>
VISOPS_HOT_FN void unrolled(const Each& each) {
  if constexpr (begin < end) {
    each(std::integral_constant<int, begin>());
    unrolled<begin + 1, end>(each);
  }
}

template <class T>
VISOPS_HOT_FN void exchange(T& a, T& b) {
  const T less = a < b ? a : b;
  b = a < b ? b : a;
  a = less;
}

// The median of `count` values in v and those in `rest`, whose number is count - 3.
template <int count, class T>
VISOPS_HOT_FN T select_median(T* v, const T* rest) {
  constexpr int half = count / 2;
  unrolled<0, half>([&](auto i) { exchange(v[i.value], v[count - 1 - i.value]); });
  unrolled<1, (count + 1) / 2>([&](auto i) { exchange(v[0], v[i.value]); });
  unrolled<half, count - 1>([&](auto i) { exchange(v[i.value], v[count - 1]); });
  if constexpr (count == 3) {
    return v[1];
  } else {
    v[0] = rest[0];
    return select_median<count - 1>(v, rest + 1);
  }
}

// The median of a square of values, row by row; changes them.
template <int side, class T>
VISOPS_HOT_FN T median_of_square(T (&v)[side * side]) {
  constexpr int first = side * side / 2 + 2;
  return select_median<first>(v, v + first);
}

VISOPS_HOT_FN uint32_t order_of(uint8_t value) { return value; }
VISOPS_HOT_FN uint32_t order_of(float value) {
  const auto bits = bit_cast<uint32_t>(value);
  const uint32_t is_nan = (bits & 0x7fffffff) > 0x7f800000 ? 0xffffffff : 0;
  return (bits ^ ((0 - (bits >> 31)) | 0x80000000)) | is_nan;
}

// The value that has this order.
template <class T>
VISOPS_HOT_FN T value_of_order(uint32_t order) {
  if constexpr (sizeof(T) == 1) {
    return static_cast<T>(order);
  } else {
    return bit_cast<T>(order ^ (((order >> 31) - 1) | 0x80000000));
  }
}

// Whether the network compares the order of values, not themselves.
template <int side, class T>
constexpr bool kMedianByOrder = side > 5 && sizeof(T) > 1;

}  // namespace visops
