// NOTE [ Augment forward on the CPU ]
// Work is cut by output row; a task walks its rows in blocks, a block by segments of 128 pixels. A
// segment is sampled into planes of float32 that stay in the first-level cache
// (cpu/augment_lanes.h, cpu/augment_samplers.h), and from there goes through colour and
// normalisation to the output in its own type and layout (cpu/augment_color.h): the image is read
// once, the output written once. float64 images, and what the lanes cannot hold, go pixel by pixel
// through core/augment_pixel.h; all ways agree to the bit. Integers are rounded half to even and
// saturated when stored. Assumes what check_augment() and check_augment_data() establish: regular
// matrices, sizes below 2^31, at most 4 channels with colour, a non-empty window unless padding is
// constant.
#include "cpu/augment_color.h"
#include "cpu/augment_filter.h"
#include "cpu/augment_resize.h"
#include "cpu/augment_samplers.h"

namespace visops {
namespace {

// One pixel after another: every layout, dtype and mode.
template <class T, Interpolation mode>
void augment_pixels(const AugmentParams& p, const AugmentSample& s,
                    const ColorPlan<typename Accumulate<T>::type>& plan, int64_t sample, int64_t y,
                    int64_t begin, int64_t end) {
  using Acc = typename Accumulate<T>::type;
  for (int64_t x0 = begin & -kSegment; x0 < end; x0 += kSegment) {
    const auto segment = augment_segment<Acc>(s.map, x0, y);
    const auto axes = segment_axes(s, segment);
    const Span span = intersect({begin, end}, {x0, x0 + kSegment});
    for (int64_t x = span.begin; x < span.end; ++x) {
      const LanePoint<Acc> point = segment.direct ? lane_point_direct<Acc>(s.map, x, y)
                                                  : lane_point(segment, static_cast<int>(x - x0));
      const bool erased = is_erased(p, sample, x, y);
      for (int64_t c0 = 0; c0 < p.channels; c0 += kGroup) {
        const int64_t count = p.channels - c0 < kGroup ? p.channels - c0 : kGroup;
        Acc value[kGroup];
        sample_augmented<T, mode>(p, s, axes, point, c0, count, value);
        if (p.color_steps > 0) color_pixel(p, plan, value);
        for (int64_t c = 0; c < count; ++c) {
          Acc v = finish_value(p, c0 + c, value[c]);
          if (erased) v = static_cast<Acc>(p.erase_value[value_index(p, c0 + c)]);
          store_output(p.output_dtype, p.output,
                       sample * p.output_stride.batch + (c0 + c) * p.output_stride.channel +
                           y * p.output_stride.row + x * p.output_stride.column,
                       v);
        }
      }
    }
  }
}

// Lanes [begin, end) of a segment, one after another, into planes.
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

void fill_planes(const SegmentAt& at, int64_t first, int64_t channels, Planes& planes) {
  for (int64_t c = 0; c < channels; ++c) {
    const float fill = static_cast<float>(at.p.fill[value_index(at.p, first + c)]);
    for (int i = 0; i < at.padded; ++i) planes.v[c][i] = fill;
  }
}

struct SegmentBuffers {
  AugmentLanes lanes;
  FilterLanes filter;
  Planes planes;
};

// Bilinear or bicubic taps. False where lanes can't hold them.
template <class T, Interpolation mode>
bool sample_taps(const SegmentAt& at, const LaneSampler<T>& sampler, int64_t first,
                 int64_t channels, SegmentBuffers& b) {
  const bool clamps = mode == Interpolation::kBilinear &&
                      (at.p.padding == Padding::kConstant || at.p.padding == Padding::kReplicate);
  if (clamps) {
    bilinear_taps(at, sampler.row_bytes, sampler.column_bytes, b.lanes);
  } else if (!inner_taps(at, first_tap(mode), tap_count(mode), sampler.row_bytes,
                         sampler.column_bytes, b.lanes)) {
    return false;
  }
  const int end = (b.lanes.end + kMaxWidth - 1) & -kMaxWidth;
  sampler.template sample<mode>(b.lanes, b.lanes.begin, end, first, channels, b.planes);
  blend_planes(at, b.lanes, first, channels, b.planes);
  return true;
}

// antialias: lanes with all their taps in vectors, the others one by one.
template <class T, Interpolation mode>
bool sample_filter(const SegmentAt& at, const LaneSampler<T>& sampler, int64_t first,
                   int64_t channels, SegmentBuffers& b) {
  lane_points(at, b.lanes);
  if (!filter_lanes<mode>(at, b.lanes, sampler.row_bytes, sampler.column_bytes, b.filter) ||
      !filter_segment<T>(sampler, b.filter, first, channels, b.planes)) {
    return false;
  }
  blend_planes(at, b.lanes, first, channels, b.planes);
  sample_lanes<T, mode>(at, b.lanes.begin, b.filter.begin, first, channels, b.planes);
  sample_lanes<T, mode>(at, b.filter.end, b.lanes.end, first, channels, b.planes);
  return true;
}

template <class T, Interpolation mode>
void sample_segment(const SegmentAt& at, const LaneSampler<T>& sampler, int64_t first,
                    int64_t channels, SegmentBuffers& b) {
  if (at.s.is_fill) return fill_planes(at, first, channels, b.planes);
  if constexpr (mode == Interpolation::kNearest) {
    const bool folds = at.p.padding != Padding::kConstant && at.p.padding != Padding::kReplicate;
    if (sampler.fits && fits_lanes(at) && !folds) {
      nearest_taps(at, sampler.row_bytes, sampler.column_bytes, b.lanes);
      sampler.copy(b.lanes, at.padded, first, channels, b.planes);
      blend_planes(at, b.lanes, first, channels, b.planes);
      return;
    }
  } else {
    if (sampler.fits && fits_lanes(at)) {
      blend_lanes(at, b.lanes);
      if (b.lanes.begin == b.lanes.end) return fill_planes(at, first, channels, b.planes);
      if (at.s.antialias) {
        if (sample_filter<T, mode>(at, sampler, first, channels, b)) return;
      } else if (sample_taps<T, mode>(at, sampler, first, channels, b)) {
        return;
      }
    }
  }
  sample_lanes<T, mode>(at, 0, at.count, first, channels, b.planes);
}

// antialias without rotation (NOTE [ Resized rows ], cpu/augment_resize.h).
template <class T, Interpolation mode>
void augment_resized(const AugmentParams& p, const AugmentSample& s, const ColorPlan<float>& plan,
                     int64_t sample, int64_t first, int64_t last) {
  ResizeBuffers buffers;
  ResizeChunk& chunk = buffers.chunk;
  AugmentLanes lanes;
  Planes planes;
  SegmentAxes<float> axes;
  set_axis_widths(s, s.x, s.map.width_x, &axes.x);
  set_axis_widths(s, s.y, s.map.width_y, &axes.y);
  for (int64_t x = 0; x < p.output_width; x += chunk.count) {
    const int64_t x0 = x & -kSegment;
    const auto in_first_row = augment_segment<float>(s.map, x0, first);
    place_axis(s.x, in_first_row.x, &axes.x);
    const int64_t lanes_left = p.output_width - x0;
    make_chunk<mode>(axes.x, in_first_row, x0, static_cast<int>(x - x0),
                     static_cast<int>(lanes_left < kSegment ? lanes_left : kSegment),
                     sizeof(T) == 1, chunk);
    for (int64_t y = first; y < last; ++y) {
      const auto segment = augment_segment<float>(s.map, x0, y);
      place_axis(s.y, segment.y, &axes.y);
      const SegmentAt at = {p,    s,           segment,
                            axes, sample,      x,
                            y,    chunk.count, (chunk.count + kMaxWidth - 1) & -kMaxWidth};
      const float cover = edge_cover(axes.y, segment.fy);
      lanes.blended = !(chunk.covered && cover == 1.0f);
      for (int i = 0; lanes.blended && i < chunk.count; ++i) {
        lanes.out[i] = 1.0f - chunk.cover[i] * cover;
      }
      for (int64_t c = 0; c < p.channels; c += kGroup) {
        const int64_t channels = p.channels - c < kGroup ? p.channels - c : kGroup;
        resize_row<T, mode>(at, chunk, c, channels, buffers, planes);
        blend_planes(at, lanes, c, channels, planes);
        finish_segment(at, plan, c, channels, planes);
      }
    }
  }
}

// Rows go in blocks, a segment of all of them before the next one, as in affine_kernel.cpp.
constexpr int64_t kBlockRows = 8;

template <class T, Interpolation mode>
void augment_rows(const AugmentParams& p, const AugmentSample& s, int64_t sample, int64_t first,
                  int64_t last) {
  using Acc = typename Accumulate<T>::type;
  ColorPlan<Acc> plan;
  load_color_plan(p, sample, &plan);
  if constexpr (sizeof(Acc) == sizeof(double)) {
    for (int64_t y = first; y < last; ++y) {
      augment_pixels<T, mode>(p, s, plan, sample, y, 0, p.output_width);
    }
  } else {
    if constexpr (mode != Interpolation::kNearest) {
      if (is_resize<T>(p, s)) return augment_resized<T, mode>(p, s, plan, sample, first, last);
    }
    const LaneSampler<T> sampler(p, s);
    SegmentBuffers buffers;
    SegmentAxes<float> axes;
    set_axis_widths(s, s.x, s.map.width_x, &axes.x);
    set_axis_widths(s, s.y, s.map.width_y, &axes.y);
    for (int64_t y0 = first; y0 < last; y0 += kBlockRows) {
      const int64_t y1 = y0 + kBlockRows < last ? y0 + kBlockRows : last;
      for (int64_t x0 = 0; x0 < p.output_width; x0 += kSegment) {
        for (int64_t y = y0; y < y1; ++y) {
          const auto segment = augment_segment<float>(s.map, x0, y);
          if (s.map.perspective) {
            axes = segment_axes(s, segment);
          } else {
            place_axis(s.x, segment.x, &axes.x);
            place_axis(s.y, segment.y, &axes.y);
          }
          const int count =
              static_cast<int>(p.output_width - x0 < kSegment ? p.output_width - x0 : kSegment);
          const SegmentAt at = {
              p, s, segment, axes, sample, x0, y, count, (count + kMaxWidth - 1) & -kMaxWidth};
          for (int64_t c = 0; c < p.channels; c += kGroup) {
            const int64_t channels = p.channels - c < kGroup ? p.channels - c : kGroup;
            sample_segment<T, mode>(at, sampler, c, channels, buffers);
            finish_segment(at, plan, c, channels, buffers.planes);
          }
        }
      }
    }
  }
}

template <class T>
void augment_sample_rows(const AugmentParams& p, int64_t sample, int64_t first, int64_t last) {
  const AugmentSample s =
      augment_sample(p, sample, p.list != nullptr ? p.list[sample] : augment_image(p, sample));
  switch (s.mode) {
    case Interpolation::kNearest:
      return augment_rows<T, Interpolation::kNearest>(p, s, sample, first, last);
    case Interpolation::kBilinear:
      return augment_rows<T, Interpolation::kBilinear>(p, s, sample, first, last);
    case Interpolation::kBicubic:
      return augment_rows<T, Interpolation::kBicubic>(p, s, sample, first, last);
  }
}

void augment_kernel(const AugmentParams& p, int64_t begin, int64_t end) {
  for_each_sample(begin, end, p.output_height, [&](int64_t sample, int64_t first, int64_t last) {
    switch (p.dtype) {
      case DType::kUInt8: return augment_sample_rows<uint8_t>(p, sample, first, last);
      case DType::kFloat16: return augment_sample_rows<Half>(p, sample, first, last);
      case DType::kBFloat16: return augment_sample_rows<BFloat16>(p, sample, first, last);
      case DType::kFloat32: return augment_sample_rows<float>(p, sample, first, last);
      case DType::kFloat64: return augment_sample_rows<double>(p, sample, first, last);
      default: return;  // check_augment() lets no other through
    }
  });
}

const bool registered = augment_stub.set(kIsaSlot, augment_kernel);

}  // namespace
}  // namespace visops
