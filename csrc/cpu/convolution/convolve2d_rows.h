// Rows of the input, extended beyond its borders, as terms.
#pragma once

#include "core/convolution/convolve2d.h"
#include "cpu/simd/floats.h"
#include "cpu/simd/vector.h"

namespace visops {
namespace {

// Terms: the type that stored elements are converted to for sums. Bytes become 16 bits, as no
// instruction set multiplies bytes; halves become float32, complex numbers two planes.

template <class T>
struct TermOf {
  using type = T;
};
template <>
struct TermOf<uint8_t> {
  using type = uint16_t;
};
template <>
struct TermOf<Half> {
  using type = float;
};
template <>
struct TermOf<BFloat16> {
  using type = float;
};
template <class T>
struct TermOf<Complex<T>> {
  using type = T;
};
template <class T>
using Term = typename TermOf<T>::type;

template <class T>
constexpr int planes_of = sizeof(T) == 2 * sizeof(Term<T>) ? 2 : 1;

VISOPS_ALWAYS_INLINE uint16_t term_of(const uint8_t* p) { return *p; }
VISOPS_ALWAYS_INLINE float term_of(const Half* p) { return load_element(p); }
VISOPS_ALWAYS_INLINE float term_of(const BFloat16* p) { return load_element(p); }
template <class T>
VISOPS_ALWAYS_INLINE T term_of(const T* p) {
  return *p;
}

// Converts elements that lie `stride` apart; a second plane begins `plane` after the first.
template <class T>
VISOPS_ALWAYS_INLINE void load_terms(const T* from, int64_t stride, int64_t count,
                                     Term<T>* VISOPS_RESTRICT to, int64_t) {
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = term_of(from + i);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = term_of(from + i * stride);
  }
}
template <class T>
VISOPS_ALWAYS_INLINE void load_terms(const Complex<T>* from, int64_t stride, int64_t count,
                                     T* VISOPS_RESTRICT to, int64_t plane) {
  T* VISOPS_RESTRICT imaginary = to + plane;
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = from[i].re;
      imaginary[i] = from[i].im;
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = from[i * stride].re;
      imaginary[i] = from[i * stride].im;
    }
  }
}
template <class T>
VISOPS_ALWAYS_INLINE void load_halves(const T* from, int64_t stride, int64_t count,
                                      float* VISOPS_RESTRICT to) {
  int64_t i = 0;
  if (stride == 1) {
    for (; i + Floats::kWidth <= count; i += Floats::kWidth) load_floats(from + i).store(to + i);
  }
  for (; i < count; ++i) to[i] = load_element(from + i * stride);
}
VISOPS_ALWAYS_INLINE void load_terms(const Half* from, int64_t stride, int64_t count,
                                     float* VISOPS_RESTRICT to, int64_t) {
  load_halves(from, stride, count, to);
}
VISOPS_ALWAYS_INLINE void load_terms(const BFloat16* from, int64_t stride, int64_t count,
                                     float* VISOPS_RESTRICT to, int64_t) {
  load_halves(from, stride, count, to);
}

// Leaves complex numbers as pairs.
template <class T>
VISOPS_ALWAYS_INLINE void load_terms(const Complex<T>* from, int64_t stride, int64_t count,
                                     Complex<T>* VISOPS_RESTRICT to, int64_t) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
}

// Converts terms back to adjacent elements.
template <class T>
VISOPS_ALWAYS_INLINE void store_terms(T* VISOPS_RESTRICT to, const Term<T>* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i]);
}
template <class T>
VISOPS_ALWAYS_INLINE void store_halves(T* VISOPS_RESTRICT to, const float* from, int64_t count) {
  const int64_t whole = count - count % Floats::kWidth;
  for (int64_t i = 0; i < whole; i += Floats::kWidth) {
    const Floats run[1] = {Floats::load(from + i)};
    store_pixels(to + i, run);
  }
  for (int64_t i = whole; i < count; ++i) store_element(to + i, from[i]);
}
VISOPS_ALWAYS_INLINE void store_terms(Half* VISOPS_RESTRICT to, const float* from, int64_t count) {
  store_halves(to, from, count);
}
VISOPS_ALWAYS_INLINE void store_terms(BFloat16* VISOPS_RESTRICT to, const float* from,
                                      int64_t count) {
  store_halves(to, from, count);
}

// A plane of the input and its extension.
template <class T>
class ExtendedPlane {
 public:
  ExtendedPlane(const T* data, const ConvolvePlane& plane, Padding boundary,
                const unsigned char* fill)
      : data_(data), plane_(plane), boundary_(boundary) {
    memcpy(&fill_, fill, sizeof(T));
  }

  // Copies `count` terms of row y from column x on. To is Term<T>, or T where complex numbers stay
  // pairs.
  template <class To>
  void copy_row(int64_t y, int64_t x, int64_t count, To* to, int64_t to_plane) const {
    const T* row = row_of(y);
    if (row == nullptr) return fill_row(count, to, to_plane);
    // Columns [first, last) lie inside the input.
    const int64_t first = clamp(-x, count), last = clamp(plane_.width - x, count);
    copy_beyond(row, x, first, to, to_plane);
    if (first < last) {
      load_terms(row + (x + first) * plane_.column_stride, plane_.column_stride, last - first,
                 to + first, to_plane);
    }
    const int64_t after = first > last ? first : last;
    copy_beyond(row, x + after, count - after, to + after, to_plane);
  }

  template <class To>
  void fill_row(int64_t count, To* to, int64_t to_plane) const {
    for (int64_t i = 0; i < count; ++i) load_terms(&fill_, 1, 1, to + i, to_plane);
  }

  // Null for a row of fill values.
  const T* row_of(int64_t y) const {
    const int64_t inside = pad_index(boundary_, y, plane_.height);
    return inside < 0 || plane_.height == 0 ? nullptr : data_ + inside * plane_.row_stride;
  }

 private:
  static int64_t clamp(int64_t i, int64_t count) { return i < 0 ? 0 : i > count ? count : i; }

  template <class To>
  void copy_beyond(const T* row, int64_t x, int64_t count, To* to, int64_t to_plane) const {
    if (boundary_ == Padding::kConstant) return fill_row(count, to, to_plane);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t inside = pad_index(boundary_, x + i, plane_.width);
      load_terms(row + inside * plane_.column_stride, 1, 1, to + i, to_plane);
    }
  }

  const T* data_;
  ConvolvePlane plane_;
  Padding boundary_;
  T fill_;
};

}  // namespace
}  // namespace visops
