// NOTE [ Convolution's sums ] (core/convolution/convolve2d.h) for single elements: the type that
// each is summed in, and how a product is added.
#pragma once

#include "core/numbers/arithmetic.h"
#include "core/numbers/element.h"

namespace visops {

template <class T>
struct Complex {
  T re, im;
};

// For elements stored as T: the type of sums, and conversions. Narrow integers are summed in 32
// bits, which leaves their own bits the same.
template <class T>
struct ConvolveElement {
  using Sum = T;
  VISOPS_DEVICE static VISOPS_ALWAYS_INLINE Sum load(const T* p) { return *p; }
  VISOPS_DEVICE static VISOPS_ALWAYS_INLINE void store(T* p, Sum sum) { *p = sum; }
};
template <class T>
struct NarrowElement {
  using Sum = uint32_t;
  VISOPS_DEVICE static VISOPS_ALWAYS_INLINE Sum load(const T* p) { return *p; }
  VISOPS_DEVICE static VISOPS_ALWAYS_INLINE void store(T* p, Sum sum) { *p = static_cast<T>(sum); }
};
template <>
struct ConvolveElement<uint8_t> : NarrowElement<uint8_t> {};
template <>
struct ConvolveElement<uint16_t> : NarrowElement<uint16_t> {};
template <class T>
struct HalfElement {
  using Sum = float;
  VISOPS_DEVICE static VISOPS_ALWAYS_INLINE Sum load(const T* p) { return load_element(p); }
  VISOPS_DEVICE static VISOPS_ALWAYS_INLINE void store(T* p, Sum sum) { store_element(p, sum); }
};
template <>
struct ConvolveElement<Half> : HalfElement<Half> {};
template <>
struct ConvolveElement<BFloat16> : HalfElement<BFloat16> {};

template <class T>
VISOPS_FN void add_product(T& sum, T weight, T value) {
  sum = sum + weight * value;
}
template <class T>
VISOPS_FN void add_product(Complex<T>& sum, Complex<T> weight, Complex<T> value) {
  sum.re = sum.re + weight.re * value.re;
  sum.re = sum.re - weight.im * value.im;
  sum.im = sum.im + weight.re * value.im;
  sum.im = sum.im + weight.im * value.re;
}

template <class T>
VISOPS_FN void add_to(T& sum, T value) {
  sum = sum + value;
}
template <class T>
VISOPS_FN void add_to(Complex<T>& sum, Complex<T> value) {
  sum.re = sum.re + value.re;
  sum.im = sum.im + value.im;
}

// Host only: calls with a null pointer to the stored type. Only types with gradients.
template <class Call>
static void with_differentiable_type(Arithmetic kind, Call call) {
  switch (kind) {
    case Arithmetic::kFloat16: return call(static_cast<Half*>(nullptr));
    case Arithmetic::kBFloat16: return call(static_cast<BFloat16*>(nullptr));
    case Arithmetic::kFloat32: return call(static_cast<float*>(nullptr));
    case Arithmetic::kFloat64: return call(static_cast<double*>(nullptr));
    case Arithmetic::kComplex64: return call(static_cast<Complex<float>*>(nullptr));
    case Arithmetic::kComplex128: return call(static_cast<Complex<double>*>(nullptr));
    default: return;  // refused by the front
  }
}

// The same for all types. The sign of integers doesn't matter.
template <class Call>
static void with_convolve_type(Arithmetic kind, Call call) {
  switch (kind) {
    case Arithmetic::kInt8: return call(static_cast<uint8_t*>(nullptr));
    case Arithmetic::kInt16: return call(static_cast<uint16_t*>(nullptr));
    case Arithmetic::kInt32: return call(static_cast<uint32_t*>(nullptr));
    case Arithmetic::kInt64: return call(static_cast<uint64_t*>(nullptr));
    default: return with_differentiable_type(kind, call);
  }
}

}  // namespace visops
