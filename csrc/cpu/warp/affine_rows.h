// How the CPU kernels walk an output row: its segments, and the coordinates in them.
//
// NOTE [ Rows and spans ]
// Coordinates are linear along a row, so division finds two intervals: the columns that may touch
// the image, and the columns whose taps surely all lie inside it. Outside the first the row is fill
// (constant padding only). Within the second, pixels are sampled in vectors, untested. The columns
// in between, and all columns of images too large for 32-bit offsets, go through the one-pixel code
// of core/warp/affine.h, which gives the same bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/warp/affine.h"
#include "cpu/items.h"
#include "cpu/prefetch.h"

namespace visops {
namespace {

constexpr int kMaxWidth = 16;                         // of any Floats
constexpr int kPaddedSegment = kSegment + kMaxWidth;  // a segment; vectors may run over its end

// For columns and rows of a sample's output.
inline ReadAhead read_ahead(const AffineParams& p, const AffineMap& map, int64_t sample,
                            Span columns, Span rows) {
  const int64_t size = element_size(p.dtype);
  const Strides& stride = p.image_stride;
  const bool interleaved = stride.channel == 1;
  return ReadAhead({static_cast<const char*>(p.image) + sample * stride.batch * size, p.height,
                    p.width, interleaved && p.channels > 0 ? 1 : p.channels, stride.channel * size,
                    stride.row * size, stride.column * size},
                   map.m, tap_count(p.mode), columns, rows);
}

struct RowSpans {
  Span touching;  // may have a tap in the image
  Span inside;    // has all its taps in the image; within `touching`
};

VISOPS_ALWAYS_INLINE RowSpans row_spans(const AffineParams& p, const AffineMap& map,
                                        Interpolation mode, int64_t y) {
  const double* m = map.m;
  const double row = static_cast<double>(y);
  const double base_x = m[1] * row + m[2], base_y = m[4] * row + m[5];
  const double width = static_cast<double>(p.width), height = static_cast<double>(p.height);
  RowSpans spans;
  spans.touching = {0, p.output_width};
  if (p.padding == Padding::kConstant) {
    const double reach = mode == Interpolation::kBicubic ? 2.0 : 1.0;
    spans.touching =
        intersect(columns_maybe_within(m[0], base_x, -reach, width - 1 + reach, p.output_width),
                  columns_maybe_within(m[3], base_y, -reach, height - 1 + reach, p.output_width));
  }
  double low = 0.0, short_of = 1.0;  // bilinear: floor(x) >= 0 and floor(x) + 1 <= width - 1
  if (mode == Interpolation::kNearest) low = -0.5, short_of = 0.5;
  if (mode == Interpolation::kBicubic) low = 1.0, short_of = 2.0;
  spans.inside = intersect(
      spans.touching,
      intersect(columns_surely_within(m[0], base_x, low, width - short_of, p.output_width),
                columns_surely_within(m[3], base_y, low, height - short_of, p.output_width)));
  return spans;
}

// Byte offsets and weights of up to kSegment pixels, relative to the segment's origin.
struct SegmentTaps {
  alignas(64) int32_t offset[kPaddedSegment];
  alignas(64) float wx[kPaddedSegment];
  alignas(64) float wy[kPaddedSegment];
  int32_t highest;  // bound on the offsets
};

// floor() for |v| < 2^31. Without a rounding instruction, compilers would emit a call.
VISOPS_ALWAYS_INLINE float floor_of(float v) {
#if VISOPS_ISA_SLOT > 0 || VISOPS_NEON
  return std::floor(v);
#else
  const float whole = static_cast<float>(static_cast<int32_t>(v));
  return whole > v ? whole - 1.0f : whole;
#endif
}

// The largest floor(coordinate) x bytes along one axis. Taps move one way, so it is at an end.
VISOPS_ALWAYS_INLINE int32_t extreme_tap(float step, float fraction, float half, int first,
                                         int count, int32_t bytes) {
  const bool at_last = (step > 0.0f) == (bytes > 0);
  const float lane = from_centre<float>(at_last ? first + count - 1 : first);
  const float at = (step * lane + fraction) + half;
  return static_cast<int32_t>(floor_of(at)) * bytes;
}

// Pixels [first, first + count) of a segment, all of them inside the image. Entries beyond `count`
// repeat the last one, so vectors may run over the end.
VISOPS_ALWAYS_INLINE void fill_taps(Interpolation mode, const AffineMap& map,
                                    const SegmentOrigin<float>& origin, int first, int count,
                                    int32_t row_bytes, int32_t column_bytes, SegmentTaps& taps) {
  const float step_x = static_cast<float>(map.m[0]), step_y = static_cast<float>(map.m[3]);
  const float half = mode == Interpolation::kNearest ? 0.5f : 0.0f;
  const int padded = (count + kMaxWidth - 1) & -kMaxWidth;
  for (int i = 0; i < padded; ++i) {
    const float lane = from_centre<float>(first + i);
    const float x = (step_x * lane + origin.fx) + half, y = (step_y * lane + origin.fy) + half;
    const float left = floor_of(x), top = floor_of(y);
    taps.wx[i] = x - left;
    taps.wy[i] = y - top;
    taps.offset[i] =
        static_cast<int32_t>(top) * row_bytes + static_cast<int32_t>(left) * column_bytes;
  }
  for (int i = count; i < padded; ++i) taps.offset[i] = taps.offset[count - 1];
  taps.highest = extreme_tap(step_x, origin.fx, half, first, count, column_bytes) +
                 extreme_tap(step_y, origin.fy, half, first, count, row_bytes);
}

// Whether every offset that fill_taps() can compute within a segment fits 32 bits.
VISOPS_ALWAYS_INLINE bool fits_taps(const double* m, int64_t row_bytes, int64_t column_bytes) {
  const double reach_x = fabs(m[0]) * kSegment + 4.0, reach_y = fabs(m[3]) * kSegment + 4.0;
  const double bytes = reach_y * fabs(static_cast<double>(row_bytes)) +
                       reach_x * fabs(static_cast<double>(column_bytes));
  return bytes < 1073741824.0;
}

}  // namespace
}  // namespace visops
