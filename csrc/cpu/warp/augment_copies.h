// uint8 to uint8 without blending or colour, such as masks, flips and crops: bytes are moved.
//
// NOTE [ Copied pixels ]
// A byte that is converted to float32, multiplied by 1, has 0 added and is rounded is the same
// byte, so nearest sampling leaves that out. Fill and erase values are rounded as they are
// elsewhere.
#pragma once

#include "cpu/copies.h"
#include "cpu/warp/augment_color.h"
#include "cpu/warp/augment_samplers.h"

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

inline uint8_t stored_byte(float value) {
  uint8_t byte;
  store_element(&byte, value);
  return byte;
}

// The lanes whose taps lie in the window: one run, as coordinates move one way.
inline Span lanes_inside(const AugmentLanes& lanes) {
  Span inside = {lanes.begin, lanes.end};
  if (!lanes.blended) return inside;
  while (inside.begin < inside.end && lanes.out[inside.begin] != 0.0f) ++inside.begin;
  while (inside.begin < inside.end && lanes.out[inside.end - 1] != 0.0f) --inside.end;
  return inside;
}

// Pixels of `Bytes` bytes.
template <int Bytes>
void copy_lanes(const LaneImage& image, const char* from, const int32_t* offset, int count,
                char* out, int64_t step) {
  const int last = count - 1;
  const double* m = image.s.map.m;
  if (image.s.map.integral && m[0] == 1.0 && m[3] == 0.0 && step == Bytes &&
      image.column_bytes == Bytes && offset[last] - offset[0] == last * Bytes) {
    memcpy(out, from + offset[0], static_cast<size_t>(count) * Bytes);
    return;
  }
  if constexpr (Bytes == 3) {
    int32_t highest = offset[0];
    for (int i = 1; i < count; ++i) highest = offset[i] > highest ? offset[i] : highest;
    if (step == 3 && highest + int64_t{4} <= image.end) {
      return copy_triples(from, offset, count, out);
    }
  }
  copy_pixels<Bytes>(from, offset, count, out, step);
}

inline void copy_channels(const LaneImage& image, const int32_t* offset, int count, char* out) {
  const Strides stride = image.p.output_stride;
  const char* from = static_cast<const char*>(image.s.image.data);
  const int64_t channels = image.p.channels;
  const bool whole_pixels = image.channel_bytes == 1 && stride.channel == 1;
  if (whole_pixels && channels == 3) {
    return copy_lanes<3>(image, from, offset, count, out, stride.column);
  }
  if (whole_pixels && channels == 4) {
    return copy_lanes<4>(image, from, offset, count, out, stride.column);
  }
  for (int64_t c = 0; c < channels; ++c) {
    copy_lanes<1>(image, from + c * image.channel_bytes, offset, count, out + c * stride.channel,
                  stride.column);
  }
}

// Where a segment lies in the output.
struct CopiedSegment {
  int64_t sample, x0, y;
  int count;  // pixels
};

// Writes a segment whose lanes `inside` have their taps at `offset`; the others are fill.
inline void copy_segment(const LaneImage& image, const CopiedSegment& at, Span inside,
                         const int32_t* offset) {
  const AugmentParams& p = image.p;
  const Strides stride = p.output_stride;
  char* out = static_cast<char*>(p.output) + at.sample * stride.batch + at.y * stride.row +
              at.x0 * stride.column;
  if (inside.begin < inside.end) {
    copy_channels(image, offset + inside.begin, static_cast<int>(inside.end - inside.begin),
                  out + inside.begin * stride.column);
  }
  const bool filled = inside.end - inside.begin < at.count;
  for (int64_t c = 0; filled && c < p.channels; ++c) {
    const uint8_t fill = stored_byte(static_cast<float>(p.fill[value_index(p, c)]));
    char* to = out + c * stride.channel;
    fill_elements(to, stride.column, 0, inside.begin, 1, fill);
    fill_elements(to, stride.column, inside.end, at.count, 1, fill);
  }
  for (int64_t c = 0; p.erase_count > 0 && c < p.channels; ++c) {
    const auto value = stored_byte(static_cast<float>(p.erase_value[value_index(p, c)]));
    char* to = out + c * stride.channel;
    for_each_erased(p, at.sample, at.x0, at.y, at.count,
                    [&](int64_t i) { to[i * stride.column] = static_cast<char>(value); });
  }
}

}  // namespace
}  // namespace visops
