// What follows sampling, segment by segment: colour, scale and offset, erased rectangles, output.
#pragma once

#include <type_traits>

#include "cpu/simd/floats.h"
#include "cpu/warp/augment_lanes.h"

namespace visops {
namespace {

// The colour steps of `Channels` planes, then scale and offset, into `result` (which may be the
// planes themselves). A vector stays in registers from the first step to the last. Of equal
// channels, which are written to one place, only the first is made.
template <int Channels, int Made, bool clamp>
void color_planes(const AugmentParams& p, const ColorPlan<float>& plan, int padded,
                  const Planes& planes, float* const (&result)[kGroup]) {
  float scale[Made], offset[Made];
  for (int c = 0; c < Made; ++c) {
    scale[c] = static_cast<float>(p.scale[value_index(p, c)]);
    offset[c] = static_cast<float>(p.offset[value_index(p, c)]);
  }
  const int64_t steps = p.color_steps;
  for (int i = 0; i < padded; i += Floats::kWidth) {
    Floats v[Channels];
    for (int c = 0; c < Channels; ++c) v[c] = Floats::load(planes.v[c] + i);
    const auto take = [&](int64_t k, auto made) {  // a constant, so that loops unroll
      Floats next[Channels];
      for (int c = 0; c < made; ++c) {
        const float* a = plan.step[k][c];
        next[c] = Floats(a[0]) * v[0];
        for (int j = 1; j < Channels; ++j) next[c] = next[c] + Floats(a[j]) * v[j];
        next[c] = next[c] + Floats(a[Channels]);
        if (clamp) next[c] = clamp_unit(next[c]);
      }
      for (int c = 0; c < made; ++c) v[c] = next[c];
    };
    const int64_t whole = Made == Channels ? steps : steps - 1;
    for (int64_t k = 0; k < whole; ++k) take(k, std::integral_constant<int, Channels>());
    if (Made < Channels) take(whole, std::integral_constant<int, Made>());
    for (int c = 0; c < Made; ++c) {
      (v[c] * Floats(scale[c]) + Floats(offset[c])).store(result[c] + i);
    }
  }
}

template <int Channels, int Made>
void color_planes(const AugmentParams& p, const ColorPlan<float>& plan, int padded,
                  const Planes& planes, float* const (&result)[kGroup]) {
  if (p.clamp) {
    color_planes<Channels, Made, true>(p, plan, padded, planes, result);
  } else {
    color_planes<Channels, Made, false>(p, plan, padded, planes, result);
  }
}

template <int Channels>
void color_segment(const AugmentParams& p, const ColorPlan<float>& plan, int padded,
                   const Planes& planes, float* const (&result)[kGroup]) {
  if (Channels > 1 && p.output_stride.channel == 0) {
    color_planes<Channels, 1>(p, plan, padded, planes, result);
  } else {
    color_planes<Channels, Channels>(p, plan, padded, planes, result);
  }
}

// finish_value() for one channel of an image without colour steps.
struct ChannelFinish {
  Floats input, scale, offset;
  bool clamp;

  ChannelFinish(const AugmentParams& p, int64_t channel)
      : input(static_cast<float>(p.input_scale)),
        scale(static_cast<float>(p.scale[value_index(p, channel)])),
        offset(static_cast<float>(p.offset[value_index(p, channel)])),
        clamp(p.clamp) {}

  VISOPS_ALWAYS_INLINE Floats operator()(Floats sampled) const {
    Floats value = sampled * input;
    if (clamp) value = clamp_unit(value);
    return value * scale + offset;
  }
};

inline void finish_plane(const AugmentParams& p, int64_t channel, int padded, const float* v,
                         float* result) {
  const int64_t at = value_index(p, channel);
  // Bytes to bytes are often finished as they are; -0 and 0 make one byte.
  const bool is_finished = p.input_scale == 1.0 && p.scale[at] == 1.0 && p.offset[at] == 0.0;
  if (is_finished && !p.clamp && p.output_dtype == DType::kUInt8) return;
  const ChannelFinish finish(p, channel);  // a store might change p, for all that compilers know
  for (int i = 0; i < padded; i += Floats::kWidth) finish(Floats::load(v + i)).store(result + i);
}

// Calls lane(i) for those of `count` lanes from column x0 on that lie in erased rectangles.
template <class Lane>
VISOPS_ALWAYS_INLINE void for_each_erased(const AugmentParams& p, int64_t sample, int64_t x0,
                                          int64_t y, int64_t count, const Lane& lane) {
  for (int64_t k = 0; k < p.erase_count; ++k) {
    const int64_t* r = p.erase + (sample * p.erase_count + k) * 4;
    if (y < r[1] || y >= r[3]) continue;
    const Span lanes = intersect({0, count}, {r[0] - x0, r[2] - x0});
    for (int64_t i = lanes.begin; i < lanes.end; ++i) lane(i);
  }
}

inline void erase_plane(const SegmentAt& at, int64_t channel, float* result) {
  const float value = static_cast<float>(at.p.erase_value[value_index(at.p, channel)]);
  for_each_erased(at.p, at.sample, at.x0, at.y, at.count, [&](int64_t i) { result[i] = value; });
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
      uint8_t rest[kMaxWidth * Channels];  // more than kWidth, or compilers warn about copy_part
      store_pixels(rest, pixels);
      copy_part(out + i * Channels, rest, static_cast<size_t>(count - i) * Channels);
    }
  }
}

template <int Channels>
void store_interleaved(const Planes& planes, int count, float* out) {
  int i = 0;
  // With three channels, the next pixel overwrites the fourth float stored.
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

// Takes a segment from sampled values to the output.
inline void finish_segment(const SegmentAt& at, const ColorPlan<float>& plan, int64_t first,
                           int64_t channels, Planes& planes) {
  const AugmentParams& p = at.p;
  // float32 planes are written as they are finished. Everything else is finished in place and then
  // converted, and so is the end of a row that does not fill a vector.
  const Strides stride = p.output_stride;
  const bool direct =
      p.output_dtype == DType::kFloat32 && stride.column == 1 && at.count == at.padded;
  float* result[kGroup] = {planes.v[0], planes.v[1], planes.v[2], planes.v[3]};
  for (int64_t c = 0; direct && c < channels; ++c) {
    result[c] = static_cast<float*>(p.output) + at.sample * stride.batch +
                (first + c) * stride.channel + at.y * stride.row + at.x0;
  }
  if (p.color_steps == 0) {
    for (int64_t c = 0; c < channels; ++c) {
      finish_plane(p, first + c, at.padded, planes.v[c], result[c]);
    }
  } else {
    switch (channels) {
      case 1: color_segment<1>(p, plan, at.padded, planes, result); break;
      case 2: color_segment<2>(p, plan, at.padded, planes, result); break;
      case 3: color_segment<3>(p, plan, at.padded, planes, result); break;
      default: color_segment<4>(p, plan, at.padded, planes, result); break;
    }
  }
  const int64_t made = stride.channel == 0 ? 1 : channels;
  for (int64_t c = 0; p.erase_count > 0 && c < made; ++c) erase_plane(at, first + c, result[c]);
  if (direct) return;
  switch (p.output_dtype) {
    case DType::kUInt8: return store_planes<uint8_t>(at, first, made, planes);
    case DType::kFloat16: return store_planes<Half>(at, first, made, planes);
    case DType::kBFloat16: return store_planes<BFloat16>(at, first, made, planes);
    case DType::kFloat32: return store_planes<float>(at, first, made, planes);
    default: break;
  }
  double* out = static_cast<double*>(p.output) + at.sample * stride.batch + first * stride.channel +
                at.y * stride.row + at.x0 * stride.column;
  for (int64_t c = 0; c < made; ++c) {
    for (int i = 0; i < at.count; ++i) {
      out[c * stride.channel + i * stride.column] = static_cast<double>(planes.v[c][i]);
    }
  }
}

}  // namespace
}  // namespace visops
