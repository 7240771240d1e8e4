// Vectors of the input's terms, and weights. Complex numbers stay pairs, as stored: the real part
// of a weight multiplies the vector, its imaginary part the vector with each pair swapped. Each
// lane sums as in NOTE [ Convolution's sums ]; subtracting a product is adding that of the negative
// weight.
#pragma once

#include "core/convolution/convolve2d_element.h"
#include "core/convolution/convolve2d_plan.h"
#include "cpu/simd/arm.h"
#include "cpu/simd/vector.h"

#if VISOPS_ISA_SLOT > 0
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace visops {
namespace {

// A weight as packed in memory.
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

// Swaps the two lanes of each pair.
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
#elif VISOPS_NEON
VISOPS_ALWAYS_INLINE Vector<float> swap_pairs(Vector<float> x) {
  return {(Register<float>::type)vrev64q_f32((float32x4_t)x.v)};
}
VISOPS_ALWAYS_INLINE Vector<double> swap_pairs(Vector<double> x) {
  return {(Register<double>::type)vextq_f64((float64x2_t)x.v, (float64x2_t)x.v, 1)};
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

// A vector that repeats 16 bytes.
template <class T>
VISOPS_ALWAYS_INLINE Vector<T> repeat_16_bytes(const T* p) {
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

// A vector of the input's terms.
template <class T>
struct TermVector {
  using Real = T;
  static constexpr int kCount = Vector<T>::kCount;
  Vector<T> x;

  VISOPS_ALWAYS_INLINE void load(const T* from) { x = load_vector(from); }
};
template <class T>
struct TermVector<Complex<T>> {
  using Real = T;
  static constexpr int kCount = Vector<T>::kCount / 2;
  Vector<T> x, swapped;

  VISOPS_ALWAYS_INLINE void load(const Complex<T>* from) {
    x = load_vector(reinterpret_cast<const T*>(from));
    swapped = swap_pairs(x);
  }
};

// A weight, in all lanes.
template <class T>
struct WeightVector {
  Vector<T> w;

  VISOPS_ALWAYS_INLINE explicit WeightVector(T weight) : w(broadcast(weight)) {}
  VISOPS_ALWAYS_INLINE void add_products(Vector<T>& sum, const TermVector<T>& terms) const {
    sum = sum + w * terms.x;
  }
};
template <class T>
struct WeightVector<Complex<T>> {
  // SSE2 can't load one number to all lanes; in AVX the product does so itself.
  static constexpr bool kRepeats = VISOPS_ISA_SLOT == 0;
  Vector<T> re, im;

  VISOPS_ALWAYS_INLINE explicit WeightVector(const ComplexWeight<T>& weight)
      : re(kRepeats ? repeat_16_bytes(weight.re) : broadcast(weight.re[0])),
        im(repeat_16_bytes(weight.im)) {}
  VISOPS_ALWAYS_INLINE void add_products(Vector<T>& sum,
                                         const TermVector<Complex<T>>& terms) const {
    sum = sum + re * terms.x;
    sum = sum + im * terms.swapped;
  }
};

}  // namespace
}  // namespace visops
