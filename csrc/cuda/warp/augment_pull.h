// How a block walks four output rows and pulls their gradient back to the samples.
#pragma once

#include "core/warp/augment_gradient.h"
#include "cuda/launch.h"
#include "cuda/warp/augment_color.h"

namespace visops {
namespace {

constexpr int kWarp = 32;
constexpr int kPullRows = 4;  // per block, kTreeLeaves threads each
constexpr int kPullThreads = kPullRows * static_cast<int>(kTreeLeaves);
constexpr int kPullSegments = 8;  // of a row, prepared at once
constexpr int64_t kPullColumns = kPullSegments * kSegment;

struct PullThread {
  int row, lane;
  __device__ PullThread()
      : row(static_cast<int>(threadIdx.x) / static_cast<int>(kTreeLeaves)),
        lane(static_cast<int>(threadIdx.x) % static_cast<int>(kTreeLeaves)) {}
};

// Bands of kPullRows rows of a sample.
VISOPS_FN int64_t pull_bands(const AugmentParams& p) {
  return (p.output_height + kPullRows - 1) / kPullRows;
}

template <class Acc>
struct PullBlock {
  AugmentSample sample;  // as it was sampled
  AugmentSample slope;   // as it is differentiated
  ColorPlan<Acc> plan;
  AugmentSegment<Acc> segment[kPullRows][kPullSegments];
  SegmentAxes<Acc> axes[kPullRows][kPullSegments];
};

// Called by all threads of the block, and synchronizes them.
template <class Acc>
__device__ inline void prepare_pull(const AugmentParams& p, int64_t sample, PullBlock<Acc>* block) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    block->sample = augment_sample(p, sample, augment_image(p, sample));
    block->slope = slope_sample(p, block->sample);
  } else if (thread >= kWarp && p.color_steps > 0) {
    share_color_plan(p, sample, thread - kWarp, kPullThreads - kWarp, &block->plan);
  }
  __syncthreads();
}

// The segments of the block's rows from column `x` on.
template <class Acc>
__device__ inline void prepare_segments(const AugmentParams& p, int64_t y, int64_t x,
                                        PullBlock<Acc>* block) {
  const int row = static_cast<int>(threadIdx.x) / kPullSegments;
  const int at = static_cast<int>(threadIdx.x) % kPullSegments;
  if (row < kPullRows && x + at * kSegment < p.output_width) {
    const AugmentSegment<Acc> segment =
        augment_segment<Acc>(block->sample.map, x + at * kSegment, y + row);
    block->segment[row][at] = segment;
    block->axes[row][at] = segment_axes(block->slope, segment);
  }
  __syncthreads();
}

// A pixel whose gradient is pulled back: its place, and up to four of its channels.
template <class T, Interpolation mode>
struct PullPixel {
  using Acc = typename Accumulate<T>::type;

  const AugmentParams& p;
  const PullBlock<Acc>& block;
  const AugmentSegment<Acc>& segment;
  const SegmentAxes<Acc>& axes;
  int64_t sample, x, y;
  LanePoint<Acc> point;
  PixelEdge<Acc> edge;
  bool erased;

  __device__ PullPixel(const AugmentParams& params, const PullBlock<Acc>& shared, int row,
                       int64_t of, int64_t at_y, int64_t at_x)
      : p(params),
        block(shared),
        segment(shared.segment[row][at_x / kSegment % kPullSegments]),
        axes(shared.axes[row][at_x / kSegment % kPullSegments]),
        sample(of),
        x(at_x),
        y(at_y) {
    point = segment.direct ? lane_point_direct<Acc>(block.sample.map, x, y)
                           : lane_point(segment, static_cast<int>(x % kSegment));
    const bool none = !point.valid || block.sample.is_fill;
    edge = {static_cast<Acc>(none ? 1 : 0), static_cast<Acc>(0), static_cast<Acc>(0)};
    if (!none && blends_edge(p, block.slope)) edge = pixel_edge(axes, point.x, point.y);
    erased = is_erased(p, sample, x, y);
  }

  // Samples, with derivatives. Fill has none; there edge.out becomes 1.
  __device__ void sampled(int64_t first, int count, PixelGroup<Acc>* group) {
    bool inside = edge.out < static_cast<Acc>(1);
    if (inside) {
      inside = sample_group<T, mode, mode != Interpolation::kNearest>(
          p, block.slope, axes, point, plane(first), first, count, group);
    }
    if (inside) return;
    edge.out = static_cast<Acc>(1);
    for (int c = 0; c < kPixelGroup; ++c) {
      if (c >= count) break;
      group->value[c] = static_cast<Acc>(p.fill[value_index(p, first + c)]);
      group->dx[c] = group->dy[c] = static_cast<Acc>(0);
    }
  }

  // What colour was applied to.
  __device__ void blended(int64_t first, int count, const PixelGroup<Acc>& group,
                          Acc value[kPixelGroup]) const {
    PixelGroup<Acc> copy;
    bool copied = false;
    const bool copies = mode != Interpolation::kNearest && !block.sample.is_fill &&
                        block.sample.mode == Interpolation::kNearest;
    if (copies) {
      copied = sample_group<T, Interpolation::kNearest, false>(p, block.sample, axes, point,
                                                               plane(first), first, count, &copy);
    }
    for (int c = 0; c < kPixelGroup; ++c) {
      if (c >= count) break;
      const Acc fill = static_cast<Acc>(p.fill[value_index(p, first + c)]);
      value[c] =
          copies ? (copied ? copy.value[c] : fill) : blend_fill(group.value[c], fill, edge.out);
    }
  }

  __device__ Acc gradient(int64_t channel) const {
    if (erased) return static_cast<Acc>(0);
    const Strides& stride = p.output_stride;
    return load_gradient<Acc>(
        p.output_dtype, p.output,
        sample * stride.batch + channel * stride.channel + y * stride.row + x * stride.column);
  }

 private:
  __device__ const T* plane(int64_t channel) const {
    const AugmentImage& image = block.sample.image;
    return static_cast<const T*>(image.data) + channel * image.channel_stride;
  }
};

// Pulls a pixel's gradient back to its samples, into `grad_sampled` ([batch, channels,
// output_height, output_width]; or null), and adds its terms of the matrix sums.
template <class T, Interpolation mode, class Acc>
__device__ void pull_pixel(const AugmentBackwardParams& b, Acc* grad_sampled,
                           const PullBlock<Acc>& block, int row, int64_t sample, int64_t y,
                           int64_t x, double sum[kMatrixSums]) {
  const AugmentParams& p = b.forward;
  const Acc zero = static_cast<Acc>(0);
  PullPixel<T, mode> pixel(p, block, row, sample, y, x);
  const bool slopes = mode != Interpolation::kNearest && b.grad_matrix != nullptr;
  Acc gx = zero, gy = zero, fills = zero;
  for (int64_t first = 0; first < p.channels; first += kPixelGroup) {
    const int count = group_size(p, first);
    PixelGroup<Acc> group;
    Acc value[kPixelGroup] = {}, e[kPixelGroup];
    if (slopes || p.clamp) pixel.sampled(first, count, &group);
    if (p.clamp) pixel.blended(first, count, group, value);
    for (int c = 0; c < kPixelGroup; ++c) {
      if (c >= count) break;
      e[c] = pixel.gradient(first + c);
    }
    pull_group(p, block.plan, first, count, value, e);
    for (int c = 0; c < kPixelGroup; ++c) {
      if (c >= count) break;
      const Acc d = pull_blend(e[c], pixel.edge.out);
      if (slopes) {
        const Acc fill = static_cast<Acc>(p.fill[value_index(p, first + c)]);
        fills = fills + e[c] * (group.value[c] - fill);
        gx = gx + d * group.dx[c];
        gy = gy + d * group.dy[c];
      }
      if (grad_sampled != nullptr) {
        const int64_t plane = sample * p.channels + first + c;
        grad_sampled[(plane * p.output_height + y) * p.output_width + x] = d;
      }
    }
  }
  if (!slopes) return;
  const LanePoint<Acc>& at = pixel.point;
  const MovingRange<Acc> by_x = moving_range(p, block.slope, pixel.axes.x);
  const MovingRange<Acc> by_y = moving_range(p, block.slope, pixel.axes.y);
  gx = pull_place(gx, fills, pixel.edge.x, pixel.edge.out, at.x >= by_x.low && at.x < by_x.high);
  gy = pull_place(gy, fills, pixel.edge.y, pixel.edge.out, at.y >= by_y.low && at.y < by_y.high);
  const double column = static_cast<double>(x);
  const MapTerms t = map_terms(block.sample.map, p.matrix_rows == 3, column, static_cast<double>(y),
                               static_cast<double>(pixel.segment.x) + static_cast<double>(at.x),
                               static_cast<double>(pixel.segment.y) + static_cast<double>(at.y),
                               static_cast<double>(gx), static_cast<double>(gy));
  sum[0] += t.a;
  sum[1] += t.a * column;
  sum[2] += t.b;
  sum[3] += t.b * column;
  sum[4] += t.c;
  sum[5] += t.c * column;
}

// Adds a pixel's terms of the sums of colour step `step`: [channels, channels + 1] in rows of 5.
template <class T, Interpolation mode, class Acc>
__device__ void pull_pixel_color(const AugmentParams& p, const PullBlock<Acc>& block, int row,
                                 int64_t sample, int64_t y, int64_t x, int64_t step,
                                 double sum[kMaxMatrixElements]) {
  PullPixel<T, mode> pixel(p, block, row, sample, y, x);
  const int channels = static_cast<int>(p.channels);
  PixelGroup<Acc> group;
  Acc value[kPixelGroup] = {}, e[kPixelGroup], input[kPixelGroup];
  pixel.sampled(0, channels, &group);
  pixel.blended(0, channels, group, value);
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= channels) break;
    e[c] = pixel.gradient(c) * static_cast<Acc>(p.scale[value_index(p, c)]);
  }
  pull_color_to(p, block.plan, step, value, e, input);
  constexpr int kColumns = kMaxColorChannels + 1;
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= channels) break;
    const double by = static_cast<double>(e[c]);
    for (int j = 0; j < kPixelGroup; ++j) {
      if (j >= channels) break;
      sum[c * kColumns + j] += by * static_cast<double>(input[j]);
    }
    sum[c * kColumns + kMaxColorChannels] += by;
  }
}

// A row's sums of 32 lanes, padded so that threads with a sum each use different banks.
using HalfRow = double[kWarp + 1];

// Halves the 64 lanes of a row's sums to one; a thread whose lane is the number of a sum gets that
// sum. Called by all threads of the block, and synchronizes them twice: shuffles would take two
// times five steps for every sum.
template <int Count>
__device__ inline double sum_row(const double (&sum)[Count], const PullThread& thread,
                                 HalfRow (&half)[Count]) {
  if (thread.lane >= kWarp) {
    for (int k = 0; k < Count; ++k) half[k][thread.lane - kWarp] = sum[k];
  }
  __syncthreads();
  if (thread.lane < kWarp) {
    for (int k = 0; k < Count; ++k) half[k][thread.lane] = sum[k] + half[k][thread.lane];
  }
  __syncthreads();
  if (thread.lane >= Count) return 0.0;
  double* const lane = half[thread.lane];
  for (int w = kWarp / 2; w >= 1; w /= 2) {
    for (int i = 0; i < w; ++i) lane[i] += lane[i + w];
  }
  return lane[0];
}

}  // namespace
}  // namespace visops
