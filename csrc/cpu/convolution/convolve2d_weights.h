// Vectors of terms and their weights. Complex numbers stay pairs, as they are stored: then a
// product by one part of a weight adds to the lanes that a pair has, and one by the other part to
// those of the pair turned round. Each lane's sums are those of NOTE [ Convolution's sums ]: to
// subtract a product is to add that of the negative weight.
#pragma once

#include "core/convolution/convolve2d_element.h"
#include "core/convolution/convolve2d_plan.h"
#include "cpu/simd/vector.h"

#if VISOPS_ISA_SLOT > 0
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace visops {
namespace {

// A weight in memory.
template <class T>
struct WeightOf {
  using type = T;
  static T of(T weight) { return weight; }
};
template <class T>
struct ComplexWeight {
  static constexpr int kCount = kComplexWeight / 2 / static_cast<int>(sizeof(T));
  T re[kCount], im[kCount];  // what pairs are multiplied by, and pairs turned round
};
template <class T>
struct WeightOf<Complex<T>> {
  using type = ComplexWeight<T>;
  static type of(Complex<T> weight) {
    type w;
    for (int i = 0; i < type::kCount; ++i) {
      w.re[i] = weight.re;
      w.im[i] = i % 2 == 0 ? -weight.im : weight.im;
    }
    return w;
  }
};
template <class T>
using Weight = typename WeightOf<T>::type;

// A vector with each pair turned round.
#if defined(__GNUC__) && VISOPS_ISA_SLOT == 2
VISOPS_ALWAYS_INLINE Vector<float> swap_pairs(Vector<float> x) {
  return {(Register<float>::type)_mm512_permute_ps((__m512)x.v, 0xb1)};
}
VISOPS_ALWAYS_INLINE Vector<double> swap_pairs(Vector<double> x) {
  return {(Register<double>::type)_mm512_permute_pd((__m512d)x.v, 0x55)};
}
#elif defined(__GNUC__) && VISOPS_ISA_SLOT == 1
VISOPS_ALWAYS_INLINE Vector<float> swap_pairs(Vector<float> x) {
  return {(Register<float>::type)_mm256_permute_ps((__m256)x.v, 0xb1)};
}
VISOPS_ALWAYS_INLINE Vector<double> swap_pairs(Vector<double> x) {
  return {(Register<double>::type)_mm256_permute_pd((__m256d)x.v, 0x5)};
}
#elif defined(__GNUC__) && defined(__SSE2__)
VISOPS_ALWAYS_INLINE Vector<float> swap_pairs(Vector<float> x) {
  return {(Register<float>::type)_mm_shuffle_ps((__m128)x.v, (__m128)x.v, 0xb1)};
}
VISOPS_ALWAYS_INLINE Vector<double> swap_pairs(Vector<double> x) {
  return {(Register<double>::type)_mm_shuffle_pd((__m128d)x.v, (__m128d)x.v, 0x1)};
}
#else
template <class T>
VISOPS_ALWAYS_INLINE Vector<T> swap_pairs(Vector<T> x) {
  T lane[Vector<T>::kCount];
  T swapped[Vector<T>::kCount];
  store_vector(lane, x);
  for (int l = 0; l < Vector<T>::kCount; ++l) swapped[l] = lane[l ^ 1];
  return load_vector(swapped);
}
#endif

// 16 bytes over and over.
template <class T>
VISOPS_ALWAYS_INLINE Vector<T> repeat_lanes(const T* p) {
#if VISOPS_ISA_SLOT == 2
  const __m512i bits = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  Vector<T> lanes;
  memcpy(&lanes.v, &bits, sizeof(lanes.v));
  return lanes;
#elif VISOPS_ISA_SLOT == 1
  const __m256i bits =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  Vector<T> lanes;
  memcpy(&lanes.v, &bits, sizeof(lanes.v));
  return lanes;
#else
  return load_vector(p);
#endif
}

// A vector of terms of the input.
template <class T>
struct Terms {
  using Real = T;
  static constexpr int kCount = Vector<T>::kCount;
  Vector<T> x;

  VISOPS_ALWAYS_INLINE void load(const T* from) { x = load_vector(from); }
};
template <class T>
struct Terms<Complex<T>> {
  using Real = T;
  static constexpr int kCount = Vector<T>::kCount / 2;
  Vector<T> x, swapped;

  VISOPS_ALWAYS_INLINE void load(const Complex<T>* from) {
    x = load_vector(reinterpret_cast<const T*>(from));
    swapped = swap_pairs(x);
  }
};

// A weight in all lanes.
template <class T>
struct Weights {
  Vector<T> w;

  VISOPS_ALWAYS_INLINE explicit Weights(T weight) : w(broadcast(weight)) {}
  VISOPS_ALWAYS_INLINE void add_products(Vector<T>& sum, const Terms<T>& terms) const {
    sum = sum + w * terms.x;
  }
};
template <class T>
struct Weights<Complex<T>> {
  // SSE2 has no load of one number to all lanes; with AVX it is a part of the product.
  static constexpr bool kRepeats = VISOPS_ISA_SLOT == 0;
  Vector<T> re, im;

  VISOPS_ALWAYS_INLINE explicit Weights(const ComplexWeight<T>& weight)
      : re(kRepeats ? repeat_lanes(weight.re) : broadcast(weight.re[0])),
        im(repeat_lanes(weight.im)) {}
  VISOPS_ALWAYS_INLINE void add_products(Vector<T>& sum, const Terms<Complex<T>>& terms) const {
    sum = sum + re * terms.x;
    sum = sum + im * terms.swapped;
  }
};

}  // namespace
}  // namespace visops
