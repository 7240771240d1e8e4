// uint8 to uint8 without blending or colour, such as masks, flips and crops: bytes are moved.
//
// NOTE [ Copied pixels ]
// A byte that is converted to float32, multiplied by 1, has 0 added and is rounded is the same
// byte, so nearest sampling leaves that out. Fill and erase values are rounded as they are
// elsewhere.
#pragma once

#include "cpu/warp/augment_color.h"
#include "cpu/warp/augment_samplers.h"
#include "cpu/warp/copied_rows.h"

namespace visops {
namespace {

inline bool copies_bytes(const AugmentParams& p, const AugmentSample& s) {
  if (s.mode != Interpolation::kNearest || p.color_steps > 0 || p.clamp) return false;
  if (p.dtype != DType::kUInt8 || p.output_dtype != DType::kUInt8) return false;
  if (p.input_scale != 1.0) return false;
  for (int64_t i = 0; i < p.value_count; ++i) {
    if (p.scale[i] != 1.0 || p.offset[i] != 0.0) return false;
  }
  return true;
}

// The lanes whose taps lie in the window: one run, as coordinates move one way.
inline Span lanes_inside(const AugmentLanes& lanes) {
  Span inside = {lanes.begin, lanes.end};
  if (!lanes.blended) return inside;
  while (inside.begin < inside.end && lanes.out[inside.begin] != 0.0f) ++inside.begin;
  while (inside.begin < inside.end && lanes.out[inside.end - 1] != 0.0f) --inside.end;
  return inside;
}

inline CopiedSample copied_sample(const LaneImage& image, int64_t sample) {
  const AugmentParams& p = image.p;
  const AugmentSample& s = image.s;
  const Strides& out = p.output_stride;  // bytes
  const double* m = s.map.m;
  const auto* data = static_cast<const char*>(s.image.data);
  const PixelLayout layout = {
      p.channels,  1,          image.channel_bytes,       image.column_bytes,
      out.channel, out.column, run_of(s.map.integral, m), data + image.end};
  return {layout,
          data,
          static_cast<char*>(p.output) + sample * out.batch,
          image.row_bytes,
          out.row,
          m,
          {s.x.first, s.x.last},
          {s.y.first, s.y.last},
          p.dtype,
          p.fill,
          p.value_count};
}

// Whether copy_sample() can make a sample that copies bytes.
inline bool copies_rows(const LaneImage& image, const CopiedSample& copied) {
  return image.p.padding == Padding::kConstant && !image.s.is_fill && !image.s.map.perspective &&
         image.fits && fits_copied_rows(copied);
}

// Overwrites the erased part of `count` bytes from column x0 on.
inline void erase_bytes(const AugmentParams& p, int64_t sample, int64_t x0, int64_t y,
                        int64_t count) {
  const Strides& stride = p.output_stride;
  for (int64_t c = 0; p.erase_count > 0 && c < p.channels; ++c) {
    const uint64_t value = fill_bits(p.output_dtype, p.erase_value[value_index(p, c)]);
    char* to = static_cast<char*>(p.output) + sample * stride.batch + c * stride.channel +
               y * stride.row + x0 * stride.column;
    for_each_erased(p, sample, x0, y, count,
                    [&](int64_t i) { to[i * stride.column] = static_cast<char>(value); });
  }
}

}  // namespace
}  // namespace visops
