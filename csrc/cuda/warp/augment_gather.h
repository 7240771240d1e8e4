// The kernels that gather an image's gradient: NOTE [ Image gradient by tiles ], with the taps of
// NOTE [ Augment backward on CUDA ].
#pragma once

#include "core/warp/augment_gradient.h"
#include "cuda/launch.h"
#include "cuda/warp/augment_gather_launch.h"
#include "cuda/warp/gather.h"

namespace visops {
namespace {

// Filters of kGatherThreads candidates, as a thread left them for the others: their taps are too
// many to list, and a source pixel finds its own.
template <Interpolation mode, class Acc>
struct FilterAxisList {
  int64_t origin[kGatherThreads];
  int32_t first[kGatherThreads], count[kGatherThreads];
  Acc at[kGatherThreads], scale[kGatherThreads], norm[kGatherThreads];

  __device__ void put(int i, int64_t from, const FilterTaps<Acc>& taps) {
    origin[i] = from;
    first[i] = taps.first;
    count[i] = taps.count;
    at[i] = taps.at;
    scale[i] = taps.scale;
    norm[i] = taps.norm;
  }

  __device__ FilterTaps<Acc> taps(int i) const {
    return {first[i], count[i], at[i], scale[i], norm[i]};
  }
};

// One axis of one candidate's filter.
template <Interpolation mode, class Acc>
struct FilterAxis {
  SegmentAxis<Acc> axis;  // only its origin
  FilterTaps<Acc> taps;
  const AxisWindow& window;
  Padding padding;

  // Whether no tap is folded.
  __device__ bool is_plain() const {
    const int64_t first = axis.origin + taps.first;
    return padding == Padding::kConstant ||
           (first >= window.first && first + taps.count - 1 <= window.last);
  }

  // Which taps may be on a source index: one of them, or any if some are folded.
  __device__ Span matching(int32_t source) const {
    if (!is_plain()) return {0, taps.count};
    const int64_t i = source - axis.origin - taps.first;
    if (i < 0 || i >= taps.count) return {0, 0};
    return {i, i + 1};
  }

  // The source index of a tap, which has a weight.
  __device__ int64_t index(int64_t tap) const {
    return filter_index(axis, window, padding, taps.first + static_cast<int32_t>(tap));
  }
  __device__ Acc weight(int64_t tap) const {
    return filter_tap<mode>(taps, taps.first + static_cast<int32_t>(tap)) * taps.norm;
  }

  // Extends [low, high] to the source indices that have taps.
  __device__ void add_reach(int32_t* low, int32_t* high) const {
    const int64_t most = taps.count - 1, step = is_plain() && most > 0 ? most : 1;
    for (int64_t i = 0; i <= most; i += step) {  // of taps in a row, the ends will do
      const int32_t at = static_cast<int32_t>(index(i));
      if (at < *low) *low = at;
      if (at > *high) *high = at;
    }
  }

  // As tap_mask().
  __device__ uint32_t mask(int32_t first, int size) const {
    uint32_t bits = 0;
    const bool plain = is_plain();
    int64_t begin = 0, end = taps.count;
    if (plain) {  // only those that are there
      const int64_t before = first - axis.origin - taps.first;
      if (before > begin) begin = before;
      if (before + size < end) end = before + size;
    }
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = index(i) - first;
      if (at >= 0 && at < size) bits |= 1u << at;
    }
    return bits;
  }
};

template <Interpolation mode, class Acc>
struct FilterLists {
  FilterAxisList<mode, Acc> x, y;

  __device__ static FilterAxis<mode, Acc> axis(const FilterAxisList<mode, Acc>& list, int i,
                                               const AxisWindow& window, Padding padding) {
    SegmentAxis<Acc> place = {};
    place.origin = list.origin[i];
    return {place, list.taps(i), window, padding};
  }

  // add(weight) for each tap of candidate i on source pixel (column, row).
  template <class Warp, class Add>
  __device__ void each(const Warp& warp, const AugmentSample& s, int i, int32_t column, int32_t row,
                       const Add& add) const {
    const Padding padding = warp.b.forward.padding;
    const FilterAxis<mode, Acc> by_y = axis(y, i, s.y, padding);
    const FilterAxis<mode, Acc> by_x = axis(x, i, s.x, padding);
    const Span rows = by_y.matching(row), columns = by_x.matching(column);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      if (by_y.index(r) != row) continue;
      const Acc down = by_y.weight(r);
      if (down == static_cast<Acc>(0)) continue;
      for (int64_t c = columns.begin; c < columns.end; ++c) {
        if (by_x.index(c) != column) continue;
        const Acc across = by_x.weight(c);
        if (across != static_cast<Acc>(0)) add(down * across);
      }
    }
  }
};

template <class Acc>
struct GatherSegment {
  AugmentSegment<Acc> segment;
  SegmentAxes<Acc> axes;
};

template <Interpolation given, class Number>
struct AugmentGather {
  using Acc = Number;
  using Sample = AugmentSample;
  using Segment = GatherSegment<Acc>;
  static constexpr bool kFilters = given != Interpolation::kNearest;
  union Lists {
    TapLists<given, Acc> taps;
    TapLists<Interpolation::kNearest, Acc> copies;
    FilterLists<given, Acc> filters;
  };

  const AugmentBackwardParams& b;
  const Acc* grad_sampled;  // [batch, channels, output_height, output_width]

  __device__ Sample sample(int64_t i) const {
    return augment_sample(b.forward, i, augment_image(b.forward, i));
  }
  __device__ static bool is_blank(const Sample& s) { return s.is_fill; }
  __device__ static bool is_nearest(const Sample& s) {
    return given == Interpolation::kNearest || s.mode == Interpolation::kNearest;
  }
  __device__ static Segment segment(const Sample& s, int64_t x0, int64_t y) {
    Segment k;
    k.segment = augment_segment<Acc>(s.map, x0, y);
    k.axes = segment_axes(s, k.segment);
    return k;
  }

  // Where an output pixel lies; not valid if it has no gradient to give, being all fill.
  __device__ LanePoint<Acc> place(const Sample& s, const Segment& k, int64_t x, int64_t y) const {
    LanePoint<Acc> point = k.segment.direct ? lane_point_direct<Acc>(s.map, x, y)
                                            : lane_point(k.segment, static_cast<int>(x % kSegment));
    if (point.valid && blends_edge(b.forward, s)) {
      const Acc one = static_cast<Acc>(1);
      const Acc out = one - edge_cover(k.axes.x, point.x) * edge_cover(k.axes.y, point.y);
      point.valid = out < one;
    }
    return point;
  }

  template <Interpolation mode>
  __device__ PixelTaps<mode, Acc> taps(const Sample& s, const Segment& k,
                                       const LanePoint<Acc>& point) const {
    const Padding padding = b.forward.padding;
    return {augment_axis_taps<mode>(k.axes.y, s.y, padding, s.soft_edge, point.y),
            augment_axis_taps<mode>(k.axes.x, s.x, padding, s.soft_edge, point.x)};
  }

  __device__ FilterAxis<given, Acc> filter(const SegmentAxis<Acc>& axis, const AxisWindow& window,
                                           Acc at) const {
    return {axis, filter_taps<given>(axis, b.forward.padding, at), window, b.forward.padding};
  }

  __device__ void add_reach(const Sample& s, const Segment& k, int64_t x, int64_t y,
                            SourceBox* box) const {
    const LanePoint<Acc> point = place(s, k, x, y);
    if (!point.valid) return;
    if constexpr (given != Interpolation::kNearest) {
      if (s.antialias) {
        filter(k.axes.x, s.x, point.x).add_reach(&box->left, &box->right);
        filter(k.axes.y, s.y, point.y).add_reach(&box->top, &box->bottom);
        return;
      }
    }
    if (is_nearest(s)) {
      add_taps(taps<Interpolation::kNearest>(s, k, point), box);
    } else {
      add_taps(taps<given>(s, k, point), box);
    }
  }

  template <Interpolation mode>
  __device__ TileMask list_taps(const Sample& s, const Segment& k, int64_t x, int64_t y,
                                int32_t left, int32_t top, int i,
                                TapLists<mode, Acc>& lists) const {
    const LanePoint<Acc> point = place(s, k, x, y);
    if (!point.valid) return {0, 0};
    const PixelTaps<mode, Acc> of = taps<mode>(s, k, point);
    lists.put(i, of);
    return {tap_mask(of.x, left, kGatherWidth), tap_mask(of.y, top, kGatherHeight)};
  }

  __device__ TileMask list_taps(const Sample& s, const Segment& k, int64_t x, int64_t y,
                                int32_t left, int32_t top, int i,
                                FilterLists<given, Acc>& lists) const {
    const LanePoint<Acc> point = place(s, k, x, y);
    if (!point.valid) return {0, 0};
    const FilterAxis<given, Acc> by_y = filter(k.axes.y, s.y, point.y);
    const uint32_t rows = by_y.mask(top, kGatherHeight);
    if (rows == 0) return {0, 0};
    const FilterAxis<given, Acc> by_x = filter(k.axes.x, s.x, point.x);
    lists.y.put(i, k.axes.y.origin, by_y.taps);
    lists.x.put(i, k.axes.x.origin, by_x.taps);
    return {by_x.mask(left, kGatherWidth), rows};
  }

  __device__ Acc incoming(int64_t sample, int64_t channel, int64_t y, int64_t x) const {
    const AugmentParams& p = b.forward;
    const int64_t plane = sample * p.channels + channel;
    return load_readonly(grad_sampled + (plane * p.output_height + y) * p.output_width + x);
  }

  __device__ Acc* gradient_at(int64_t sample, int64_t channel, int64_t y, int64_t x) const {
    const Strides& stride = b.grad_image_stride;
    return static_cast<Acc*>(b.grad_image) + sample * stride.batch + channel * stride.channel +
           y * stride.row + x * stride.column;
  }
};

template <class Warp, class Acc>
__global__ void __launch_bounds__(kGatherThreads, 4)
    augment_gather_boxes(const __grid_constant__ AugmentBackwardParams b,
                         const __grid_constant__ GatherPlan plan,
                         const GatherScratch<Warp> scratch) {
  find_boxes(Warp{b, nullptr}, plan, scratch);
}

template <class Warp, class Acc>
__global__ void __launch_bounds__(kGatherThreads, sizeof(Acc) == 8 ? 4 : 6)
    augment_gather(const __grid_constant__ AugmentBackwardParams b, const Acc* grad_sampled,
                   const __grid_constant__ GatherPlan plan, const GatherScratch<Warp> scratch) {
  __shared__ GatherShared<Acc> shared;
  __shared__ typename Warp::Lists lists;
  const Warp warp{b, grad_sampled};
  const int64_t tiles = plan.tile_columns * plan.tile_rows;
  for (int64_t i = blockIdx.x; i < plan.batch * tiles; i += gridDim.x) {
    const int64_t sample = i / tiles, tile = i - sample * tiles;
    const AugmentSample& s = scratch.sample[sample];
    if (warp.is_nearest(s)) {
      GatherTile(warp, plan, scratch, sample, tile, shared, lists.copies).run();
      continue;
    }
    if constexpr (Warp::kFilters) {
      if (s.antialias) {
        GatherTile(warp, plan, scratch, sample, tile, shared, lists.filters).run();
        continue;
      }
    }
    GatherTile(warp, plan, scratch, sample, tile, shared, lists.taps).run();
  }
}

template <Interpolation mode, class Acc>
void gather_as(const AugmentBackwardParams& b, const Acc* grad_sampled, Workspace& workspace) {
  using Warp = AugmentGather<mode, Acc>;
  const AugmentParams& p = b.forward;
  const GatherPlan plan = gather_plan(p.batch, p.channels, p.first.height, p.first.width,
                                      p.output_height, p.output_width);
  const GatherScratch<Warp> scratch = gather_scratch<Warp>(plan, workspace);
  launch(augment_gather_boxes<Warp, Acc>, grid_for(plan.batch * plan.bands), dim3(kGatherThreads),
         0, workspace.stream(), b, plan, scratch);
  launch(augment_gather<Warp, Acc>, grid_for(plan.batch * plan.tile_columns * plan.tile_rows),
         dim3(kGatherThreads), 0, workspace.stream(), b, grad_sampled, plan, scratch);
}

}  // namespace

template <Slot slot, Interpolation mode>
void launch_augment_gather(const AugmentBackwardParams& b, const void* grad_sampled,
                           Workspace& workspace) {
  if (b.forward.dtype == DType::kFloat64) {
    return gather_as<mode>(b, static_cast<const double*>(grad_sampled), workspace);
  }
  gather_as<mode>(b, static_cast<const float*>(grad_sampled), workspace);
}

}  // namespace visops
