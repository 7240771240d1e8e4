// The kernels that pull gradients back to the samples; NOTE [ Augment backward on CUDA ].
#pragma once

#include "core/numbers/element.h"
#include "core/warp/augment_gradient.h"
#include "cuda/launch.h"
#include "cuda/tile_grid.h"
#include "cuda/warp/augment_color.h"
#include "cuda/warp/augment_modes.h"
#include "cuda/warp/augment_positions.h"
#include "cuda/warp/augment_values.h"
#include "cuda/warp/bands.h"
#include "cuda/warp/register_select.h"

namespace visops {
namespace {

// How a block walks a few output rows to pull their gradient back, and adds up what its threads
// find.

// Rows of a block, with kTreeLeaves threads each. A block's shared memory is in proportion.
template <class Acc>
constexpr int kBackwardRows = std::is_same<Acc, double>::value ? 2 : 4;
template <class Acc>
constexpr int kBackwardThreads = kBackwardRows<Acc> * static_cast<int>(kTreeLeaves);

struct BackwardThread {
  int row, lane;
  __device__ BackwardThread()
      : row(static_cast<int>(threadIdx.x) / static_cast<int>(kTreeLeaves)),
        lane(static_cast<int>(threadIdx.x) % static_cast<int>(kTreeLeaves)) {}
};

// Blocks of a sample.
template <class Acc>
VISOPS_FN int64_t bands_of(const AugmentParams& p) {
  return parts_of(p.output_height, kBackwardRows<Acc>);
}

template <class Acc>
struct BackwardBlock {
  AugmentSample sample;  // as it is differentiated
  bool copies;           // the forward copied elements instead
  ColorPlan<Acc> plan;
  ChannelValues<Acc> values;
};

// Called by all threads of the block, and synchronizes them.
template <class Acc>
__device__ inline void prepare_backward(const AugmentParams& p, int64_t sample,
                                        BackwardBlock<Acc>* block) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    const AugmentSample& given = p.samples[sample];
    block->sample = slope_sample(p, given);
    block->copies = given.mode != p.mode;
  } else if (thread >= kWarp) {
    constexpr int kThreads = kBackwardThreads<Acc> - kWarp;
    share_values(p, thread - kWarp, kThreads, &block->values);
    share_color_plan(p, sample, thread - kWarp, kThreads, &block->plan);
  }
  __syncthreads();
}

// What a thread knows of its pixel from one stage of the work to the next. Volatile: compilers
// would keep it in registers, and every stage wants them all.
template <class Acc>
struct ThreadPixels {
  volatile int32_t column[kBackwardThreads<Acc>], row[kBackwardThreads<Acc>];  // of the output
  volatile Acc x[kBackwardThreads<Acc>], y[kBackwardThreads<Acc>];             // its LanePoint
  volatile Acc out[kBackwardThreads<Acc>];  // the part that is fill
  volatile Acc gx[kBackwardThreads<Acc>], gy[kBackwardThreads<Acc>], fills[kBackwardThreads<Acc>];
  const PlacedSegment<Acc>* volatile segments[kBackwardThreads<Acc>];  // of its row
};

// A sum of every thread. In shared memory: registers are for sampling and colour.
template <class Acc>
using ThreadSum = double[kBackwardThreads<Acc>];

// use() for this thread's pixels of a band, which `pixels` places, after its `sums` sums are set to
// 0. Called by all threads of the block, and synchronizes them, at last when all are done.
template <class Acc, class Use>
__device__ void for_band_pixels(const AugmentParams& p, const Band& band,
                                const PlacedSegment<Acc>* segments, BackwardBlock<Acc>* block,
                                ThreadPixels<Acc>* pixels, int sums, ThreadSum<Acc>* sum,
                                const Use& use) {
  const BackwardThread thread;
  for (int k = 0; k < sums; ++k) sum[k][threadIdx.x] = 0.0;
  prepare_backward(p, band.sample, block);
  const int32_t y = band.y + thread.row;
  if (y < p.output_height) {
    pixels->row[threadIdx.x] = y;
    pixels->segments[threadIdx.x] = segments + segment_at(p, band.sample, y, 0);
    for (pixels->column[threadIdx.x] = thread.lane; pixels->column[threadIdx.x] < p.output_width;
         pixels->column[threadIdx.x] += static_cast<int32_t>(kTreeLeaves)) {
      use();
    }
  }
  __syncthreads();  // all sums are there
}

// use(row, k, total): halves the 64 lanes of each row's sum k to one. Eight threads take a sum,
// each every eighth lane, and the first of them gets it. Called by all threads of the block, after
// they have met.
template <class Acc, class Use>
__device__ void sum_rows(int count, const ThreadSum<Acc>* sum, const Use& use) {
  constexpr int kRows = kBackwardRows<Acc>, kLanes = static_cast<int>(kTreeLeaves);
  constexpr int kTogether = 8, kEach = kLanes / kTogether;
  const int thread = static_cast<int>(threadIdx.x), first = thread % kTogether;
  // `count` and kRows are even: the four sums of a warp are all there or all not.
  for (int i = thread / kTogether; i < count * kRows; i += kBackwardThreads<Acc> / kTogether) {
    const int row = i % kRows, k = i / kRows;
    double v[kEach];
    for (int j = 0; j < kEach; ++j) v[j] = sum[k][row * kLanes + first + j * kTogether];
    for (int w = kEach / 2; w >= 1; w /= 2) {
      for (int j = 0; j < w; ++j) v[j] += v[j + w];
    }
    for (int w = kTogether / 2; w >= 1; w /= 2) {
      v[0] += __shfl_down_sync(0xffffffffu, v[0], static_cast<unsigned>(w));
    }
    if (first == 0) use(row, k, v[0]);
  }
}

// A pixel whose gradient is pulled back to its samples.

// Numbers of a thread's pixel, one a channel. In shared memory: registers can't be indexed.
template <class Acc>
struct ThreadChannels {
  Acc number[kPixelGroup][kBackwardThreads<Acc>];
  __device__ Acc& operator[](int c) { return number[c][threadIdx.x]; }
};

// As PixelGroup, with derivatives or without.
template <class Acc>
struct ThreadGroup {
  ThreadChannels<Acc> value, dx, dy;
};

template <class Acc>
struct ThreadValues {
  ThreadChannels<Acc> value;
};

// tap_group() for bicubic, a tap column and a channel at a time: few registers are enough.
template <class T, bool slopes, class Acc, class FillOf, class Group>
__device__ bool cubic_group(const AugmentParams& p, const AugmentSample& s,
                            const SegmentAxes<Acc>& axes, const LanePoint<Acc>& point,
                            const T* image, int count, const FillOf& fill_of, Group* group) {
  constexpr Interpolation kMode = Interpolation::kBicubic;
  constexpr int kTaps = tap_count(kMode);
  const auto y = augment_axis_taps<kMode>(axes.y, s.y, p.padding, s.soft_edge, point.y);
  const AxisStart<Acc> x = augment_axis_start<kMode>(axes.x, point.x);
  const auto column_at = [&](int j) {
    return augment_tap_index<kMode>(s.x, p.padding, s.soft_edge, x.first + j);
  };
  int32_t any = -1;
#pragma unroll 1
  for (int j = 0; j < kTaps; ++j) any = column_at(j) >= 0 ? 0 : any;
  if (y.outside() || any < 0) return false;
  Acc slope_y[kTaps];
  if constexpr (slopes) cubic_weight_derivatives(y.t, slope_y);
#pragma unroll 1
  for (int j = 0; j < kTaps; ++j) {
    const int32_t column = column_at(j);
    Acc w[kTaps];
    cubic_weights(x.t, w);
    const Acc weight = pick(w, j);
    Acc slope = static_cast<Acc>(0);
    if constexpr (slopes) {
      cubic_weight_derivatives(x.t, w);
      slope = pick(w, j);
    }
    const T* const from = image + column * s.image.column_stride;
#pragma unroll 1
    for (int c = 0; c < count; ++c) {
      Acc v[kTaps];
      for (int i = 0; i < kTaps; ++i) {
        v[i] = fill_of(c);
        if (y.index[i] >= 0 && column >= 0) {
          const T element =
              load_readonly(from + c * s.image.channel_stride + y.index[i] * s.image.row_stride);
          v[i] = load_element(&element);
        }
      }
      const auto add = [&](Acc term, Acc* sum) { *sum = j == 0 ? term : *sum + term; };
      const Acc value = weighted_sum(y.weight, v[0], v[1], v[2], v[3]);
      add(weight * value, &group->value[c]);
      if constexpr (slopes) {
        add(slope * value, &group->dx[c]);
        add(weight * weighted_sum(slope_y, v[0], v[1], v[2], v[3]), &group->dy[c]);
      }
    }
  }
  return true;
}

// tap_group(), a channel at a time.
template <class T, Interpolation mode, bool slopes, class Acc, class FillOf, class Group>
__device__ bool take_taps(const AugmentParams& p, const AugmentSample& s,
                          const SegmentAxes<Acc>& axes, const LanePoint<Acc>& point, const T* image,
                          int count, const FillOf& fill_of, Group* group) {
  if constexpr (mode == Interpolation::kBicubic) {
    return cubic_group<T, slopes>(p, s, axes, point, image, count, fill_of, group);
  } else {
    PixelTaps<mode, Acc> taps;
    taps.x = augment_axis_taps<mode>(axes.x, s.x, p.padding, s.soft_edge, point.x);
    taps.y = augment_axis_taps<mode>(axes.y, s.y, p.padding, s.soft_edge, point.y);
    if (taps.outside()) return false;
    const Strides stride = {0, s.image.channel_stride, s.image.row_stride, s.image.column_stride};
#pragma unroll 1
    for (int c = 0; c < count; ++c) {
      const T* plane = image + c * stride.channel;
      if constexpr (mode == Interpolation::kNearest) {
        group->value[c] = load_tap(plane, stride, taps, 0, 0);
      } else {
        Acc tap[tap_count(mode)][tap_count(mode)];
        load_taps(plane, stride, taps, fill_of(c), tap);
        group->value[c] = blend_taps(taps, tap);
        if constexpr (slopes) {
          const PixelGradient<Acc> d = differentiate_taps(taps, tap);
          group->dx[c] = d.x;
          group->dy[c] = d.y;
        }
      }
    }
    return true;
  }
}

template <class T, Interpolation mode>
struct BackwardPixel {
  using Acc = typename Accumulate<T>::type;

  const AugmentParams& p;
  const BackwardBlock<Acc>& block;
  ThreadPixels<Acc>& pixels;

  __device__ BackwardPixel(const AugmentParams& params, const BackwardBlock<Acc>& shared,
                           ThreadPixels<Acc>* own)
      : p(params), block(shared), pixels(*own) {
    const AugmentSegment<Acc>& segment = position().segment;
    const SegmentAxes<Acc>& axes = position().axes;
    const LanePoint<Acc> at = segment.direct
                                  ? lane_point_direct<Acc>(block.sample.map, x(), y())
                                  : lane_point(segment, static_cast<int>(x() % kSegment));
    const bool none = !at.valid || block.sample.is_fill;
    Acc cover = static_cast<Acc>(0);
    if (!none) {
      cover = blends_edge(p, block.sample) ? edge_cover(axes.x, at.x) * edge_cover(axes.y, at.y)
                                           : static_cast<Acc>(1);
    }
    pixels.x[threadIdx.x] = at.x;
    pixels.y[threadIdx.x] = at.y;
    pixels.out[threadIdx.x] = static_cast<Acc>(1) - cover;
  }

  __device__ LanePoint<Acc> point() const {
    return {pixels.x[threadIdx.x], pixels.y[threadIdx.x], true};
  }
  __device__ int32_t x() const { return pixels.column[threadIdx.x]; }
  __device__ int32_t y() const { return pixels.row[threadIdx.x]; }
  __device__ const PlacedSegment<Acc>& position() const {
    return pixels.segments[threadIdx.x][x() / static_cast<int32_t>(kSegment)];
  }
  __device__ Acc out() const { return pixels.out[threadIdx.x]; }

  __device__ Acc fill(int channel) const { return block.values.fill[value_index(p, channel)]; }

  // Samples `count` channels from `first` on. Fill has no derivatives; there `out` becomes 1.
  template <bool slopes, class Group>
  __device__ void take(int first, int count, Group* group) {
    if (out() < static_cast<Acc>(1) && has_samples<slopes>(first, count, group)) return;
    pixels.out[threadIdx.x] = static_cast<Acc>(1);
#pragma unroll 1
    for (int c = 0; c < count; ++c) {
      group->value[c] = fill(first + c);
      if constexpr (slopes) group->dx[c] = group->dy[c] = static_cast<Acc>(0);
    }
  }

  // What colour was applied to, of channels that were taken into `group`.
  template <class Group>
  __device__ void blend(int first, int count, Group* group, ThreadValues<Acc>* blended) const {
    const bool copies = mode != Interpolation::kNearest && block.copies && !block.sample.is_fill;
    if (copies && taps<Interpolation::kNearest, false>(first, count, blended)) return;
#pragma unroll 1
    for (int c = 0; c < count; ++c) {
      const Acc by_fill = fill(first + c);
      blended->value[c] = copies ? by_fill : blend_fill(group->value[c], by_fill, out());
    }
  }

  // The incoming gradient by the colour of a channel.
  __device__ Acc by_color(int64_t sample, int channel) const {
    const Strides& stride = p.output_stride;
    const Acc g = load_gradient<Acc>(
        p.output_dtype, p.output,
        sample * stride.batch + channel * stride.channel + y() * stride.row + x() * stride.column);
    return g * block.values.scale[value_index(p, channel)];
  }

 private:
  template <Interpolation by, bool slopes, class Group>
  __device__ bool taps(int first, int count, Group* group) const {
    const auto fill_of = [&](int c) { return fill(first + c); };
    return take_taps<T, by, slopes>(p, block.sample, position().axes, point(), plane(first), count,
                                    fill_of, group);
  }

  template <bool slopes, class Group>
  __device__ bool has_samples(int first, int count, Group* group) const {
    if constexpr (mode != Interpolation::kNearest) {
      if (block.sample.antialias) {
        filter_group<T, mode, slopes>(p, block.sample, position().axes, point(), plane(first),
                                      count, group);
        return true;
      }
    }
    return taps<tap_mode(mode), slopes>(first, count, group);
  }

  __device__ const T* plane(int channel) const {
    const AugmentImage& image = block.sample.image;
    return static_cast<const T*>(image.data) + channel * image.channel_stride;
  }
};

// Pulls the incoming gradient of `count` channels back: to their blended values, which `numbers`
// holds first if there is a clamp.
template <class T, Interpolation mode, class Acc>
__device__ void backward_colors(const BackwardPixel<T, mode>& pixel, int64_t sample, int first,
                                int count, ThreadValues<Acc>* numbers) {
  const AugmentParams& p = pixel.p;
  const auto& block = pixel.block;
  const bool erased = is_erased(p, sample, pixel.x(), pixel.y());
  const Acc zero = static_cast<Acc>(0);
  if (p.color_steps == 0) {
#pragma unroll 1
    for (int c = 0; c < count; ++c) {
      const Acc value = p.clamp ? numbers->value[c] : zero;
      const Acc e = erased ? zero : pixel.by_color(sample, first + c);
      numbers->value[c] = backward_plain(e, value, block.values.input_scale, p.clamp);
    }
    return;
  }
  Acc value[kPixelGroup] = {}, e[kPixelGroup], input[kPixelGroup];
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= count) break;
    if (p.clamp) value[c] = numbers->value[c];
    e[c] = erased ? zero : pixel.by_color(sample, c);
  }
  backward_color_to(p, block.plan, 0, value, e, input);
  backward_step(block.plan, 0, count, e);
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= count) break;
    numbers->value[c] = e[c];
  }
}

// A pixel's terms of the matrix sums, from its gradients by the coordinates.
template <class T, Interpolation mode, class Acc>
__device__ void add_matrix_terms(const BackwardPixel<T, mode>& pixel, Acc taps_x, Acc taps_y,
                                 Acc fills, ThreadSum<Acc>* sum) {
  const AugmentParams& p = pixel.p;
  const AugmentSample& s = pixel.block.sample;
  const LanePoint<Acc> at = pixel.point();
  const Acc zero = static_cast<Acc>(0);
  const MovingRange<Acc> by_x = moving_range(p, s, pixel.position().axes.x);
  const MovingRange<Acc> by_y = moving_range(p, s, pixel.position().axes.y);
  PixelEdge<Acc> edge = {zero, zero, zero};
  if (pixel.out() < static_cast<Acc>(1) && blends_edge(p, s))
    edge = pixel_edge(pixel.position().axes, at.x, at.y);
  const Acc gx =
      backward_position(taps_x, fills, edge.x, pixel.out(), at.x >= by_x.low && at.x < by_x.high);
  const Acc gy =
      backward_position(taps_y, fills, edge.y, pixel.out(), at.y >= by_y.low && at.y < by_y.high);
  const double column = static_cast<double>(pixel.x());
  const MapTerms t =
      map_terms(s.map, p.matrix_rows == 3, column, static_cast<double>(pixel.y()),
                static_cast<double>(pixel.position().segment.x) + static_cast<double>(at.x),
                static_cast<double>(pixel.position().segment.y) + static_cast<double>(at.y),
                static_cast<double>(gx), static_cast<double>(gy));
  const auto add = [&](int k, double term) {
    sum[k][threadIdx.x] += term;
    sum[k + 1][threadIdx.x] += term * column;
  };
  add(0, t.a);
  add(2, t.b);
  if (p.matrix_rows == 3) add(4, t.c);
}

// Pulls a pixel's gradient back to its samples, into `grad_sampled` ([batch, channels,
// output_height, output_width]; or null), and adds its terms of the matrix sums.
template <class T, Interpolation mode, class Acc>
__device__ void backward_pixel(const AugmentBackwardParams& b, Acc* grad_sampled,
                               const BackwardBlock<Acc>& block, int64_t sample,
                               ThreadGroup<Acc>* group, ThreadValues<Acc>* numbers,
                               ThreadPixels<Acc>* pixels, ThreadSum<Acc>* sum) {
  const AugmentParams& p = b.forward;
  const Acc zero = static_cast<Acc>(0);
  BackwardPixel<T, mode> pixel(p, block, pixels);
  constexpr bool kMoves = mode != Interpolation::kNearest;
  const bool slopes = kMoves && b.grad_matrix != nullptr;
  const int channels = static_cast<int>(p.channels);
  volatile Acc& gx = pixels->gx[threadIdx.x];
  volatile Acc& gy = pixels->gy[threadIdx.x];
  volatile Acc& fills = pixels->fills[threadIdx.x];
  gx = zero;
  gy = zero;
  fills = zero;
  for (int first = 0; first < channels; first += kPixelGroup) {
    const int count = group_size(p, first);
    if (slopes || p.clamp) pixel.template take<kMoves>(first, count, group);
    if (p.clamp) pixel.blend(first, count, group, numbers);
    backward_colors(pixel, sample, first, count, numbers);
#pragma unroll 1
    for (int c = 0; c < count; ++c) {
      const Acc e = numbers->value[c], d = backward_blend(e, pixel.out());
      if (slopes) {
        fills = fills + e * (group->value[c] - pixel.fill(first + c));
        gx = gx + d * group->dx[c];
        gy = gy + d * group->dy[c];
      }
      if (grad_sampled != nullptr) {
        const int64_t plane = sample * p.channels + first + c;
        grad_sampled[(plane * p.output_height + pixel.y()) * p.output_width + pixel.x()] = d;
      }
    }
  }
  if (slopes) add_matrix_terms(pixel, gx, gy, fills, sum);
}

// Rows of a colour step's matrix go to two blocks where their sums are too many for one.
constexpr int kMostColorSums = 12;
VISOPS_FN int color_parts(const AugmentParams& p) {
  return color_elements(p) > kMostColorSums ? 2 : 1;
}

static_assert(kMaxMatrixElements <= 2 * kMostColorSums && kMaxColorChannels % 2 == 0, "two parts");

// Adds a pixel's terms of the sums of colour step `step`: [rows, channels + 1], of the matrix's
// rows from `first` on.
template <class T, Interpolation mode, class Acc>
__device__ void backward_pixel_color(const AugmentParams& p, const BackwardBlock<Acc>& block,
                                     int64_t sample, int step, int first, int rows,
                                     ThreadValues<Acc>* group, ThreadPixels<Acc>* pixels,
                                     ThreadSum<Acc>* sum) {
  BackwardPixel<T, mode> pixel(p, block, pixels);
  const int channels = static_cast<int>(p.channels);
  pixel.template take<false>(0, channels, group);
  pixel.blend(0, channels, group, group);
  const bool erased = is_erased(p, sample, pixel.x(), pixel.y());
  Acc value[kPixelGroup] = {}, e[kPixelGroup], input[kPixelGroup];
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= channels) break;
    value[c] = group->value[c];
    e[c] = erased ? static_cast<Acc>(0) : pixel.by_color(sample, c);
  }
  backward_color_to(p, block.plan, step, value, e, input);
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c < first) continue;
    if (c >= first + rows) break;
    const double by = static_cast<double>(e[c]);
    ThreadSum<Acc>* const row = sum + (c - first) * (channels + 1);
    for (int j = 0; j < kPixelGroup; ++j) {
      if (j >= channels) break;
      row[j][threadIdx.x] += by * static_cast<double>(input[j]);
    }
    row[channels][threadIdx.x] += by;
  }
}

// Where the sums of a row go.
__device__ inline double* row_sums_at(const AugmentBackwardParams& b, int64_t sample, int64_t y) {
  return b.row_sums + (sample * b.forward.output_height + y) * b.row_sum_count;
}

template <class T, Interpolation mode, class Acc = typename Accumulate<T>::type>
__global__ void __launch_bounds__(kBackwardThreads<Acc>, 4)
    augment_backward_rows(const __grid_constant__ AugmentBackwardParams b,
                          const PlacedSegment<Acc>* segments, Acc* grad_sampled,
                          const int64_t first_sample) {
  const AugmentParams& p = b.forward;
  __shared__ BackwardBlock<Acc> block;
  __shared__ ThreadPixels<Acc> pixels;
  __shared__ ThreadGroup<Acc> group;
  __shared__ ThreadValues<Acc> numbers;
  __shared__ ThreadSum<Acc> sum[kMatrixSums];
  const int sums = b.grad_matrix != nullptr ? kMatrixSums : 0;
  const Band band = band_at<kBackwardRows<Acc>>(first_sample);
  for_band_pixels<Acc>(p, band, segments, &block, &pixels, sums, sum, [&] {
    backward_pixel<T, mode>(b, grad_sampled, block, band.sample, &group, &numbers, &pixels, sum);
  });
  sum_rows<Acc>(sums, sum, [&](int row, int k, double total) {
    if (band.y + row < p.output_height) row_sums_at(b, band.sample, band.y + row)[k] = total;
  });
}

template <class T, Interpolation mode, class Acc = typename Accumulate<T>::type>
__global__ void __launch_bounds__(kBackwardThreads<Acc>, 4)
    augment_backward_rows_color(const __grid_constant__ AugmentBackwardParams b,
                                const PlacedSegment<Acc>* segments, const int64_t first_sample) {
  const AugmentParams& p = b.forward;
  __shared__ BackwardBlock<Acc> block;
  __shared__ ThreadPixels<Acc> pixels;
  __shared__ ThreadValues<Acc> values;
  __shared__ ThreadSum<Acc> sum[kMostColorSums];
  const int parts = color_parts(p), columns = static_cast<int>(p.channels) + 1;
  const int step = static_cast<int>(blockIdx.z) / parts,
            part = static_cast<int>(blockIdx.z) % parts;
  const int rows = static_cast<int>(p.channels) / parts, sums = rows * columns;
  const Band band = band_at<kBackwardRows<Acc>>(first_sample);
  for_band_pixels<Acc>(p, band, segments, &block, &pixels, sums, sum, [&] {
    backward_pixel_color<T, mode>(p, block, band.sample, step, part * rows, rows, &values, &pixels,
                                  sum);
  });
  sum_rows<Acc>(sums, sum, [&](int row, int k, double total) {
    if (band.y + row < p.output_height) {
      double* const of_row = row_sums_at(b, band.sample, band.y + row) + first_color_sum(b);
      of_row[step * color_elements(p) + part * sums + k] = total;
    }
  });
}

template <class T, Interpolation mode, class Acc = typename Accumulate<T>::type>
void backward_rows_as(const AugmentBackwardParams& b, const void* segments, void* grad_sampled,
                      void* stream) {
  each_band(b.forward.batch, bands_of<Acc>(b.forward), 1, [&](int64_t first, dim3 blocks) {
    launch(augment_backward_rows<T, mode>, blocks, dim3(kBackwardThreads<Acc>), 0, stream, b,
           static_cast<const PlacedSegment<Acc>*>(segments), static_cast<Acc*>(grad_sampled),
           first);
  });
}

template <class T, Interpolation mode, class Acc = typename Accumulate<T>::type>
void backward_rows_color_as(const AugmentBackwardParams& b, const void* segments, void* stream) {
  const AugmentParams& p = b.forward;
  each_band(p.batch, bands_of<Acc>(p), p.color_steps * color_parts(p),
            [&](int64_t first, dim3 blocks) {
              launch(augment_backward_rows_color<T, mode>, blocks, dim3(kBackwardThreads<Acc>), 0,
                     stream, b, static_cast<const PlacedSegment<Acc>*>(segments), first);
            });
}

}  // namespace

template <Slot slot, Interpolation mode>
void launch_augment_backward_rows(const AugmentBackwardParams& b, const void* segments,
                                  void* grad_sampled, void* stream) {
  with_element_type(b.forward.dtype, [&](auto* element) {
    backward_rows_as<std::remove_pointer_t<decltype(element)>, mode>(b, segments, grad_sampled,
                                                                     stream);
  });
}

template <Slot slot, Interpolation mode>
void launch_augment_backward_rows_color(const AugmentBackwardParams& b, const void* segments,
                                        void* stream) {
  with_element_type(b.forward.dtype, [&](auto* element) {
    backward_rows_color_as<std::remove_pointer_t<decltype(element)>, mode>(b, segments, stream);
  });
}

}  // namespace visops
