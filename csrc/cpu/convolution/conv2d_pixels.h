// Bands of channels_last images: squares of pixels by channels are transposed in registers.
#pragma once

#include <cstring>
#include <utility>

#include "core/convolution/conv2d.h"
#include "cpu/prefetch.h"
#include "cpu/simd/vector.h"

#if VISOPS_ISA_SLOT >= 1
#include <immintrin.h>
#endif

namespace visops {
namespace {

// Copies short runs between stored elements and summed values.

// Adjacent elements of one type. Runs are short: a call of memcpy would take longer.
template <class T>
VISOPS_ALWAYS_INLINE void copy_adjacent(T* to, const T* from, int64_t count) {
  int64_t i = 0;
  for (; i + Vector<T>::kCount <= count; i += Vector<T>::kCount) {
    store_vector(to + i, load_vector(from + i));
  }
#if VISOPS_ISA_SLOT == 2
  const int64_t rest = count - i;
  if (rest == 0) return;
  if constexpr (sizeof(T) == 8) {
    const __mmask8 mask = static_cast<__mmask8>((1u << rest) - 1);
    _mm512_mask_storeu_epi64(to + i, mask, _mm512_maskz_loadu_epi64(mask, from + i));
  } else if constexpr (sizeof(T) == 4) {
    const __mmask16 mask = static_cast<__mmask16>((1u << rest) - 1);
    _mm512_mask_storeu_epi32(to + i, mask, _mm512_maskz_loadu_epi32(mask, from + i));
  } else {
    const __mmask32 mask = static_cast<__mmask32>((uint64_t{1} << rest) - 1);
    _mm512_mask_storeu_epi16(to + i, mask, _mm512_maskz_loadu_epi16(mask, from + i));
  }
#else
  for (; i < count; ++i) to[i] = from[i];
#endif
}

// Loads one part of elements that are `stride` apart.
template <class Element>
VISOPS_ALWAYS_INLINE void load_run(typename Element::Value* VISOPS_RESTRICT to,
                                   const typename Element::Stored* VISOPS_RESTRICT from,
                                   int64_t stride, int64_t count) {
  using Stored = typename Element::Stored;
  using Value = typename Element::Value;
  stride *= Element::kParts;
  if constexpr (sizeof(Stored) == sizeof(Value)) {
    if (stride == 1) return copy_adjacent(to, reinterpret_cast<const Value*>(from), count);
  }
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = conv_value(from[i]);
  } else if (stride == 2) {  // said to the compiler, which has vectors for it
    for (int64_t i = 0; i < count; ++i) to[i] = conv_value(from[2 * i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = conv_value(from[stride * i]);
  }
}

template <class Element>
void store_run(typename Element::Stored* to, int64_t stride, const typename Element::Value* from,
               int64_t count) {
  using Stored = typename Element::Stored;
  using Value = typename Element::Value;
  stride *= Element::kParts;
  if constexpr (sizeof(Stored) == sizeof(Value)) {
    if (stride == 1) return copy_adjacent(reinterpret_cast<Value*>(to), from, count);
  }
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) conv_store(to + i, from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) conv_store(to + stride * i, from[i]);
  }
}

// Writes whole vectors, the last of which may overrun: what follows must be written later.
template <class T>
VISOPS_ALWAYS_INLINE void zero_vectors(T* to, int64_t count) {
  for (int64_t i = 0; i < count; i += Vector<T>::kCount) store_vector(to + i, broadcast(T{}));
}

// Fills bands: NOTE [ Bands of images ] (core/convolution/conv2d.h).

// A block of one phase: outputs first_row .. first_row + rows, and likewise columns.
struct ConvBlock {
  ConvAxis y, x;
  int64_t first_row, rows, first_column, columns;
  int64_t width;  // of a row of the band
  int64_t plane;  // elements of a channel in the band
};

VISOPS_ALWAYS_INLINE ConvBlock conv_block(const ConvAxis& y, const ConvAxis& x, int64_t first_row,
                                          int64_t rows, int64_t first_column, int64_t columns) {
  const int64_t width = band_width(x, first_column, columns);
  return {y, x, first_row, rows, first_column, columns, width, band_plane(y, rows, x, width)};
}

// The columns of a class's row that the image fills; the rest is 0.
struct BandSpan {
  int64_t begin, end;
  int64_t from;  // the image's column of the first
};

VISOPS_ALWAYS_INLINE BandSpan band_span(const ConvBlock& block, int64_t of_class) {
  const ConvAxis& x = block.x;
  const int64_t origin = band_origin(x, block.first_column, of_class);
  const int64_t begin = origin < 0 ? (-origin + x.step - 1) / x.step : 0;
  const int64_t end = origin < x.size ? (x.size - origin + x.step - 1) / x.step : 0;
  const int64_t first = least_of(begin, block.width);
  return {first, most_of(least_of(end, block.width), first), origin + begin * x.step};
}

// Fills one class of a channel; `next` is the offset of the next channel, or 0. Goes by rising
// address, so that vectors of zeros may overlap what is written next.
template <class Element>
VISOPS_ALWAYS_INLINE void fill_band_class(const ConvBlock& block, int64_t of_class,
                                          const BandSpan& span,
                                          const typename Element::Stored* plane, int64_t next,
                                          const ConvMap& map, typename Element::Value* to) {
  using Stored = typename Element::Stored;
  constexpr int kParts = Element::kParts;
  const ConvAxis& y = block.y;
  const int64_t origin = band_origin(y, block.first_row, of_class);
  const int64_t height = band_extent(y, block.rows);
  const int64_t count = span.end - span.begin, stride = block.x.step * map.column_stride;
  const int64_t elements = ((count - 1) * stride + 1) * kParts;  // from the first to the last
  for (int64_t j = 0; j < height; ++j, to += block.width) {
    const int64_t row = origin + j * y.step;
    if (row < 0 || row >= y.size || count == 0) {
      zero_vectors(to, block.width);
      continue;
    }
    const Stored* from = plane + (row * map.row_stride + span.from * map.column_stride) * kParts;
    if (next != 0 && map.column_stride == 1) prefetch(from + next * kParts, elements);
    zero_vectors(to, span.begin);
    load_run<Element>(to + span.begin, from, stride, count);
    zero_vectors(to + span.end, block.width - span.end);
  }
}

// Fills the planes of `channels` channels, kParts each, and the zeros after them.
template <class Element>
void fill_band(const ConvBlock& block, const typename Element::Stored* from, const ConvMap& map,
               int64_t channels, typename Element::Value* band) {
  const int64_t classes_y = band_classes(block.y), classes_x = band_classes(block.x);
  const int64_t of_class = band_extent(block.y, block.rows) * block.width;
  for (int64_t channel = 0; channel < channels; ++channel) {
    const int64_t next = channel + 1 < channels ? map.channel_stride : 0;
    for (int part = 0; part < Element::kParts; ++part) {
      const auto* plane = from + channel * map.channel_stride * Element::kParts + part;
      for (int64_t v = 0; v < classes_y; ++v) {
        for (int64_t u = 0; u < classes_x; ++u, band += of_class) {
          fill_band_class<Element>(block, v, band_span(block, u), plane, u == 0 ? next : 0, map,
                                   band);
        }
      }
    }
  }
  zero_vectors(band, band_tail(block.x, block.columns, block.width));
}

// Where the image itself can serve as the block's band: the distance between its channels, else 0.
// `left` elements may be read from the first pixel on.
template <class Element>
int64_t image_as_band(const ConvBlock& block, const ConvMap& map, int64_t channels, int64_t left) {
  if (sizeof(typename Element::Value) != sizeof(typename Element::Stored)) return 0;
  const ConvAxis &y = block.y, &x = block.x;
  if (Element::kParts != 1 || y.taps * x.taps != 1 || y.step != 1 || x.step != 1) return 0;
  const int64_t row = y.first + block.first_row, column = x.first + block.first_column;
  const bool inside = row >= 0 && row + block.rows <= y.size && column >= 0 &&
                      column + block.columns <= x.size && block.width == map.row_stride &&
                      map.column_stride == 1 && map.channel_stride > 0;
  const int64_t last = (channels - 1) * map.channel_stride + block.rows * block.width + kBandSlack;
  constexpr int64_t kMostOffset = int64_t{1} << 31;
  return inside && last <= left && last < kMostOffset ? map.channel_stride : 0;
}

// Where the run of each column of im2col begins in the band.
inline void band_offsets(const ConvBlock& block, int64_t planes, int32_t* offsets) {
  const ConvAxis &y = block.y, &x = block.x;
  const int64_t classes_y = band_classes(y), classes_x = band_classes(x);
  const int64_t of_class = band_extent(y, block.rows) * block.width;
  for (int64_t plane = 0; plane < planes; ++plane) {
    for (int64_t v = 0; v < y.taps; ++v) {
      const int64_t row = v % classes_y * classes_x * of_class + band_shift(y, v) * block.width;
      for (int64_t u = 0; u < x.taps; ++u) {
        const int64_t at = row + u % classes_x * of_class + band_shift(x, u);
        *offsets++ = static_cast<int32_t>(plane * block.plane + at);
      }
    }
  }
}

// Interleaves the first halves of a and b, or the second ones (first = kCount / 2).
template <class T, int first, size_t... i>
VISOPS_ALWAYS_INLINE Vector<T> in_turn(Vector<T> a, Vector<T> b, std::index_sequence<i...>) {
  constexpr int kCount = Vector<T>::kCount;
#if defined(__clang__)
  return {__builtin_shufflevector(a.v, b.v, (static_cast<int>(i) / 2 + first + i % 2 * kCount)...)};
#elif defined(__GNUC__)
  using Index = std::conditional_t<sizeof(T) == 8, int64_t,
                                   std::conditional_t<sizeof(T) == 4, int32_t, int16_t>>;
  return {__builtin_shuffle(a.v, b.v,
                            typename Register<Index>::type{static_cast<Index>(
                                static_cast<int>(i) / 2 + first + i % 2 * kCount)...})};
#else
  Vector<T> mixed;
  for (size_t j = 0; j < kCount; ++j) {
    mixed.v.lane[j] = (j % 2 ? b : a).v.lane[j / 2 + first];
  }
  return mixed;
#endif
}

// Transposes a square of kCount rows.
template <class T>
VISOPS_ALWAYS_INLINE void transpose_square(Vector<T> (&rows)[Vector<T>::kCount]) {
  constexpr int kCount = Vector<T>::kCount;
  using Indices = std::make_index_sequence<kCount>;
  for (int distance = 1; distance < kCount; distance *= 2) {
    Vector<T> next[kCount];
    for (int i = 0; i < kCount / 2; ++i) {
      next[2 * i] = in_turn<T, 0>(rows[i], rows[i + kCount / 2], Indices{});
      next[2 * i + 1] = in_turn<T, kCount / 2>(rows[i], rows[i + kCount / 2], Indices{});
    }
    for (int i = 0; i < kCount; ++i) rows[i] = next[i];
  }
}

// Turns pixels of a row into runs in planes that are `plane` values apart.
template <class Element>
void transpose_pixels(const typename Element::Stored* from, int64_t pixel_stride, int64_t pixels,
                      int64_t channels, typename Element::Value* to, int64_t plane) {
  using Value = typename Element::Value;
  constexpr int kCount = Vector<Value>::kCount;
  for (int64_t c = 0; c < channels; c += kCount) {
    const int64_t count = least_of(kCount, channels - c);
    for (int64_t x = 0; x < pixels; x += kCount) {
      const int64_t width = least_of(kCount, pixels - x);
      Vector<Value> square[kCount];
      for (int64_t i = 0; i < kCount; ++i) {
        Value pixel[kCount] = {};
        if (i < width) load_run<Element>(pixel, from + (x + i) * pixel_stride + c, 1, count);
        square[i] = load_vector(pixel);
      }
      transpose_square(square);
      for (int64_t i = 0; i < count; ++i) {
        Value run[kCount];
        store_vector(run, square[i]);
        copy_adjacent(to + (c + i) * plane + x, run, width);
      }
    }
  }
}

// fill_band() for real elements.
template <class Element>
void fill_band_of_pixels(const ConvBlock& block, const typename Element::Stored* from,
                         const ConvMap& map, int64_t channels, typename Element::Value* band) {
  const ConvAxis &y = block.y, &x = block.x;
  const int64_t classes_x = band_classes(x), height = band_extent(y, block.rows);
  zero_vectors(band, channels * block.plane + band_tail(x, block.columns, block.width));
  for (int64_t v = 0; v < band_classes(y); ++v) {
    const int64_t origin = band_origin(y, block.first_row, v);
    for (int64_t j = 0; j < height; ++j) {
      const int64_t row = origin + j * y.step;
      if (row < 0 || row >= y.size) continue;
      for (int64_t u = 0; u < classes_x; ++u) {
        const BandSpan span = band_span(block, u);
        transpose_pixels<Element>(
            from + row * map.row_stride + span.from * map.column_stride, x.step * map.column_stride,
            span.end - span.begin, channels,
            band + ((v * classes_x + u) * height + j) * block.width + span.begin, block.plane);
      }
    }
  }
}

// With fewer channels, vectors would be mostly empty.
constexpr int64_t kFewPixelChannels = 8;

template <class Element>
void fill_any_band(const ConvBlock& block, const typename Element::Stored* from, const ConvMap& map,
                   int64_t channels, typename Element::Value* band) {
  if constexpr (Element::kParts == 1) {
    if (map.channel_stride == 1 && map.column_stride != 1 && channels >= kFewPixelChannels) {
      return fill_band_of_pixels<Element>(block, from, map, channels, band);
    }
  }
  fill_band<Element>(block, from, map, channels, band);
}

}  // namespace
}  // namespace visops
