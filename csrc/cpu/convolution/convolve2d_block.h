// A block of sums in registers: Rows output rows by Vectors vectors of columns. Each vector of the
// input is loaded once and serves all rows that it meets.
#pragma once

#include "cpu/convolution/convolve2d_weights.h"
#include "cpu/prefetch.h"
#include "cpu/simd/floats.h"
#include "cpu/simd/streaming.h"

namespace visops {
namespace {

// The terms of a block. Row k of the input meets output row i in row k - i of the kernel, whose
// parts are summed one after another: a transposed problem's are columns.
template <class Term>
struct BlockTerms {
  const Term* const* rows;      // of the input, from the block's first on
  int64_t column;               // of the block's first
  const Weight<Term>* weights;  // [parts, height, width]
  int64_t parts, height, width;
  int64_t row_stride;  // from a row to the next; 0 where rows are copies
};

template <class T, int Rows, int Vectors>
struct Sums {
  using Real = typename TermVector<T>::Real;
  static constexpr int kCount = TermVector<T>::kCount;
  Vector<Real> sum[Rows][Vectors];

  VISOPS_ALWAYS_INLINE void clear() {
    for (auto& row : sum) {
      for (auto& lanes : row) lanes = broadcast(Real(0));
    }
  }

  // Adds a row of the input to output rows [First, Last). `weights` is the kernel's row for First;
  // each further output row uses the kernel's row before.
  template <int First, int Last>
  VISOPS_ALWAYS_INLINE void add_row(const T* VISOPS_RESTRICT input,
                                    const Weight<T>* VISOPS_RESTRICT weights, int64_t width) {
    for (int64_t n = 0; n < width; ++n) {
      TermVector<T> x[Vectors];
      for (int v = 0; v < Vectors; ++v) x[v].load(input + n + v * kCount);
      for (int i = First; i < Last; ++i) {
        const WeightVector<T> w(weights[n - (i - First) * width]);
        for (int v = 0; v < Vectors; ++v) w.add_products(sum[i][v], x[v]);
      }
    }
  }

  VISOPS_ALWAYS_INLINE void put_row(int i, T* to) const {
    for (int v = 0; v < Vectors; ++v) {
      store_vector(reinterpret_cast<Real*>(to + v * kCount), sum[i][v]);
    }
  }
  VISOPS_ALWAYS_INLINE void stream_row(int i, T* to) const {
    for (int v = 0; v < Vectors; ++v) {
      stream_vector(reinterpret_cast<Real*>(to + v * kCount), sum[i][v]);
    }
  }
};

// Adds rows K and up of the input, for a kernel of Height rows.
template <int K, int Height, int Rows, class Block, class Term>
VISOPS_ALWAYS_INLINE void add_fixed_rows(Block& sums, const BlockTerms<Term>& t, int64_t width) {
  if constexpr (K < Height + Rows - 1) {
    constexpr int first = K < Height ? 0 : K - Height + 1, last = K < Rows ? K + 1 : Rows;
    sums.template add_row<first, last>(t.rows[K] + t.column, t.weights + (K - first) * width,
                                       width);
    add_fixed_rows<K + 1, Height, Rows>(sums, t, width);
  }
}

// Adds the first Rows - 1 rows of the input; row K meets the block's first K + 1 rows.
template <int K, int Rows, class Block, class Term>
VISOPS_ALWAYS_INLINE void add_first_rows(Block& sums, const BlockTerms<Term>& t) {
  if constexpr (K < Rows - 1) {
    sums.template add_row<0, K + 1>(t.rows[K] + t.column, t.weights + K * t.width, t.width);
    add_first_rows<K + 1, Rows>(sums, t);
  }
}

// Adds the last rows, which meet the block's rows from First on.
template <int First, int Rows, class Block, class Term>
VISOPS_ALWAYS_INLINE void add_last_rows(Block& sums, const BlockTerms<Term>& t) {
  if constexpr (First < Rows) {
    sums.template add_row<First, Rows>(t.rows[t.height + First - 1] + t.column,
                                       t.weights + (t.height - 1) * t.width, t.width);
    add_last_rows<First + 1, Rows>(sums, t);
  }
}

// Sums a block for a kernel of Height rows and Width columns; 0 means any, but at least Rows - 1
// rows.
template <class T, int Rows, int Vectors, int Height, int Width>
VISOPS_ALWAYS_INLINE Sums<T, Rows, Vectors> sum_block(BlockTerms<T> t) {
  Sums<T, Rows, Vectors> sums;
  sums.clear();
  const int64_t width = Width > 0 ? Width : t.width;
  const int64_t parts = Width > 0 ? 1 : t.parts;  // of a transposed problem, parts have one column
  for (int64_t part = 0; part < parts; ++part) {
    if constexpr (Height > 0) {
      add_fixed_rows<0, Height, Rows>(sums, t, width);
    } else {
      add_first_rows<0, Rows>(sums, t);
      for (int64_t k = Rows - 1; k < t.height; ++k) {
        sums.template add_row<0, Rows>(t.rows[k] + t.column, t.weights + k * width, width);
      }
      add_last_rows<1, Rows>(sums, t);
    }
    t.column += width;
    t.weights += t.height * width;
  }
  return sums;
}

// Where sums go.
template <class T>
struct BlockResult {
  T* to;
  int64_t row;   // stride
  bool streams;  // where cpu/simd/streaming.h says so
};

// Prefetches for the block below: the input's lines that this block doesn't share, and the output's
// unless they are streamed.
template <int Rows, int Columns, class T>
VISOPS_ALWAYS_INLINE void read_ahead(const BlockTerms<T>& t, const BlockResult<T>& result) {
  constexpr int64_t kSize = sizeof(T), kBytes = Columns * kSize;
  // Beyond the last rows these are just numbers, not addresses of elements.
  const int64_t input = address_of(t.rows[t.height - 1] + t.column);
  const int64_t output = address_of(result.to + t.column);
  for (int64_t i = 0; i < Rows; ++i) {
    prefetch(input + (Rows + i) * t.row_stride * kSize, kBytes);
    if (!result.streams) prefetch<true>(output + (Rows + i) * result.row * kSize, kBytes);
  }
}

// Sums whole blocks of columns, from t.column on.
template <class T, int Rows, int Vectors, int Height, int Width>
void sum_whole_blocks(BlockTerms<T>& t, int64_t columns, const BlockResult<T>& result) {
  constexpr int kColumns = Vectors * TermVector<T>::kCount;
  for (; t.column + kColumns <= columns; t.column += kColumns) {
    if (t.row_stride != 0) read_ahead<Rows, kColumns>(t, result);
    // Not const: GCC 12 would keep it in memory.
    auto sums = sum_block<T, Rows, Vectors, Height, Width>(t);
    for (int i = 0; i < Rows; ++i) {
      T* to = result.to + i * result.row + t.column;
      if (result.streams) {
        sums.stream_row(i, to);
      } else {
        sums.put_row(i, to);
      }
    }
  }
}

// Sums the remaining columns, a vector at a time.
template <class T, int Rows>
void sum_last_columns(BlockTerms<T>& t, int64_t columns, BlockResult<T> result) {
  constexpr int kColumns = TermVector<T>::kCount;
  result.streams = false;
  sum_whole_blocks<T, Rows, 1, 0, 0>(t, columns, result);
  if (t.column == columns) return;
  auto sums = sum_block<T, Rows, 1, 0, 0>(t);
  for (int i = 0; i < Rows; ++i) {
    alignas(64) T vector[kColumns];
    sums.put_row(i, vector);
    copy_part(result.to + i * result.row + t.column, vector,
              static_cast<size_t>(columns - t.column) * sizeof(T));
  }
}

// Sums output rows one by one, where a block has too few of them or the kernel has too few rows.
template <class T, int Vectors>
void sum_single_rows(const BlockTerms<T>& terms, int64_t rows, int64_t columns,
                     const BlockResult<T>& result) {
  for (int64_t i = 0; i < rows; ++i) {
    BlockTerms<T> t = terms;
    t.rows += i;
    const BlockResult<T> row = {result.to + i * result.row, 0, result.streams};
    sum_whole_blocks<T, 1, Vectors, 0, 0>(t, columns, row);
    sum_last_columns<T, 1>(t, columns, row);
  }
}

// Sums Rows rows of the output, from terms.column on, for a kernel of at least Rows - 1 rows.
template <class T, int Rows, int Vectors>
void sum_tall_rows(const BlockTerms<T>& terms, int64_t columns, const BlockResult<T>& result) {
  BlockTerms<T> t = terms;
  sum_whole_blocks<T, Rows, Vectors, 0, 0>(t, columns, result);
  sum_last_columns<T, Rows>(t, columns, result);
}

// Sums up to Rows rows of the output, from terms.column on.
template <class T, int Rows, int Vectors>
void sum_rows(const BlockTerms<T>& terms, int64_t rows, int64_t columns,
              const BlockResult<T>& result) {
  if (rows < Rows) return sum_single_rows<T, Vectors>(terms, rows, columns, result);
  // Complex weights take twice the registers: too many for this.
  constexpr int kUnrolled = sizeof(Weight<T>) == sizeof(T) ? 3 : 0;
  BlockTerms<T> t = terms;
  if (t.height == 1) {
    sum_whole_blocks<T, Rows, Vectors, 1, 0>(t, columns, result);
  } else if (t.height == 2) {
    sum_whole_blocks<T, Rows, Vectors, 2, 0>(t, columns, result);
  } else if (t.height == 3 && t.width == kUnrolled) {
    sum_whole_blocks<T, Rows, Vectors, 3, kUnrolled>(t, columns, result);
  } else if (t.height == 3) {
    sum_whole_blocks<T, Rows, Vectors, 3, 0>(t, columns, result);
  } else {
    return sum_tall_rows<T, Rows, Vectors>(terms, columns, result);
  }
  sum_single_rows<T, 1>(t, rows, columns, result);
}

}  // namespace
}  // namespace visops
