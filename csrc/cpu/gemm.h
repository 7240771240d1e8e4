// Products of matrices, for the networks' convolutions: a small tile of sums in registers.
//
// Functions named gemm_* fuse products with sums where the instruction set can; nothing else in
// this library does. AVX2 objects are compiled without FMA, so these functions request it by
// attribute. Every processor that gets the AVX2 slot has it.
#pragma once

#include "core/platform.h"
#include "cpu/simd/arm.h"
#include "cpu/simd/vector.h"

#if VISOPS_ISA_SLOT >= 1
#include <immintrin.h>
#endif

#if VISOPS_ISA_SLOT == 1 && defined(__GNUC__)
#define VISOPS_GEMM __attribute__((noinline, target("avx2,fma")))
#define VISOPS_GEMM_INLINE inline __attribute__((always_inline, target("avx2,fma")))
#elif defined(__GNUC__)
#define VISOPS_GEMM __attribute__((noinline))
#define VISOPS_GEMM_INLINE VISOPS_ALWAYS_INLINE
#else
#define VISOPS_GEMM
#define VISOPS_GEMM_INLINE VISOPS_ALWAYS_INLINE
#endif

namespace visops {
namespace {

// A tile has up to kGemmRows rows of kGemmVectors vectors: as many sums as fit the registers beside
// a vector of each operand. A step takes rows + vectors loads for rows * vectors products.
#if VISOPS_ISA_SLOT == 2 || VISOPS_NEON
constexpr int kGemmRows = 8, kGemmVectors = 3;
#elif VISOPS_ISA_SLOT == 1
constexpr int kGemmRows = 4, kGemmVectors = 3;
#else
constexpr int kGemmRows = 4, kGemmVectors = 2;
#endif

template <class T>
VISOPS_GEMM_INLINE Vector<T> gemm_multiply_add(Vector<T> a, Vector<T> b, Vector<T> sum) {
  return sum + a * b;
}
#if VISOPS_ISA_SLOT == 2 && defined(__GNUC__)  // others have no casts between vectors
VISOPS_GEMM_INLINE Vector<float> gemm_multiply_add(Vector<float> a, Vector<float> b,
                                                   Vector<float> sum) {
  return {(Register<float>::type)_mm512_fmadd_ps((__m512)a.v, (__m512)b.v, (__m512)sum.v)};
}
VISOPS_GEMM_INLINE Vector<double> gemm_multiply_add(Vector<double> a, Vector<double> b,
                                                    Vector<double> sum) {
  return {(Register<double>::type)_mm512_fmadd_pd((__m512d)a.v, (__m512d)b.v, (__m512d)sum.v)};
}
#elif VISOPS_ISA_SLOT == 1 && defined(__GNUC__)
VISOPS_GEMM_INLINE Vector<float> gemm_multiply_add(Vector<float> a, Vector<float> b,
                                                   Vector<float> sum) {
  return {(Register<float>::type)_mm256_fmadd_ps((__m256)a.v, (__m256)b.v, (__m256)sum.v)};
}
VISOPS_GEMM_INLINE Vector<double> gemm_multiply_add(Vector<double> a, Vector<double> b,
                                                    Vector<double> sum) {
  return {(Register<double>::type)_mm256_fmadd_pd((__m256d)a.v, (__m256d)b.v, (__m256d)sum.v)};
}
#elif VISOPS_NEON && defined(__aarch64__)
VISOPS_GEMM_INLINE Vector<float> gemm_multiply_add(Vector<float> a, Vector<float> b,
                                                   Vector<float> sum) {
  return {(Register<float>::type)vfmaq_f32((float32x4_t)sum.v, (float32x4_t)a.v, (float32x4_t)b.v)};
}
VISOPS_GEMM_INLINE Vector<double> gemm_multiply_add(Vector<double> a, Vector<double> b,
                                                    Vector<double> sum) {
  return {
      (Register<double>::type)vfmaq_f64((float64x2_t)sum.v, (float64x2_t)a.v, (float64x2_t)b.v)};
}
#endif

// tile[m][j] = a[0][m] + sum over k of a[1 + k][m] * b[offsets[k] + j]
template <class T, int rows, int vectors>
VISOPS_GEMM void gemm_tile(const T* a, const T* b, const int32_t* offsets, int64_t depth, T* tile,
                           int64_t tile_row) {
  constexpr int kCount = Vector<T>::kCount;
  Vector<T> sum[rows][vectors];
  VISOPS_UNROLL
  for (int m = 0; m < rows; ++m) {
    VISOPS_UNROLL
    for (int v = 0; v < vectors; ++v) sum[m][v] = broadcast(a[m]);
  }
  for (int64_t k = 0; k < depth; ++k) {
    a += rows;
    const T* column = b + offsets[k];
    Vector<T> x[vectors];
    VISOPS_UNROLL
    for (int v = 0; v < vectors; ++v) x[v] = load_vector(column + v * kCount);
    VISOPS_UNROLL
    for (int m = 0; m < rows; ++m) {
      const Vector<T> weight = broadcast(a[m]);
      VISOPS_UNROLL
      for (int v = 0; v < vectors; ++v) sum[m][v] = gemm_multiply_add(weight, x[v], sum[m][v]);
    }
  }
  VISOPS_UNROLL
  for (int m = 0; m < rows; ++m) {
    VISOPS_UNROLL
    for (int v = 0; v < vectors; ++v) store_vector(tile + m * tile_row + v * kCount, sum[m][v]);
  }
}

template <class T>
using GemmTile = void (*)(const T*, const T*, const int32_t*, int64_t, T*, int64_t);

template <class T, int rows>
GemmTile<T> gemm_of_rows(int vectors) {
  if (vectors == 1) return gemm_tile<T, rows, 1>;
  if (vectors == 2 || kGemmVectors == 2) return gemm_tile<T, rows, 2>;
  return gemm_tile<T, rows, kGemmVectors>;
}

// `rows` comes from gemm_strip().
template <class T>
GemmTile<T> gemm_of(int rows, int vectors) {
  if (rows == 1) return gemm_of_rows<T, 1>(vectors);
  if (rows == 2) return gemm_of_rows<T, 2>(vectors);
  if (rows == 4) return gemm_of_rows<T, 4>(vectors);
  return gemm_of_rows<T, kGemmRows>(vectors);
}

// How many rows the next strip takes of those left. A strip of 4 or 8 may have one row too many,
// which is faster than two more strips.
VISOPS_ALWAYS_INLINE int gemm_strip(int64_t left) {
  if (left >= kGemmRows - 1) return kGemmRows;
  if (left >= 3) return 4;
  return left >= 2 ? 2 : 1;
}

}  // namespace
}  // namespace visops
