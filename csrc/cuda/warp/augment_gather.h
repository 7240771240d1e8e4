// The kernels that gather an image's gradient; NOTE [ Augment backward on CUDA ].
#pragma once

#include "core/warp/augment_gradient.h"
#include "cuda/launch.h"
#include "cuda/warp/augment_modes.h"
#include "cuda/warp/augment_reach.h"

namespace visops {
namespace {

// Source pixels of a block. Preparing the search is expensive, so a thread has several.
constexpr int kGatherWidth = 32, kGatherHeight = 16, kGatherStep = 4;
constexpr int kGatherThreads = kGatherWidth * kGatherStep;

// Blocks of work: channel group fastest, then tile column, tile row, sample.
struct GatherGrid {
  int64_t groups, columns, rows, count;
};

template <class Acc>
struct GatherBlock {
  AugmentSample sample;
  ReachMap reach;
  SegmentAxes<Acc> axes;  // of an affine map, to be placed per segment
};

// The sums of one source pixel for `channels` channels.
template <Interpolation mode, class Acc>
struct Gather {
  const AugmentParams& p;
  const AugmentSample& s;
  const Acc* grad;  // of the first channel: [channels, output_height, output_width]
  int channels;
  int64_t source_x, source_y;
  Acc sum[kPixelGroup];

  __device__ void add(Acc weight, int64_t y, int64_t x) {
    const Acc* at = grad + y * p.output_width + x;
    for (int c = 0; c < kPixelGroup; ++c) {
      if (c >= channels) break;
      sum[c] += weight * load_readonly(at + c * p.output_height * p.output_width);
    }
  }

  __device__ void taps(const SegmentAxes<Acc>& axes, const LanePoint<Acc>& point, int64_t y,
                       int64_t x) {
    constexpr int kTaps = tap_count(mode);
    const auto by_x = augment_axis_taps<mode>(axes.x, s.x, p.padding, s.soft_edge, point.x);
    const auto by_y = augment_axis_taps<mode>(axes.y, s.y, p.padding, s.soft_edge, point.y);
    for (int i = 0; i < kTaps; ++i) {
      if (by_y.index[i] != source_y) continue;
      for (int j = 0; j < kTaps; ++j) {
        if (by_x.index[j] == source_x) add(by_y.weight[i] * by_x.weight[j], y, x);
      }
    }
  }

  // Which of a filter's taps may be on a source index: one of them, or any if padding folds.
  __device__ Span matching(const SegmentAxis<Acc>& axis, const FilterTaps<Acc>& taps,
                           int64_t source) const {
    if (p.padding != Padding::kConstant) return {0, taps.count};
    const int64_t i = source - axis.origin - taps.first;
    if (i < 0 || i >= taps.count) return {0, 0};
    return {i, i + 1};
  }

  __device__ void filter(const SegmentAxes<Acc>& axes, const LanePoint<Acc>& point, int64_t y,
                         int64_t x) {
    const FilterTaps<Acc> by_y = filter_taps<mode>(axes.y, p.padding, point.y);
    const Span rows = matching(axes.y, by_y, source_y);
    if (rows.begin == rows.end) return;
    const FilterTaps<Acc> by_x = filter_taps<mode>(axes.x, p.padding, point.x);
    const Span columns = matching(axes.x, by_x, source_x);
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      const int32_t row = by_y.first + static_cast<int32_t>(i);
      if (filter_index(axes.y, s.y, p.padding, row) != source_y) continue;
      const Acc weight_y = filter_tap<mode>(by_y, row) * by_y.norm;
      if (weight_y == static_cast<Acc>(0)) continue;
      for (int64_t j = columns.begin; j < columns.end; ++j) {
        const int32_t column = by_x.first + static_cast<int32_t>(j);
        if (filter_index(axes.x, s.x, p.padding, column) != source_x) continue;
        const Acc weight_x = filter_tap<mode>(by_x, column) * by_x.norm;
        if (weight_x != static_cast<Acc>(0)) add(weight_y * weight_x, y, x);
      }
    }
  }

  template <bool folds>
  __device__ void run(const GatherBlock<Acc>& block) {
    using Search = SourceSearch<folds>;
    const Search search(p, s, block.reach, source_x, source_y);
    SegmentAxes<Acc> axes = block.axes;
    const Span none = {0, 0};
    for (Span rows = search.rows(0); rows.begin < rows.end;
         rows = Search::kOneRun ? none : search.rows(rows.end)) {
      for (int64_t y = rows.begin; y < rows.end; ++y) {
        AugmentSegment<Acc> segment;
        int64_t known = -1;
        for (Span run = search.columns(y, 0); run.begin < run.end;
             run = Search::kOneRun ? none : search.columns(y, run.end)) {
          for (int64_t x = run.begin; x < run.end; ++x) {
            if (x / kSegment != known) {
              known = x / kSegment;
              segment = augment_segment<Acc>(s.map, known * kSegment, y);
              if (s.map.perspective) {
                axes = segment_axes(s, segment);
              } else {
                place_axis(s.x, segment.x, &axes.x);
                place_axis(s.y, segment.y, &axes.y);
              }
            }
            const LanePoint<Acc> point = segment.direct
                                             ? lane_point_direct<Acc>(s.map, x, y)
                                             : lane_point(segment, static_cast<int>(x % kSegment));
            if (!point.valid) continue;
            if constexpr (mode != Interpolation::kNearest) {
              if (s.antialias) {
                filter(axes, point, y, x);
                continue;
              }
            }
            taps(axes, point, y, x);
          }
        }
      }
    }
  }
};

template <Interpolation mode, bool folds, class Acc>
__device__ void gather(const AugmentBackwardParams& b, const GatherBlock<Acc>& block,
                       const Acc* grad, int channels, int64_t x, int64_t y, Acc* out) {
  Gather<mode, Acc> g = {b.forward, block.sample, grad, channels, x, y, {}};
  if (!block.sample.is_fill) g.template run<folds>(block);
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c < channels) out[c * b.grad_image_stride.channel] = g.sum[c];
  }
}

template <Interpolation mode, bool folds, class Acc>
__global__ void __launch_bounds__(kGatherThreads, sizeof(Acc) == 8 ? 3 : 4)
    augment_gather(const __grid_constant__ AugmentBackwardParams b, const Acc* grad_sampled,
                   const GatherGrid grid) {
  const AugmentParams& p = b.forward;
  __shared__ GatherBlock<Acc> block;
  for (int64_t i = blockIdx.x; i < grid.count; i += gridDim.x) {
    const int64_t tile = i / grid.groups, tile_row = tile / grid.columns;
    const int64_t sample = tile_row / grid.rows;
    if (threadIdx.x == 0) {
      block.sample = augment_sample(p, sample, augment_image(p, sample));
      const AugmentSample& s = block.sample;
      set_axis_widths(s, s.x, s.map.width_x, &block.axes.x);
      set_axis_widths(s, s.y, s.map.width_y, &block.axes.y);
      if (!s.is_fill) make_reach(p, s, &block.reach);
    }
    __syncthreads();

    const int64_t channel = (i - tile * grid.groups) * kPixelGroup;
    const int channels = group_size(p, channel);
    const int64_t x = (tile - tile_row * grid.columns) * kGatherWidth + threadIdx.x % kGatherWidth;
    const int64_t y0 = (tile_row - sample * grid.rows) * kGatherHeight;
    const Acc* grad =
        grad_sampled + (sample * p.channels + channel) * p.output_height * p.output_width;
    const Strides& stride = b.grad_image_stride;
    Acc* image = static_cast<Acc*>(b.grad_image) + sample * stride.batch + channel * stride.channel;
    for (int64_t y = y0 + threadIdx.x / kGatherWidth;
         x < p.first.width && y < p.first.height && y < y0 + kGatherHeight; y += kGatherStep) {
      Acc* out = image + y * stride.row + x * stride.column;
      if (mode == Interpolation::kNearest || block.sample.mode == Interpolation::kNearest) {
        gather<Interpolation::kNearest, folds>(b, block, grad, channels, x, y, out);
      } else {
        gather<mode, folds>(b, block, grad, channels, x, y, out);
      }
    }
    if (i + gridDim.x < grid.count) __syncthreads();  // before the next sample replaces this one
  }
}

template <Interpolation mode, class Acc>
void gather_as(const AugmentBackwardParams& b, const Acc* grad_sampled, void* stream) {
  const AugmentParams& p = b.forward;
  GatherGrid grid;
  grid.groups = (p.channels + kPixelGroup - 1) / kPixelGroup;
  grid.columns = (p.first.width + kGatherWidth - 1) / kGatherWidth;
  grid.rows = (p.first.height + kGatherHeight - 1) / kGatherHeight;
  grid.count = p.batch * grid.rows * grid.columns * grid.groups;
  const bool folds = p.padding != Padding::kConstant && p.padding != Padding::kReplicate;
  const auto kernel = folds ? augment_gather<mode, true, Acc> : augment_gather<mode, false, Acc>;
  launch(kernel, grid_for(grid.count), dim3(kGatherThreads), 0, stream, b, grad_sampled, grid);
}

}  // namespace

template <Slot slot, Interpolation mode>
void launch_augment_gather(const AugmentBackwardParams& b, const void* grad_sampled, void* stream) {
  if (b.forward.dtype == DType::kFloat64) {
    return gather_as<mode>(b, static_cast<const double*>(grad_sampled), stream);
  }
  gather_as<mode>(b, static_cast<const float*>(grad_sampled), stream);
}

}  // namespace visops
