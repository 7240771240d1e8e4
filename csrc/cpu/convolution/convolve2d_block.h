// A block of sums in registers: Rows output rows by Vectors vectors of columns. Each vector of the
// input is loaded once and serves all rows that it meets.
#pragma once

#include "core/convolution/convolve2d.h"
#include "cpu/prefetch.h"
#include "cpu/simd/arm.h"
#include "cpu/simd/floats.h"
#include "cpu/simd/vector.h"

#if VISOPS_ISA_SLOT > 0
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

#if VISOPS_ISA_SLOT > 0
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace visops {
namespace {

// Stores that bypass the caches, for results larger than those: ordinary stores would first read
// every line that they overwrite.

// Streaming pays from this many bytes of result on; addresses must be multiples of kStreamLine.
constexpr int64_t kWorthStreaming = int64_t{1} << 22;
constexpr int64_t kStreamLine = 64;

template <class T>
VISOPS_ALWAYS_INLINE void stream_vector(T* p, Vector<T> vector) {
#if VISOPS_ISA_SLOT == 2
  __m512i bits;
  memcpy(&bits, &vector.v, sizeof(bits));
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), bits);
#elif VISOPS_ISA_SLOT == 1
  __m256i bits;
  memcpy(&bits, &vector.v, sizeof(bits));
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), bits);
#elif defined(__SSE2__)
  __m128i bits;
  memcpy(&bits, &vector.v, sizeof(bits));
  _mm_stream_si128(reinterpret_cast<__m128i*>(p), bits);
#else
  store_vector(p, vector);
#endif
}

// Call after the last streamed store, before another thread may read the result.
VISOPS_ALWAYS_INLINE void end_streaming() {
#if VISOPS_ISA_SLOT > 0 || defined(__SSE2__)
  _mm_sfence();
#endif
}

// Vectors of the input's terms, and weights. Complex numbers stay pairs, as stored: the real part
// of a weight multiplies the vector, its imaginary part the vector with each pair swapped. Each
// lane sums as in NOTE [ Convolution's sums ]; subtracting a product is adding that of the negative
// weight.

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
  bool streams;  // where cpu/convolution/convolve2d_block.h says so
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
