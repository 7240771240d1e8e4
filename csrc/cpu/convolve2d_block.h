// The block of sums that stays in registers: Rows output rows by Vectors vectors of columns. A
// vector of the input is loaded once and serves all rows that it meets.
#pragma once

#include <type_traits>

#include "cpu/lanes.h"
#include "cpu/simd.h"
#include "cpu/streaming.h"

namespace visops {
namespace {

// Where a block's terms are. Row k of the input meets output row i with row k - i of the kernel.
template <class Term>
struct BlockTerms {
  const Term* const* rows;  // of the input, from the block's first on
  int64_t column;           // of the block's first
  int64_t plane;            // from real to imaginary parts
  const Term* weights;      // [height, width], of complex numbers pairs
  int64_t height, width;
  int64_t row_stride;  // from a row to the next; 0 where rows are copies
};

template <class T, int Rows, int Vectors>
struct RealSums {
  Lanes<T> sum[Rows][Vectors];

  VISOPS_ALWAYS_INLINE void clear() {
    for (auto& row : sum) {
      for (auto& lanes : row) lanes = all_lanes(T(0));
    }
  }

  // Products of a row of the input for output rows First to Last - 1; `weights` are those of First,
  // rows after it have the rows of the kernel before it.
  template <int First, int Last>
  VISOPS_ALWAYS_INLINE void add_row(const T* VISOPS_RESTRICT input, int64_t,
                                    const T* VISOPS_RESTRICT weights, int64_t width) {
    for (int64_t n = 0; n < width; ++n) {
      Lanes<T> x[Vectors];
      for (int v = 0; v < Vectors; ++v) x[v] = load_lanes(input + n + v * Lanes<T>::kCount);
      for (int i = First; i < Last; ++i) {
        const Lanes<T> w = all_lanes(weights[n - (i - First) * width]);
        for (int v = 0; v < Vectors; ++v) sum[i][v] = sum[i][v] + w * x[v];
      }
    }
  }

  VISOPS_ALWAYS_INLINE void put_row(int i, T* to, int64_t) const {
    for (int v = 0; v < Vectors; ++v) store_lanes(to + v * Lanes<T>::kCount, sum[i][v]);
  }
  VISOPS_ALWAYS_INLINE void stream_row(int i, T* to) const {
    for (int v = 0; v < Vectors; ++v) stream_lanes(to + v * Lanes<T>::kCount, sum[i][v]);
  }
};

template <class T, int Rows, int Vectors>
struct ComplexSums {
  RealSums<T, Rows, Vectors> re, im;

  VISOPS_ALWAYS_INLINE void clear() {
    re.clear();
    im.clear();
  }

  template <int First, int Last>
  VISOPS_ALWAYS_INLINE void add_row(const T* VISOPS_RESTRICT input, int64_t plane,
                                    const T* VISOPS_RESTRICT weights, int64_t width) {
    for (int64_t n = 0; n < width; ++n) {
      Lanes<T> xr[Vectors], xi[Vectors];
      for (int v = 0; v < Vectors; ++v) {
        xr[v] = load_lanes(input + n + v * Lanes<T>::kCount);
        xi[v] = load_lanes(input + plane + n + v * Lanes<T>::kCount);
      }
      for (int i = First; i < Last; ++i) {
        const T* w = weights + 2 * (n - (i - First) * width);
        const Lanes<T> wr = all_lanes(w[0]), wi = all_lanes(w[1]);
        for (int v = 0; v < Vectors; ++v) {
          Lanes<T>&r = re.sum[i][v], &m = im.sum[i][v];
          r = r + wr * xr[v];
          r = r - wi * xi[v];
          m = m + wr * xi[v];
          m = m + wi * xr[v];
        }
      }
    }
  }

  VISOPS_ALWAYS_INLINE void put_row(int i, T* to, int64_t plane) const {
    re.put_row(i, to, plane);
    im.put_row(i, to + plane, plane);
  }
};

template <class T, int Planes, int Rows, int Vectors>
using SumsOf =
    std::conditional_t<Planes == 2, ComplexSums<T, Rows, Vectors>, RealSums<T, Rows, Vectors>>;

// Row K of the input for a kernel of Height rows.
template <int K, int Height, int Rows, class Sums, class Term>
VISOPS_ALWAYS_INLINE void add_fixed_rows(Sums& sums, const BlockTerms<Term>& t, int64_t weight_row,
                                         int64_t width) {
  if constexpr (K < Height + Rows - 1) {
    constexpr int first = K < Height ? 0 : K - Height + 1, last = K < Rows ? K + 1 : Rows;
    sums.template add_row<first, last>(t.rows[K] + t.column, t.plane,
                                       t.weights + (K - first) * weight_row, width);
    add_fixed_rows<K + 1, Height, Rows>(sums, t, weight_row, width);
  }
}

// The first Rows - 1 rows of the input, which meet the block's first K + 1 rows.
template <int K, int Rows, class Sums, class Term>
VISOPS_ALWAYS_INLINE void add_first_rows(Sums& sums, const BlockTerms<Term>& t,
                                         int64_t weight_row) {
  if constexpr (K < Rows - 1) {
    sums.template add_row<0, K + 1>(t.rows[K] + t.column, t.plane, t.weights + K * weight_row,
                                    t.width);
    add_first_rows<K + 1, Rows>(sums, t, weight_row);
  }
}

// And the last, which meet those from First on.
template <int First, int Rows, class Sums, class Term>
VISOPS_ALWAYS_INLINE void add_last_rows(Sums& sums, const BlockTerms<Term>& t, int64_t weight_row) {
  if constexpr (First < Rows) {
    sums.template add_row<First, Rows>(t.rows[t.height + First - 1] + t.column, t.plane,
                                       t.weights + (t.height - 1) * weight_row, t.width);
    add_last_rows<First + 1, Rows>(sums, t, weight_row);
  }
}

// Sums of kernels of Height rows and Width columns; 0 is for any, of at least Rows rows.
template <class T, int Planes, int Rows, int Vectors, int Height, int Width>
VISOPS_ALWAYS_INLINE SumsOf<T, Planes, Rows, Vectors> sum_block(const BlockTerms<T>& t) {
  SumsOf<T, Planes, Rows, Vectors> sums;
  sums.clear();
  const int64_t width = Width > 0 ? Width : t.width, weight_row = width * Planes;
  if constexpr (Height > 0) {
    add_fixed_rows<0, Height, Rows>(sums, t, weight_row, width);
  } else {
    add_first_rows<0, Rows>(sums, t, weight_row);
    for (int64_t k = Rows - 1; k < t.height; ++k) {
      sums.template add_row<0, Rows>(t.rows[k] + t.column, t.plane, t.weights + k * weight_row,
                                     width);
    }
    add_last_rows<1, Rows>(sums, t, weight_row);
  }
  return sums;
}

// Where sums go: rows of terms, and of complex numbers a plane for each part.
template <class T>
struct BlockResult {
  T* to;
  int64_t row, plane;  // strides
  bool streams;        // where cpu/streaming.h says so
};

// The lines that the block below this one will want: of the input those that this one doesn't share
// with it, and of the output, unless they are streamed.
template <int Rows, int Columns, class T>
VISOPS_ALWAYS_INLINE void read_ahead(const BlockTerms<T>& t, const BlockResult<T>& result) {
#if defined(__GNUC__)
  constexpr uintptr_t kLine = 64, kSize = sizeof(T);
  // Beyond the last rows these are no addresses of elements, only numbers.
  const auto input = reinterpret_cast<uintptr_t>(t.rows[t.height - 1] + t.column);
  const auto output = reinterpret_cast<uintptr_t>(result.to + t.column);
  for (uintptr_t i = 0; i < Rows; ++i) {
    const uintptr_t row = input + (Rows + i) * static_cast<uintptr_t>(t.row_stride) * kSize;
    const uintptr_t below = output + (Rows + i) * static_cast<uintptr_t>(result.row) * kSize;
    for (uintptr_t at = 0; at < Columns * kSize; at += kLine) {
      __builtin_prefetch(reinterpret_cast<const void*>(row + at), 0, 3);
      if (!result.streams) __builtin_prefetch(reinterpret_cast<const void*>(below + at), 1, 3);
    }
  }
#else
  static_cast<void>(t);
  static_cast<void>(result);
#endif
}

// Columns from t.column on as long as there are whole blocks.
template <class T, int Planes, int Rows, int Vectors, int Height, int Width>
void sum_whole_blocks(BlockTerms<T>& t, int64_t columns, const BlockResult<T>& result) {
  constexpr int kColumns = Vectors * Lanes<T>::kCount;
  for (; t.column + kColumns <= columns; t.column += kColumns) {
    if (t.row_stride != 0) read_ahead<Rows, kColumns>(t, result);
    const auto sums = sum_block<T, Planes, Rows, Vectors, Height, Width>(t);
    for (int i = 0; i < Rows; ++i) {
      T* to = result.to + i * result.row + t.column;
      if constexpr (Planes == 1) {
        if (result.streams) {
          sums.stream_row(i, to);
          continue;
        }
      }
      sums.put_row(i, to, result.plane);
    }
  }
}

// And the last ones, vector by vector.
template <class T, int Planes, int Rows>
void sum_last_columns(BlockTerms<T>& t, int64_t columns, BlockResult<T> result) {
  constexpr int kColumns = Lanes<T>::kCount;
  result.streams = false;
  sum_whole_blocks<T, Planes, Rows, 1, 0, 0>(t, columns, result);
  if (t.column == columns) return;
  const auto sums = sum_block<T, Planes, Rows, 1, 0, 0>(t);
  for (int i = 0; i < Rows; ++i) {
    alignas(64) T vectors[Planes][kColumns];
    sums.put_row(i, vectors[0], kColumns);
    for (int plane = 0; plane < Planes; ++plane) {
      copy_part(result.to + i * result.row + plane * result.plane + t.column, vectors[plane],
                static_cast<size_t>(columns - t.column) * sizeof(T));
    }
  }
}

// Rows of the output one by one: where there are too few of them, or of the kernel's, for a block.
template <class T, int Planes, int Vectors>
void sum_single_rows(const BlockTerms<T>& terms, int64_t rows, int64_t columns,
                     const BlockResult<T>& result) {
  for (int64_t i = 0; i < rows; ++i) {
    BlockTerms<T> t = terms;
    t.rows += i;
    const BlockResult<T> row = {result.to + i * result.row, 0, result.plane, result.streams};
    sum_whole_blocks<T, Planes, 1, Vectors, 0, 0>(t, columns, row);
    sum_last_columns<T, Planes, 1>(t, columns, row);
  }
}

// Rows of the output, at most Rows, from terms.column on.
template <class T, int Planes, int Rows, int Vectors>
void sum_rows(const BlockTerms<T>& terms, int64_t rows, int64_t columns,
              const BlockResult<T>& result) {
  if (rows < Rows) return sum_single_rows<T, Planes, Vectors>(terms, rows, columns, result);
  BlockTerms<T> t = terms;
  if (t.height == 1) {
    sum_whole_blocks<T, Planes, Rows, Vectors, 1, 0>(t, columns, result);
  } else if (t.height == 2) {
    sum_whole_blocks<T, Planes, Rows, Vectors, 2, 0>(t, columns, result);
  } else if (t.height == 3 && t.width == 3) {
    sum_whole_blocks<T, Planes, Rows, Vectors, 3, 3>(t, columns, result);
  } else if (t.height == 3) {
    sum_whole_blocks<T, Planes, Rows, Vectors, 3, 0>(t, columns, result);
  } else {
    sum_whole_blocks<T, Planes, Rows, Vectors, 0, 0>(t, columns, result);
    return sum_last_columns<T, Planes, Rows>(t, columns, result);
  }
  sum_single_rows<T, Planes, 1>(t, rows, columns, result);
}

}  // namespace
}  // namespace visops
