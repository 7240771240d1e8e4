// NOTE [ Sums of col2im ] (core/convolution/im2col.h) for single elements: the type that each is
// summed in, and the addition.
#pragma once

#include "core/numbers/arithmetic.h"
#include "core/numbers/element.h"

namespace visops {

// The type that elements stored as T are summed in.
template <class T>
struct Sum {
  using type = T;
};
template <>
struct Sum<Half> {
  using type = float;
};
template <>
struct Sum<BFloat16> {
  using type = float;
};
template <class T>
using SumOf = typename Sum<T>::type;

VISOPS_HOT_FN void add(Truth* sum, const Truth* value) { sum->value |= value->value; }
VISOPS_HOT_FN void add(float* sum, const Half* value) { *sum += load_element(value); }
VISOPS_HOT_FN void add(float* sum, const BFloat16* value) { *sum += load_element(value); }
template <class T>
VISOPS_HOT_FN void add(T* sum, const T* value) {
  *sum = static_cast<T>(*sum + *value);
}

VISOPS_HOT_FN void store_sum(Half* to, float sum) { store_element(to, sum); }
VISOPS_HOT_FN void store_sum(BFloat16* to, float sum) { store_element(to, sum); }
template <class T>
VISOPS_HOT_FN void store_sum(T* to, T sum) {
  *to = sum;
}

// An element of kParts adjacent numbers.
template <class T, int kParts>
struct SumElement {
  using Stored = T;
  static constexpr int kNumbers = kParts;
};

// Host only: calls with the SumElement of `kind`.
template <class Call>
static void with_sum_element(Arithmetic kind, Call call) {
  switch (kind) {
    case Arithmetic::kBool: return call(SumElement<Truth, 1>{});
    case Arithmetic::kInt8: return call(SumElement<uint8_t, 1>{});
    case Arithmetic::kInt16: return call(SumElement<uint16_t, 1>{});
    case Arithmetic::kInt32: return call(SumElement<uint32_t, 1>{});
    case Arithmetic::kInt64: return call(SumElement<uint64_t, 1>{});
    case Arithmetic::kFloat16: return call(SumElement<Half, 1>{});
    case Arithmetic::kBFloat16: return call(SumElement<BFloat16, 1>{});
    case Arithmetic::kFloat32: return call(SumElement<float, 1>{});
    case Arithmetic::kFloat64: return call(SumElement<double, 1>{});
    case Arithmetic::kComplex32: return call(SumElement<Half, 2>{});
    case Arithmetic::kComplex64: return call(SumElement<float, 2>{});
    case Arithmetic::kComplex128: return call(SumElement<double, 2>{});
  }
}

}  // namespace visops
