// The kernels that gather an image's gradient: NOTE [ Image gradient by tiles ], with the taps of
// NOTE [ Augment backward on CUDA ].
#include "core/warp/augment_gradient.h"
#include "cuda/launch.h"
#include "cuda/warp/augment_gather_launch.h"
#include "cuda/warp/augment_positions.h"
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

  // The source indices of taps that aren't folded.
  __device__ Span plain() const {
    const int64_t first = axis.origin + taps.first, end = first + taps.count;
    return {first > window.first ? first : window.first,
            end <= window.last ? end : window.last + 1};
  }

  // use(weight) for each tap on a source index.
  template <class Use>
  __device__ void each_on(int32_t source, const Use& use) const {
    const bool is_folded = !is_plain();
    Span range = plain();
    const bool some = source >= range.begin && source < range.end;
    int32_t k = static_cast<int32_t>(source - axis.origin), end = some ? k + 1 : k;
    if (is_folded) {
      k = taps.first;
      end = k + taps.count;
    }
#pragma unroll 1
    for (; k < end; ++k) {
      if (!is_folded || index(k) == source) use(weight(k));
    }
  }

  // Extends [low, high] to the source indices that have taps.
  __device__ void add_reach(int32_t* low, int32_t* high) const {
    const auto add = [&](int64_t at) {
      if (at < *low) *low = static_cast<int32_t>(at);
      if (at > *high) *high = static_cast<int32_t>(at);
    };
    if (is_plain()) {
      const Span on = plain();
      if (on.begin >= on.end) return;
      add(on.begin);
      add(on.end - 1);
      return;
    }
    for (int32_t k = taps.first; k < taps.first + taps.count; ++k) add(index(k));
  }

  // As tap_mask().
  __device__ uint32_t mask(int32_t first, int size) const {
    if (is_plain()) {
      const Span on = intersect(plain(), {first, int64_t{first} + size});
      if (on.begin >= on.end) return 0;
      return (0xffffffffu >> (32 - (on.end - on.begin))) << (on.begin - first);
    }
    uint32_t bits = 0;
#pragma unroll 1
    for (int32_t k = taps.first; k < taps.first + taps.count; ++k) {
      const int64_t at = index(k) - first;
      if (at >= 0 && at < size) bits |= 1u << at;
    }
    return bits;
  }

 private:
  // For a tap that has a weight.
  __device__ int64_t index(int32_t k) const { return filter_index(axis, window, padding, k); }
  __device__ Acc weight(int32_t k) const { return filter_tap<mode>(taps, k) * taps.norm; }
};

template <Interpolation mode, class Acc>
struct FilterLists {
  FilterAxisList<mode, Acc> x, y;

  __device__ static FilterAxis<mode, Acc> axis(const FilterAxisList<mode, Acc>& list, int i,
                                               const AxisWindow& window, Padding padding) {
    SegmentAxis<Acc> position = {};
    position.origin = list.origin[i];
    return {position, list.taps(i), window, padding};
  }

  // add(weight) for each tap of candidate i on source pixel (column, row).
  template <class Warp, class Add>
  __device__ void each(const Warp& warp, const AugmentSample& s, int i, int32_t column, int32_t row,
                       const Add& add) const {
    const Padding padding = warp.b.forward.padding;
    const Acc zero = static_cast<Acc>(0);
    axis(y, i, s.y, padding).each_on(row, [&](Acc down) {
      if (down == zero) return;
      axis(x, i, s.x, padding).each_on(column, [&](Acc across) {
        if (across != zero) add(down * across);
      });
    });
  }
};

template <Interpolation given, class Number>
struct AugmentGather {
  using Acc = Number;
  using Sample = AugmentSample;
  using Segment = PlacedSegment<Acc>;
  static constexpr bool kFilters = given != Interpolation::kNearest;
  static constexpr bool kTaps = given != Interpolation::kLanczos;  // which copies or filters
  union Lists {
    TapLists<tap_mode(given), Acc> taps;
    TapLists<Interpolation::kNearest, Acc> copies;
    FilterLists<given, Acc> filters;
  };

  const AugmentBackwardParams& b;
  const Acc* grad_sampled;  // [batch, channels, output_height, output_width]

  __device__ static bool is_blank(const Sample& s) { return s.is_fill; }
  __device__ static bool is_nearest(const Sample& s) {
    return given == Interpolation::kNearest || s.mode == Interpolation::kNearest;
  }
  // Where an output pixel lies; not valid if it has no gradient to give, being all fill.
  __device__ LanePoint<Acc> position(const Sample& s, const Segment& k, int32_t x,
                                     int32_t y) const {
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

  __device__ void add_reach(const Sample& s, const Segment& k, int32_t x, int32_t y,
                            SourceBox* box) const {
    const LanePoint<Acc> point = position(s, k, x, y);
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
    } else if constexpr (kTaps) {
      add_taps(taps<tap_mode(given)>(s, k, point), box);
    }
  }

  template <Interpolation mode>
  __device__ TileMask list_taps(const Sample& s, const Segment& k, int32_t x, int32_t y,
                                int32_t left, int32_t top, int i,
                                TapLists<mode, Acc>& lists) const {
    const LanePoint<Acc> point = position(s, k, x, y);
    if (!point.valid) return {0, 0};
    const PixelTaps<mode, Acc> of = taps<mode>(s, k, point);
    lists.put(i, of);
    return {tap_mask(of.x, left, kGatherWidth), tap_mask(of.y, top, kGatherHeight)};
  }

  __device__ TileMask list_taps(const Sample& s, const Segment& k, int32_t x, int32_t y,
                                int32_t left, int32_t top, int i,
                                FilterLists<given, Acc>& lists) const {
    const LanePoint<Acc> point = position(s, k, x, y);
    if (!point.valid) return {0, 0};
    const FilterAxis<given, Acc> by_y = filter(k.axes.y, s.y, point.y);
    const uint32_t rows = by_y.mask(top, kGatherHeight);
    if (rows == 0) return {0, 0};
    lists.y.put(i, k.axes.y.origin, by_y.taps);
    const FilterAxis<given, Acc> by_x = filter(k.axes.x, s.x, point.x);
    lists.x.put(i, k.axes.x.origin, by_x.taps);
    return {by_x.mask(left, kGatherWidth), rows};
  }

  __device__ Acc incoming(int64_t sample, int64_t channel, int32_t y, int32_t x) const {
    const AugmentParams& p = b.forward;
    const int64_t plane = sample * p.channels + channel;
    return load_readonly(grad_sampled + (plane * p.output_height + y) * p.output_width + x);
  }

  __device__ Acc* gradient_at(int64_t sample, int64_t channel, int32_t y, int32_t x) const {
    const Strides& stride = b.grad_image_stride;
    return static_cast<Acc*>(b.grad_image) + sample * stride.batch + channel * stride.channel +
           y * stride.row + x * stride.column;
  }
};

template <class Warp, class Acc>
__global__ void __launch_bounds__(kGatherThreads, sizeof(Acc) == 8 ? 6 : 8)
    augment_gather_boxes(const __grid_constant__ AugmentBackwardParams b,
                         const __grid_constant__ GatherPlan plan,
                         const GatherScratch<Warp> scratch) {
  find_boxes(Warp{b, nullptr}, plan, scratch, [&](int64_t sample, int64_t) -> const AugmentSample& {
    return scratch.sample[sample];
  });
}

template <class Warp, class Acc>
__global__ void __launch_bounds__(kGatherThreads, sizeof(Acc) == 8 ? 4 : 8)
    augment_gather(const __grid_constant__ AugmentBackwardParams b, const Acc* grad_sampled,
                   const __grid_constant__ GatherPlan plan, const GatherScratch<Warp> scratch,
                   const int64_t first_sample) {
  __shared__ GatherShared<Acc> shared;
  __shared__ typename Warp::Lists lists;
  const Warp warp{b, grad_sampled};
  const int64_t sample = first_sample + blockIdx.y;
  const AugmentSample& s = scratch.sample[sample];
  if (warp.is_nearest(s)) {
    return GatherTile(warp, plan, scratch, sample, shared, lists.copies).run();
  }
  if constexpr (Warp::kFilters) {
    if (s.antialias) {
      return GatherTile(warp, plan, scratch, sample, shared, lists.filters).run();
    }
  }
  if constexpr (Warp::kTaps) {
    GatherTile(warp, plan, scratch, sample, shared, lists.taps).run();
  }
}

template <Interpolation mode, class Acc>
void gather_as(const AugmentBackwardParams& b, const void* segments, const Acc* grad_sampled,
               Workspace& workspace) {
  using Warp = AugmentGather<mode, Acc>;
  const AugmentParams& p = b.forward;
  const GatherPlan plan = gather_plan(p.batch, p.channels, p.first.height, p.first.width,
                                      p.output_height, p.output_width);
  const GatherScratch<Warp> scratch = gather_scratch<Warp>(
      plan, p.samples, static_cast<const PlacedSegment<Acc>*>(segments), workspace);
  launch(augment_gather_boxes<Warp, Acc>, grid_for(plan.batch * plan.bands), dim3(kGatherThreads),
         0, workspace.stream(), b, plan, scratch);
  each_tile(plan, [&](int64_t first, dim3 blocks) {
    launch(augment_gather<Warp, Acc>, blocks, dim3(kGatherThreads), 0, workspace.stream(), b,
           grad_sampled, plan, scratch, first);
  });
}

}  // namespace

template <Slot slot, Interpolation mode>
void launch_augment_gather(const AugmentBackwardParams& b, const void* segments,
                           const void* grad_sampled, Workspace& workspace) {
  if (b.forward.dtype == DType::kFloat64) {
    return gather_as<mode>(b, segments, static_cast<const double*>(grad_sampled), workspace);
  }
  gather_as<mode>(b, segments, static_cast<const float*>(grad_sampled), workspace);
}

}  // namespace visops

template void visops::launch_augment_gather<visops::kCudaSlot, visops::Interpolation::kNearest>(
    const visops::AugmentBackwardParams&, const void*, const void*, visops::Workspace&);
template void visops::launch_augment_gather<visops::kCudaSlot, visops::Interpolation::kBilinear>(
    const visops::AugmentBackwardParams&, const void*, const void*, visops::Workspace&);
template void visops::launch_augment_gather<visops::kCudaSlot, visops::Interpolation::kBicubic>(
    const visops::AugmentBackwardParams&, const void*, const void*, visops::Workspace&);
template void visops::launch_augment_gather<visops::kCudaSlot, visops::Interpolation::kLanczos>(
    const visops::AugmentBackwardParams&, const void*, const void*, visops::Workspace&);
