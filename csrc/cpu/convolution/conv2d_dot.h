// Dot products over adjacent pixels, for a tile of gradients by columns of im2col.
#pragma once

#include "cpu/gemm.h"

namespace visops {
namespace {

// x & mask, so that masked elements give 0 even if they are infinite.
template <class T>
VISOPS_GEMM_INLINE Vector<T> gemm_masked(Vector<T> x, const T* mask) {
#if defined(__GNUC__)
  if constexpr (T(0.5) != T(0)) {
    using Bits = Register<uint64_t>::type;
    return {(typename Register<T>::type)((Bits)x.v & (Bits)load_vector(mask).v)};
  }
#else
  Vector<T> kept = x;
  for (int i = 0; i < Vector<T>::kCount; ++i) kept.v.lane[i] = mask[i] == T{} ? T{} : x.v.lane[i];
  return kept;
#endif
  return x;
}

// sums[m][j] += the sum over pixels q of g[m][q] * x[offsets[j] + q], q < length
template <class T, int rows, int columns>
VISOPS_GEMM void gemm_dot(const T* g, int64_t length, const T* x, const int32_t* offsets,
                          const T* mask, T* sums, int64_t sums_row) {
  constexpr int kCount = Vector<T>::kCount;
  const T* from[columns];
  VISOPS_UNROLL
  for (int j = 0; j < columns; ++j) from[j] = x + offsets[j];
  Vector<T> sum[rows][columns];
  VISOPS_UNROLL
  for (int m = 0; m < rows; ++m) {
    VISOPS_UNROLL
    for (int j = 0; j < columns; ++j) sum[m][j] = broadcast(T{});
  }
  for (int64_t q = 0; q < length; q += kCount) {
    Vector<T> pixels[columns];
    VISOPS_UNROLL
    for (int j = 0; j < columns; ++j) pixels[j] = gemm_masked(load_vector(from[j] + q), mask + q);
    VISOPS_UNROLL
    for (int m = 0; m < rows; ++m) {
      const Vector<T> grad = load_vector(g + m * length + q);
      VISOPS_UNROLL
      for (int j = 0; j < columns; ++j) sum[m][j] = gemm_multiply_add(grad, pixels[j], sum[m][j]);
    }
  }
  for (int m = 0; m < rows; ++m) {
    for (int j = 0; j < columns; ++j) {
      T lanes[kCount];
      store_vector(lanes, sum[m][j]);
      VISOPS_UNROLL
      for (int half = kCount / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) lanes[i] = static_cast<T>(lanes[i] + lanes[i + half]);
      }
      T& total = sums[m * sums_row + j];
      total = static_cast<T>(total + lanes[0]);
    }
  }
}

template <class T>
using GemmDot = void (*)(const T*, int64_t, const T*, const int32_t*, const T*, T*, int64_t);

template <class T, int rows>
GemmDot<T> gemm_dot_of_rows(int columns) {
  return columns == 1 ? gemm_dot<T, rows, 1> : gemm_dot<T, rows, kGemmVectors>;
}

template <class T>
GemmDot<T> gemm_dot_of(int rows, int columns) {
  if (rows == 1) return gemm_dot_of_rows<T, 1>(columns);
  if (rows == 2) return gemm_dot_of_rows<T, 2>(columns);
  if (rows == 4) return gemm_dot_of_rows<T, 4>(columns);
  return gemm_dot_of_rows<T, kGemmRows>(columns);
}

}  // namespace
}  // namespace visops
