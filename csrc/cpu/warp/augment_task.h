// What the ways of sampling share: one sample, and the functions for its dtype and interpolation.
#pragma once

#include "cpu/warp/augment_color.h"
#include "cpu/warp/augment_filter.h"
#include "cpu/warp/augment_samplers.h"
#include "cpu/warp/augment_straight.h"

namespace visops {
namespace {

// Samples lanes [begin, end) of a segment into planes, one by one.
template <class T, Interpolation mode>
void sample_lanes(const SegmentAt& at, int begin, int end, int64_t first, int64_t channels,
                  Planes& planes) {
  for (int i = begin; i < end; ++i) {
    const LanePoint<float> point = at.segment.direct
                                       ? lane_point_direct<float>(at.s.map, at.x0 + i, at.y)
                                       : lane_point(at.segment, i);
    float value[kGroup];
    sample_augmented<T, mode>(at.p, at.s, at.axes, point, first, channels, value);
    for (int64_t c = 0; c < channels; ++c) planes.v[c][i] = value[c];
  }
}

// How segments are sampled, for one dtype and interpolation. Calls go through pointers, so that the
// walk over segments is compiled once; a segment is long enough to hide them.
struct SegmentSampler {
  // The taps at `lanes`, which all lie in the image, in vectors; null where all is filtered.
  void (*taps)(const LaneImage&, const AugmentLanes&, int padded, int64_t first, int64_t channels,
               Planes&);
  // filter_segment() and filter_rows(); null for nearest.
  bool (*filter)(const LaneImage&, const FilterLanes&, int64_t first, int64_t channels, Planes&);
  RowFilter* rows;
  // Lanes [begin, end) one by one, wherever they lie.
  void (*pixels)(const SegmentAt&, int begin, int end, int64_t first, int64_t channels, Planes&);
  // load_straight(); nearest only.
  void (*straight)(const AugmentImage&, const void* pixel, int64_t step, Span lanes, int64_t first,
                   int64_t channels, Planes&);
};

template <class T, Interpolation mode>
void sample_taps(const LaneImage& image, const AugmentLanes& lanes, int padded, int64_t first,
                 int64_t channels, Planes& planes) {
  const LaneSampler<T> sampler(image);
  if constexpr (mode == Interpolation::kNearest) {
    sampler.copy(lanes, padded, first, channels, planes);
  } else {
    const int end = (lanes.end + kMaxWidth - 1) & -kMaxWidth;
    sampler.template sample<mode>(lanes, lanes.begin, end, first, channels, planes);
  }
}

template <class T>
SegmentSampler segment_sampler(Interpolation mode) {
  constexpr auto kNearest = Interpolation::kNearest;
  constexpr auto kBilinear = Interpolation::kBilinear;
  constexpr auto kBicubic = Interpolation::kBicubic;
  switch (mode) {
    case kNearest:
      return {sample_taps<T, kNearest>, nullptr, nullptr, sample_lanes<T, kNearest>,
              load_straight<T>};
    case kBilinear:
      return {sample_taps<T, kBilinear>, filter_segment<T>, filter_rows<T>,
              sample_lanes<T, kBilinear>, nullptr};
    case kBicubic:
      return {sample_taps<T, kBicubic>, filter_segment<T>, filter_rows<T>,
              sample_lanes<T, kBicubic>, nullptr};
    default:
      return {nullptr, filter_segment<T>, filter_rows<T>, sample_lanes<T, Interpolation::kLanczos>,
              nullptr};
  }
}

// A sample, and how it is sampled.
struct AugmentTask {
  const AugmentParams& p;
  const AugmentSample& s;
  SegmentSampler sampler;
  bool copies;  // copies_bytes()
  int64_t sample;
  ColorPlan<float> plan;
};

inline SegmentSampler sampler_of(DType dtype, Interpolation mode) {
  switch (dtype) {
    case DType::kUInt8: return segment_sampler<uint8_t>(mode);
    case DType::kFloat16: return segment_sampler<Half>(mode);
    case DType::kBFloat16: return segment_sampler<BFloat16>(mode);
    default: return segment_sampler<float>(mode);  // check_augment() lets no other through
  }
}

}  // namespace
}  // namespace visops
