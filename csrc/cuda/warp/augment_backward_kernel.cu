// The gradients of the one-pass augmentation on CUDA.
//
// NOTE [ Augment backward on CUDA ]
// All gradients are deterministic: no atomics, and every sum has one order, that of the CPU kernel
// (NOTE [ Gradient of the augmentation ]).
//
// Pull. A block has four output rows, with 64 threads per row. A thread takes every 64th pixel: it
// samples again, pulls the incoming gradient back to the samples, writes that to `grad_sampled`
// (scratch), and adds its share of the matrix gradient in float64. At the end a fixed tree halves
// the row's 64 lanes to one, a thread per sum.
//
// Colour gradient. The same walk again for each colour step, so that the sums of a step's matrix
// stay in registers.
//
// Image gradient. If many threads scattered at once, the additions to a source pixel could come in
// any order; so this gathers: one thread per source pixel and group of four channels looks up the
// output pixels with a tap on it (NOTE [ Search of the augmentation's image gradient ]) and adds
// their shares in raster order, an output pixel's own taps row by row.
//
// Finish. A block per sample adds up the rows, and the chain rule leads to the given matrix.
//
// Rounding: without contraction (-fmad=false), so the bits are the CPU's.
//
// Assumes from check_augment(): sizes below 2^31, a floating incoming gradient, an image gradient
// in float32 (float64 for float64). It does not assume sensible matrices, windows or colours: a
// sample that is all fill has no gradient except that of colour.

#include "core/warp/augment_gradient.h"
#include "core/workspace.h"
#include "cuda/launch.h"
#include "cuda/warp/augment_pull.h"
#include "cuda/warp/augment_reach.h"

namespace visops {
namespace {

// Where the sums of a row go.
__device__ inline double* row_sums_at(const AugmentBackwardParams& b, int64_t sample, int64_t y) {
  return b.row_sums + (sample * b.forward.output_height + y) * b.row_sum_count;
}

template <class T, Interpolation mode, class Acc = typename Accumulate<T>::type>
__global__ void __launch_bounds__(kPullThreads, 2)
    augment_pull(const __grid_constant__ AugmentBackwardParams b, Acc* grad_sampled) {
  const AugmentParams& p = b.forward;
  __shared__ PullBlock<Acc> block;
  __shared__ HalfRow half[kPullRows][kMatrixSums];
  const PullThread thread;
  const int64_t bands = pull_bands(p), count = p.batch * bands;
  for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const int64_t sample = i / bands, y0 = (i - sample * bands) * kPullRows;
    const int64_t y = y0 + thread.row;
    prepare_pull(p, sample, &block);
    double sum[kMatrixSums] = {};
    for (int64_t chunk = 0; chunk < p.output_width; chunk += kPullColumns) {
      prepare_segments(p, y0, chunk, &block);
      if (y < p.output_height) {
        for (int64_t x = chunk + thread.lane; x < p.output_width && x < chunk + kPullColumns;
             x += kTreeLeaves) {
          pull_pixel<T, mode>(b, grad_sampled, block, thread.row, sample, y, x, sum);
        }
      }
      __syncthreads();  // before the next chunk's segments, or the next sample, replace these
    }
    if (b.grad_matrix == nullptr) continue;
    const double total = sum_row(sum, thread, half[thread.row]);
    if (thread.lane < kMatrixSums && y < p.output_height) {
      row_sums_at(b, sample, y)[thread.lane] = total;
    }
  }
}

template <class T, Interpolation mode>
__global__ void __launch_bounds__(kPullThreads, 2)
    augment_pull_color(const __grid_constant__ AugmentBackwardParams b) {
  using Acc = typename Accumulate<T>::type;
  const AugmentParams& p = b.forward;
  __shared__ PullBlock<Acc> block;
  __shared__ HalfRow half[kPullRows][kMaxMatrixElements];
  const PullThread thread;
  const int64_t bands = pull_bands(p), count = p.batch * bands * p.color_steps;
  for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const int64_t step = i % p.color_steps, band = i / p.color_steps;
    const int64_t sample = band / bands, y0 = (band - sample * bands) * kPullRows;
    const int64_t y = y0 + thread.row;
    prepare_pull(p, sample, &block);
    double sum[kMaxMatrixElements] = {};
    for (int64_t chunk = 0; chunk < p.output_width; chunk += kPullColumns) {
      prepare_segments(p, y0, chunk, &block);
      if (y < p.output_height) {
        for (int64_t x = chunk + thread.lane; x < p.output_width && x < chunk + kPullColumns;
             x += kTreeLeaves) {
          pull_pixel_color<T, mode>(p, block, thread.row, sample, y, x, step, sum);
        }
      }
      __syncthreads();  // before the next chunk's segments, or the next sample, replace these
    }
    const double total = sum_row(sum, thread, half[thread.row]);
    constexpr int kColumns = kMaxColorChannels + 1;
    const int c = thread.lane / kColumns, j = thread.lane % kColumns;
    const int channels = static_cast<int>(p.channels);
    if (c < channels && (j < channels || j == kMaxColorChannels) && y < p.output_height) {
      const int column = j < channels ? j : channels;
      row_sums_at(b, sample,
                  y)[first_color_sum(b) + step * color_elements(p) + c * (channels + 1) + column] =
          total;
    }
  }
}

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

constexpr int kFinishThreads = static_cast<int>(kTreeLeaves);
constexpr int kFinishSums = 16;  // halved at once
using FinishRow = double[kFinishThreads + 1];

// Halves 64 lanes of sums to one; thread k gets sum k. Called by all threads of the block.
template <int Count>
__device__ inline double sum_threads(const double (&sum)[Count], FinishRow* lanes) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int k = 0; k < Count; ++k) lanes[k][thread] = sum[k];
  __syncthreads();
  if (thread < Count) {
    for (int w = kFinishThreads / 2; w >= 1; w /= 2) {
      for (int i = 0; i < w; ++i) lanes[thread][i] += lanes[thread][i + w];
    }
  }
  const double total = thread < Count ? lanes[thread][0] : 0.0;
  __syncthreads();
  return total;
}

__global__ void __launch_bounds__(kFinishThreads)
    augment_backward_finish(const __grid_constant__ AugmentBackwardParams b) {
  const AugmentParams& p = b.forward;
  __shared__ FinishRow lanes[kFinishSums];
  __shared__ double grad_map[9];
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t sample = blockIdx.x; sample < p.batch; sample += gridDim.x) {
    const double* rows = b.row_sums + sample * p.output_height * b.row_sum_count;
    if (b.grad_matrix != nullptr) {
      double sum[9] = {};
      for (int64_t y = thread; y < p.output_height; y += kFinishThreads) {
        add_row_sums(rows + y * b.row_sum_count, static_cast<double>(y), sum);
      }
      const double total = sum_threads(sum, lanes);
      if (thread < 9) grad_map[thread] = total;
      __syncthreads();
      if (thread == 0) {
        double grad_matrix[9] = {};
        if (augment_map(p, sample).valid) augment_map_backward(p, sample, grad_map, grad_matrix);
        for (int k = 0; k < 9; ++k) b.grad_matrix[sample * 9 + k] = grad_matrix[k];
      }
    }
    const int64_t count = b.grad_color != nullptr ? p.color_steps * color_elements(p) : 0;
    for (int64_t first = 0; first < count; first += kFinishSums) {
      double sum[kFinishSums] = {};
      for (int64_t y = thread; y < p.output_height; y += kFinishThreads) {
        const double* row = rows + y * b.row_sum_count + first_color_sum(b) + first;
        for (int k = 0; k < kFinishSums; ++k) {
          if (first + k < count) sum[k] += row[k];
        }
      }
      const double total = sum_threads(sum, lanes);
      const int64_t at = first + thread;
      if (thread < kFinishSums && at < count) {
        b.grad_color[sample * count + at] = total * color_sum_scale(p, at);
      }
    }
  }
}

template <class T, Interpolation mode, class Acc>
void pull_as(const AugmentBackwardParams& b, Acc* grad_sampled, void* stream) {
  const AugmentParams& p = b.forward;
  const int64_t bands = p.batch * pull_bands(p);
  if (b.grad_matrix != nullptr || grad_sampled != nullptr) {
    launch(augment_pull<T, mode>, grid_for(bands), dim3(kPullThreads), 0, stream, b, grad_sampled);
  }
  if (b.grad_color != nullptr) {
    launch(augment_pull_color<T, mode>, grid_for(bands * p.color_steps), dim3(kPullThreads), 0,
           stream, b);
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

template <class T, Interpolation mode, class Acc = typename Accumulate<T>::type>
void backward_as(const AugmentBackwardParams& b, Workspace& workspace) {
  const AugmentParams& p = b.forward;
  Acc* grad_sampled = nullptr;
  if (b.grad_image != nullptr) {
    grad_sampled =
        allocate<Acc>(workspace, p.batch * p.channels * p.output_height * p.output_width);
  }
  pull_as<T, mode>(b, grad_sampled, workspace.stream());
  if (b.grad_image != nullptr) gather_as<mode>(b, grad_sampled, workspace.stream());
}

template <Interpolation mode>
void backward_mode(const AugmentBackwardParams& b, Workspace& workspace) {
  switch (b.forward.dtype) {
    case DType::kUInt8: return backward_as<uint8_t, mode>(b, workspace);
    case DType::kFloat16: return backward_as<Half, mode>(b, workspace);
    case DType::kBFloat16: return backward_as<BFloat16, mode>(b, workspace);
    case DType::kFloat32: return backward_as<float, mode>(b, workspace);
    case DType::kFloat64: return backward_as<double, mode>(b, workspace);
    default: throw std::logic_error("visops.augment_backward: no kernel for this dtype");
  }
}

void backward_cuda(const AugmentBackwardParams& b, Workspace& workspace) {
  switch (b.forward.mode) {
    case Interpolation::kNearest: return backward_mode<Interpolation::kNearest>(b, workspace);
    case Interpolation::kBilinear: return backward_mode<Interpolation::kBilinear>(b, workspace);
    case Interpolation::kBicubic: return backward_mode<Interpolation::kBicubic>(b, workspace);
  }
}

void backward_finish_cuda(const AugmentBackwardParams& b, void* stream) {
  launch(augment_backward_finish, grid_for(b.forward.batch), dim3(kFinishThreads), 0, stream, b);
}

const bool registered = augment_backward_stub.set(kCudaSlot, backward_cuda) &&
                        augment_backward_finish_stub.set(kCudaSlot, backward_finish_cuda);

}  // namespace
}  // namespace visops
