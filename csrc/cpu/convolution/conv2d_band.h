// Fills bands: NOTE [ Bands of images ] (core/convolution/conv2d_band.h).
#pragma once

#include "core/convolution/conv2d_band.h"
#include "cpu/convolution/conv2d_runs.h"
#include "cpu/prefetch.h"

namespace visops {
namespace {

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

}  // namespace
}  // namespace visops
