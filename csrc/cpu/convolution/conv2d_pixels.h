// Bands of channels_last images: squares of pixels by channels are transposed in registers.
#pragma once

#include <utility>

#include "cpu/convolution/conv2d_band.h"

namespace visops {
namespace {

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
