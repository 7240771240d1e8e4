// NOTE [ Augment forward on the CPU ]
// Work is cut by output row; a task walks its rows in blocks, a block by segments of 128 pixels. A
// segment is sampled into planes of float32 that stay in the first-level cache
// (cpu/warp/augment_lanes.h, cpu/warp/augment_samplers.h), and from there goes through colour and
// normalisation to the output in its own type and layout (cpu/warp/augment_color.h): the image is
// read once, the output written once. float64 images, and what the lanes cannot hold, go pixel by
// pixel through core/warp/augment_pixel.h; all ways agree to the bit. Integers are rounded half to
// even and saturated when stored. Assumes what check_augment() and check_augment_data() establish:
// regular matrices, sizes below 2^31, at most 4 channels with colour, a non-empty window unless
// padding is constant.
#include "cpu/warp/augment_color.h"
#include "cpu/warp/augment_filter.h"
#include "cpu/warp/augment_read_ahead.h"
#include "cpu/warp/augment_resize.h"
#include "cpu/warp/augment_samplers.h"

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

// How a segment's lanes are sampled.
enum class LaneWay { kFill, kTaps, kFilter, kPixels };

// Chooses it, and sets the lanes for kTaps; `out` also for kFilter.
template <Interpolation mode, class Sampler>
LaneWay prepare_lanes(const SegmentAt& at, const Sampler& sampler, AugmentLanes& lanes) {
  if (at.s.is_fill) return LaneWay::kFill;
  if (!sampler.fits || !fits_lanes(at)) return LaneWay::kPixels;
  const bool clamps = at.p.padding == Padding::kConstant || at.p.padding == Padding::kReplicate;
  if constexpr (mode == Interpolation::kNearest) {
    if (!clamps) return LaneWay::kPixels;
    nearest_taps(at, sampler.row_bytes, sampler.column_bytes, lanes);
    return LaneWay::kTaps;
  } else {
    blend_lanes(at, lanes);
    if (lanes.begin == lanes.end) return LaneWay::kFill;
    if (at.s.antialias) return LaneWay::kFilter;
    if (mode == Interpolation::kBilinear && clamps) {
      bilinear_taps(at, sampler.row_bytes, sampler.column_bytes, lanes);
      return LaneWay::kTaps;
    }
    const bool inner = inner_taps(at, first_tap(mode), tap_count(mode), sampler.row_bytes,
                                  sampler.column_bytes, lanes);
    return inner ? LaneWay::kTaps : LaneWay::kPixels;
  }
}

template <class T, Interpolation mode>
void sample_taps(const SegmentAt& at, const LaneSampler<T>& sampler, const AugmentLanes& lanes,
                 int64_t first, int64_t channels, Planes& planes) {
  if constexpr (mode == Interpolation::kNearest) {
    sampler.copy(lanes, at.padded, first, channels, planes);
  } else {
    const int end = (lanes.end + kMaxWidth - 1) & -kMaxWidth;
    sampler.template sample<mode>(lanes, lanes.begin, end, first, channels, planes);
  }
  blend_planes(at, lanes, first, channels, planes);
}

// antialias: lanes with all their taps in vectors, the others one by one.
template <class T, Interpolation mode>
void sample_filter(const SegmentAt& at, const LaneSampler<T>& sampler, AugmentLanes& lanes,
                   FilterLanes& filter, int64_t first, int64_t channels, Planes& planes) {
  if constexpr (mode != Interpolation::kNearest) {
    lane_points(at, lanes);
    if (!filter_lanes<mode>(at, lanes, sampler.row_bytes, sampler.column_bytes, filter) ||
        !filter_segment<T>(sampler, filter, first, channels, planes)) {
      filter.begin = filter.end = lanes.end;
    }
    blend_planes(at, lanes, first, channels, planes);
    sample_lanes<T, mode>(at, lanes.begin, filter.begin, first, channels, planes);
    sample_lanes<T, mode>(at, filter.end, lanes.end, first, channels, planes);
  }
}

// One row of a chunk, to the output.
template <class T, Interpolation mode>
void augment_resized_row(const SegmentAt& at, const ResizeChunk& chunk,
                         const ColorPlan<float>& plan, ResizeBuffers& buffers) {
  AugmentLanes& lanes = buffers.lanes;
  const float cover = edge_cover(at.axes.y, at.segment.fy);
  lanes.blended = !(chunk.covered && cover == 1.0f);
  for (int i = 0; lanes.blended && i < chunk.count; ++i) {
    lanes.out[i] = 1.0f - chunk.cover[i] * cover;
  }
  for (int64_t c = 0; c < at.p.channels; c += kGroup) {
    const int64_t channels = at.p.channels - c < kGroup ? at.p.channels - c : kGroup;
    resize_row<T, mode>(at, chunk, c, channels, buffers, buffers.planes);
    blend_planes(at, lanes, c, channels, buffers.planes);
    finish_segment(at, plan, c, channels, buffers.planes);
  }
}

// antialias without rotation (NOTE [ Resized rows ], cpu/warp/augment_resize.h).
template <class T, Interpolation mode>
void augment_resized(const AugmentParams& p, const AugmentSample& s, const ColorPlan<float>& plan,
                     int64_t sample, int64_t first, int64_t last) {
  ResizeBuffers buffers;
  SegmentAxes<float> axes;
  set_axis_widths(s, s.x, s.map.width_x, &axes.x);
  set_axis_widths(s, s.y, s.map.width_y, &axes.y);
  for (int64_t x = 0; x < p.output_width;) {
    int chunks = 0;
    const int64_t begin = x;
    for (; chunks < kChunks && x < p.output_width; ++chunks) {
      const int64_t x0 = x & -kSegment, left = p.output_width - x0;
      const auto segment = augment_segment<float>(s.map, x0, first);
      place_axis(s.x, segment.x, &axes.x);
      make_chunk<mode>(axes.x, segment, x0, static_cast<int>(x - x0),
                       static_cast<int>(left < kSegment ? left : kSegment), sizeof(T) == 1,
                       buffers.chunks[chunks]);
      x += buffers.chunks[chunks].count;
    }
    ReadAhead ahead = read_ahead(p, s, {begin, x}, {first, last});
    for (int64_t y = first; y < last; ++y) {
      ahead.at(y);
      for (int i = 0; i < chunks; ++i) {
        const ResizeChunk& chunk = buffers.chunks[i];
        const auto segment = augment_segment<float>(s.map, chunk.x0 & -kSegment, y);
        place_axis(s.y, segment.y, &axes.y);
        const int padded = (chunk.count + kMaxWidth - 1) & -kMaxWidth;
        augment_resized_row<T, mode>(
            {p, s, segment, axes, sample, chunk.x0, y, chunk.count, padded}, chunk, plan, buffers);
      }
    }
  }
}

// Rows go in blocks, a segment of all of them before the next one, as in affine_kernel.cpp.
constexpr int64_t kBlockRows = 4;

// Where a segment of one row lies, and how it is sampled.
struct SegmentPlace {
  AugmentSegment<float> segment;
  SegmentAxes<float> axes;
  LaneWay way;
  AugmentLanes lanes;
};

template <class T, Interpolation mode>
void augment_segments(const AugmentParams& p, const AugmentSample& s, const ColorPlan<float>& plan,
                      int64_t sample, int64_t first, int64_t last, Span strip) {
  const LaneSampler<T> sampler(p, s);
  SegmentPlace places[kBlockRows];
  FilterLanes filter;
  Planes planes;
  for (SegmentPlace& place : places) {
    set_axis_widths(s, s.x, s.map.width_x, &place.axes.x);
    set_axis_widths(s, s.y, s.map.width_y, &place.axes.y);
  }
  ReadAhead ahead = read_ahead(p, s, strip, {first, last});
  for (int64_t y0 = first; y0 < last; y0 += kBlockRows) {
    ahead.at(y0);
    const int rows = static_cast<int>(y0 + kBlockRows < last ? kBlockRows : last - y0);
    for (int64_t x0 = strip.begin; x0 < strip.end; x0 += kSegment) {
      const int64_t left = strip.end - x0;
      const int count = static_cast<int>(left < kSegment ? left : kSegment);
      const auto at = [&](int row) -> SegmentAt {
        const SegmentPlace& place = places[row];
        return {p,          s,      place.segment,
                place.axes, sample, x0,
                y0 + row,   count,  (count + kMaxWidth - 1) & -kMaxWidth};
      };
      // All rows' coordinates ahead of their use: they begin with a long chain of float64
      // operations, and offsets are loaded one by one from where vectors have stored them.
      for (int row = 0; row < rows; ++row) {
        SegmentPlace& place = places[row];
        place.segment = augment_segment<float>(s.map, x0, y0 + row);
        if (s.map.perspective) {
          place.axes = segment_axes(s, place.segment);
        } else {
          place_axis(s.x, place.segment.x, &place.axes.x);
          place_axis(s.y, place.segment.y, &place.axes.y);
        }
      }
      for (int row = 0; row < rows; ++row) {
        places[row].way = prepare_lanes<mode>(at(row), sampler, places[row].lanes);
      }
      for (int row = 0; row < rows; ++row) {
        const SegmentAt here = at(row);
        SegmentPlace& place = places[row];
        for (int64_t c = 0; c < p.channels; c += kGroup) {
          const int64_t channels = p.channels - c < kGroup ? p.channels - c : kGroup;
          switch (place.way) {
            case LaneWay::kFill: fill_planes(here, c, channels, planes); break;
            case LaneWay::kTaps:
              sample_taps<T, mode>(here, sampler, place.lanes, c, channels, planes);
              break;
            case LaneWay::kFilter:
              sample_filter<T, mode>(here, sampler, place.lanes, filter, c, channels, planes);
              break;
            case LaneWay::kPixels:
              sample_lanes<T, mode>(here, 0, count, c, channels, planes);
              break;
          }
          finish_segment(here, plan, c, channels, planes);
        }
      }
    }
  }
}

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
    for (int64_t x = 0; x < p.output_width; x += kStripColumns) {
      augment_segments<T, mode>(p, s, plan, sample, first, last,
                                intersect({0, p.output_width}, {x, x + kStripColumns}));
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
