// A product of matrices in memory, added to a third one.
#pragma once

#include "cpu/gemm.h"

namespace visops {
namespace {

// A matrix whose elements lie row and column steps apart.
template <class T>
struct GemmFactor {
  const T* data;
  int64_t row_step, column_step;
};

// Depth of a product that is summed in registers before it is added to the result: so many rows of
// b, as wide as a tile, fit the first-level cache.
constexpr int64_t kGemmDepth = 128;

// to[m][j] += sum over k < depth of a[m][k] * b[k][j]; rows of b and `to` are adjacent elements.
template <class T, int rows, int vectors>
VISOPS_GEMM void gemm_add(GemmFactor<T> a, const T* b, int64_t b_row, int64_t depth, T* to,
                          int64_t to_row) {
  constexpr int kCount = Vector<T>::kCount;
  Vector<T> sum[rows][vectors];
  VISOPS_UNROLL
  for (int m = 0; m < rows; ++m) {
    VISOPS_UNROLL
    for (int v = 0; v < vectors; ++v) sum[m][v] = broadcast(T{});
  }
  const T* column = a.data;
  for (int64_t k = 0; k < depth; ++k) {
    Vector<T> x[vectors];
    VISOPS_UNROLL
    for (int v = 0; v < vectors; ++v) x[v] = load_vector(b + v * kCount);
    VISOPS_UNROLL
    for (int m = 0; m < rows; ++m) {
      const Vector<T> factor = broadcast(column[m * a.row_step]);
      VISOPS_UNROLL
      for (int v = 0; v < vectors; ++v) sum[m][v] = gemm_multiply_add(factor, x[v], sum[m][v]);
    }
    column += a.column_step;
    b += b_row;
  }
  VISOPS_UNROLL
  for (int m = 0; m < rows; ++m) {
    VISOPS_UNROLL
    for (int v = 0; v < vectors; ++v) {
      T* at = to + m * to_row + v * kCount;
      store_vector(at, load_vector(at) + sum[m][v]);
    }
  }
}

template <class T>
using GemmAdd = void (*)(GemmFactor<T>, const T*, int64_t, int64_t, T*, int64_t);

template <class T, int rows>
GemmAdd<T> gemm_add_of_rows(int vectors) {
  if (vectors == 1) return gemm_add<T, rows, 1>;
  if (vectors == 2 || kGemmVectors == 2) return gemm_add<T, rows, 2>;
  return gemm_add<T, rows, kGemmVectors>;
}

template <class T>
GemmAdd<T> gemm_add_of(int rows, int vectors) {
  if (rows == 1) return gemm_add_of_rows<T, 1>(vectors);
  if (rows == 2) return gemm_add_of_rows<T, 2>(vectors);
  if (rows == 4) return gemm_add_of_rows<T, 4>(vectors);
  return gemm_add_of_rows<T, kGemmRows>(vectors);
}

// Elements of rows of b and of the result, which are whole vectors.
template <class T>
int64_t gemm_width(int64_t columns) {
  constexpr int64_t kCount = Vector<T>::kCount;
  return (columns + kCount - 1) / kCount * kCount;
}

// to += a b, of any size. Up to gemm_width(columns) elements of rows of b are read, and of `to`
// changed. Each element is summed in blocks of kGemmDepth, which are added in order.
template <class T>
void gemm_add_product(GemmFactor<T> a, const T* b, int64_t b_row, int64_t rows, int64_t columns,
                      int64_t depth, T* to, int64_t to_row) {
  constexpr int kCount = Vector<T>::kCount;
  const int64_t width = gemm_width<T>(columns);
  for (int64_t k = 0; k < depth; k += kGemmDepth) {
    const int64_t deep = depth - k < kGemmDepth ? depth - k : kGemmDepth;
    for (int64_t j = 0; j < width;) {
      const int64_t left = (width - j) / kCount;
      const int vectors = left < kGemmVectors ? static_cast<int>(left) : kGemmVectors;
      for (int64_t m = 0; m < rows;) {
        int strip = gemm_strip(rows - m);
        while (strip > rows - m) strip /= 2;  // no row too many: there is nothing to read
        const GemmFactor<T> part = {a.data + m * a.row_step + k * a.column_step, a.row_step,
                                    a.column_step};
        gemm_add_of<T>(strip, vectors)(part, b + k * b_row + j, b_row, deep, to + m * to_row + j,
                                       to_row);
        m += strip;
      }
      j += vectors * kCount;
    }
  }
}

}  // namespace
}  // namespace visops
