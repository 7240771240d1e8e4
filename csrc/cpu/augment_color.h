// What follows sampling, a segment at a time: colour, scale and offset, erased rectangles, storing.
#pragma once

#include "cpu/augment_lanes.h"
#include "cpu/simd.h"

namespace visops {
namespace {

template <int Channels>
void color_planes(const AugmentParams& p, const ColorPlan<float>& plan, int padded,
                  Planes& planes) {
  for (int64_t k = 0; k < p.color_steps; ++k) {
    float a[Channels][Channels + 1];
    for (int c = 0; c < Channels; ++c) {
      for (int j = 0; j <= Channels; ++j) a[c][j] = plan.step[k][c][j];
    }
    constexpr int kWidth = Floats::kWidth;
    const bool clamp = p.clamp;
    for (int i = 0; i < padded; i += kWidth) {
      float next[Channels][kWidth];
      for (int c = 0; c < Channels; ++c) {
        for (int l = 0; l < kWidth; ++l) {
          float v = a[c][0] * planes.v[0][i + l];
          for (int j = 1; j < Channels; ++j) v = v + a[c][j] * planes.v[j][i + l];
          v = v + a[c][Channels];
          next[c][l] = clamp ? clamp_unit(v) : v;
        }
      }
      for (int c = 0; c < Channels; ++c) memcpy(planes.v[c] + i, next[c], sizeof(next[c]));
    }
  }
}

inline void color_segment(const AugmentParams& p, const ColorPlan<float>& plan, int padded,
                          Planes& planes) {
  switch (p.channels) {
    case 1: return color_planes<1>(p, plan, padded, planes);
    case 2: return color_planes<2>(p, plan, padded, planes);
    case 3: return color_planes<3>(p, plan, padded, planes);
    default: return color_planes<4>(p, plan, padded, planes);
  }
}

// finish_value() of a run, from `v` to `result`; they may be the same.
inline void finish_plane(const AugmentParams& p, int64_t channel, const float* v, int count,
                         float* result) {
  const int64_t at = value_index(p, channel);
  const float scale = static_cast<float>(p.scale[at]), offset = static_cast<float>(p.offset[at]);
  if (p.color_steps > 0) {
    for (int i = 0; i < count; ++i) result[i] = v[i] * scale + offset;
    return;
  }
  const float input = static_cast<float>(p.input_scale);
  if (p.clamp) {
    for (int i = 0; i < count; ++i) result[i] = clamp_unit(v[i] * input) * scale + offset;
  } else {
    for (int i = 0; i < count; ++i) result[i] = (v[i] * input) * scale + offset;
  }
}

inline void erase_plane(const SegmentAt& at, int64_t channel, float* result) {
  const AugmentParams& p = at.p;
  const float value = static_cast<float>(p.erase_value[value_index(p, channel)]);
  for (int64_t k = 0; k < p.erase_count; ++k) {
    const int64_t* r = p.erase + (at.sample * p.erase_count + k) * 4;
    if (at.y < r[1] || at.y >= r[3]) continue;
    const Span lanes = intersect({0, at.count}, {r[0] - at.x0, r[2] - at.x0});
    for (int64_t i = lanes.begin; i < lanes.end; ++i) result[i] = value;
  }
}

// `count` finished values of one channel, `step` elements apart.
template <class T>
void store_plane(const float* v, int count, T* out, int64_t step) {
  constexpr int kWidth = Floats::kWidth;
  int i = 0;
  for (; i < count; i += kWidth) {
    const Floats one[1] = {Floats::load(v + i)};
    if (step == 1 && i + kWidth <= count) {
      store_pixels(out + i, one);
      continue;
    }
    T part[kWidth];
    store_pixels(part, one);
    const int rest = count - i < kWidth ? count - i : kWidth;
    for (int l = 0; l < rest; ++l) out[(i + l) * step] = part[l];
  }
}

// Channels side by side: 3 or 4.
template <int Channels>
void store_interleaved(const Planes& planes, int count, uint8_t* out) {
  constexpr int kWidth = Floats::kWidth;
  for (int i = 0; i < count; i += kWidth) {
    Floats pixels[Channels];
    for (int c = 0; c < Channels; ++c) pixels[c] = Floats::load(planes.v[c] + i);
    if (i + kWidth <= count) {
      store_pixels(out + i * Channels, pixels);
    } else {
      uint8_t rest[kMaxWidth * Channels];  // more than kWidth, or compilers fear for copy_part
      store_pixels(rest, pixels);
      copy_part(out + i * Channels, rest, static_cast<size_t>(count - i) * Channels);
    }
  }
}

template <int Channels>
void store_interleaved(const Planes& planes, int count, float* out) {
  int i = 0;
  // With three channels a store of four spills over to the next pixel, which comes later.
  for (; i + 4 < count; i += 4) {
    Quad q[4];
    for (int c = 0; c < 4; ++c) q[c] = Quad::load(planes.v[c < Channels ? c : 0] + i);
    transpose(q);
    for (int l = 0; l < 4; ++l) q[l].store(out + (i + l) * Channels);
  }
  for (; i < count; ++i) {
    for (int c = 0; c < Channels; ++c) out[i * Channels + c] = planes.v[c][i];
  }
}

template <class T>
void store_planes(const SegmentAt& at, int64_t first, int64_t channels, const Planes& planes) {
  const Strides stride = at.p.output_stride;
  T* out = static_cast<T*>(at.p.output) + at.sample * stride.batch + first * stride.channel +
           at.y * stride.row + at.x0 * stride.column;
  if constexpr (sizeof(T) == 1 || sizeof(T) == 4) {
    if (stride.channel == 1 && stride.column == channels) {
      if (channels == 3) return store_interleaved<3>(planes, at.count, out);
      if (channels == 4) return store_interleaved<4>(planes, at.count, out);
    }
  }
  for (int64_t c = 0; c < channels; ++c) {
    store_plane(planes.v[c], at.count, out + c * stride.channel, stride.column);
  }
}

// From sampled values to the output.
inline void finish_segment(const SegmentAt& at, const ColorPlan<float>& plan, int64_t first,
                           int64_t channels, Planes& planes) {
  const AugmentParams& p = at.p;
  if (p.color_steps > 0) color_segment(p, plan, at.padded, planes);
  // float32 planes are written as they are finished; the rest is finished in place and converted.
  const Strides stride = p.output_stride;
  const bool direct = p.output_dtype == DType::kFloat32 && stride.column == 1;
  for (int64_t c = 0; c < channels; ++c) {
    float* result = planes.v[c];
    if (direct) {
      result = static_cast<float*>(p.output) + at.sample * stride.batch +
               (first + c) * stride.channel + at.y * stride.row + at.x0;
    }
    finish_plane(p, first + c, planes.v[c], direct ? at.count : at.padded, result);
    if (p.erase_count > 0) erase_plane(at, first + c, result);
  }
  if (direct) return;
  switch (p.output_dtype) {
    case DType::kUInt8: return store_planes<uint8_t>(at, first, channels, planes);
    case DType::kFloat16: return store_planes<Half>(at, first, channels, planes);
    case DType::kBFloat16: return store_planes<BFloat16>(at, first, channels, planes);
    case DType::kFloat32: return store_planes<float>(at, first, channels, planes);
    default: break;
  }
  double* out = static_cast<double*>(p.output) + at.sample * stride.batch + first * stride.channel +
                at.y * stride.row + at.x0 * stride.column;
  for (int64_t c = 0; c < channels; ++c) {
    for (int i = 0; i < at.count; ++i) {
      out[c * stride.channel + i * stride.column] = static_cast<double>(planes.v[c][i]);
    }
  }
}

}  // namespace
}  // namespace visops
