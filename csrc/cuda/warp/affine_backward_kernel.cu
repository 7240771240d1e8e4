// The gradients of the affine warp on CUDA.
//
// NOTE [ Affine backward on CUDA ]
// Both gradients are deterministic: no atomics, and every sum has one order, that of the CPU
// kernels.
//
// Image gradient. The warp's transpose scatters each output pixel's gradient to its taps. Scattered
// by many threads at once, the additions to a source pixel would come in any order; so this gathers
// instead: one thread per source pixel and group of four channels looks up the output pixels with a
// tap on it (NOTE [ Search of the image gradient ], with what it costs) and adds their shares in
// raster order, an output pixel's own taps row by row: exactly the order in which a single thread
// that scatters adds them. Blocks are 32 x 4 source pixels and stride over channel groups, tiles
// and samples.
//
// Matrix gradient. A block has one output row at a time and four groups of 64 columns at once. A
// thread has one pixel: the gradient by the source coordinates, summed over channels in order. Sums
// over pixels are in float64: the 64 lanes of a group are halved into one by a fixed tree,
// groups are added from left to right; then, in a second kernel, rows are summed by 64 lanes and
// the same tree, and the chain rule leads from the map to the matrix given. The split does not
// depend on the GPU or on the grid.
//
// Rounding: NOTE [ One pixel ], without contraction (-fmad=false), so the bits are the CPU's.
//
// Assumes from check_affine(): sizes below 2^31, floating types, an image gradient in float32
// (float64 for float64). Not that the matrix is finite or regular: such a sample has zero gradient.

#include "core/warp/affine_pixel.h"
#include "cuda/launch.h"
#include "cuda/warp/affine_reach.h"

namespace visops {
namespace {

constexpr int kGatherWidth = 32, kGatherHeight = 4;
constexpr int kGatherThreads = kGatherWidth * kGatherHeight;
constexpr int kGroup = 4;  // channels whose sums a thread keeps at once

// Blocks of work: channel group fastest, then tile column, tile row, sample.
struct GatherGrid {
  int64_t groups, columns, rows, count;
};

// The sums of one source pixel for `channels` channels from `grad` on.
template <Interpolation mode, class T, class Acc>
__device__ void gather(const AffineParams& p, const SampleMap& s, const T* grad, int channels,
                       int64_t source_x, int64_t source_y, Acc sum[kGroup]) {
  constexpr int kTaps = tap_count(mode);
  const CandidateSearch<mode> search(p, s, source_x, source_y);
  for (Span rows = search.rows(0); rows.begin < rows.end; rows = search.rows(rows.end)) {
    for (int64_t y = rows.begin; y < rows.end; ++y) {
      SegmentOrigin<Acc> origin;
      int64_t segment = -1;
      for (Span run = search.columns(y, 0); run.begin < run.end; run = search.columns(y, run.end)) {
        for (int64_t x = run.begin; x < run.end; ++x) {
          if (x / kSegment != segment) {
            segment = x / kSegment;
            origin = segment_origin<Acc>(s.map.m, segment * kSegment, y);
          }
          const PixelTaps<mode, Acc> taps =
              pixel_taps<mode>(p, s.map, origin, static_cast<int>(x % kSegment));
          bool on_row = false, on_column = false;
          for (int i = 0; i < kTaps; ++i) {
            on_row = on_row || taps.y.index[i] == source_y;
            on_column = on_column || taps.x.index[i] == source_x;
          }
          if (!on_row || !on_column) continue;
          const T* at = grad + y * p.output_stride.row + x * p.output_stride.column;
          for (int c = 0; c < kGroup; ++c) {
            if (c >= channels) break;
            const T element = load_readonly(at + c * p.output_stride.channel);
            const Acc g = load_element(&element);
            for (int i = 0; i < kTaps; ++i) {
              for (int j = 0; j < kTaps; ++j) {
                if (taps.y.index[i] == source_y && taps.x.index[j] == source_x) {
                  sum[c] += (taps.y.weight[i] * taps.x.weight[j]) * g;
                }
              }
            }
          }
        }
      }
    }
  }
}

template <class T, Interpolation mode>
__global__ void __launch_bounds__(kGatherThreads, sizeof(T) == 8 ? 3 : 4)
    affine_backward_image(const __grid_constant__ AffineBackwardImageParams b,
                          const GatherGrid grid) {
  using Acc = typename Accumulate<T>::type;
  const AffineParams& p = b.forward;
  __shared__ SampleMap s;
  for (int64_t i = blockIdx.x; i < grid.count; i += gridDim.x) {
    const int64_t tile = i / grid.groups, tile_row = tile / grid.columns;
    const int64_t sample = tile_row / grid.rows;
    if (threadIdx.x == 0) s = sample_map(p, sample);
    __syncthreads();

    const int64_t channel = (i - tile * grid.groups) * kGroup;
    const int64_t x = (tile - tile_row * grid.columns) * kGatherWidth + threadIdx.x % kGatherWidth;
    const int64_t y = (tile_row - sample * grid.rows) * kGatherHeight + threadIdx.x / kGatherWidth;
    if (x < p.width && y < p.height) {
      const int64_t left = p.channels - channel;
      const int channels = left < kGroup ? static_cast<int>(left) : kGroup;
      const T* grad = static_cast<const T*>(p.output) + sample * p.output_stride.batch +
                      channel * p.output_stride.channel;
      Acc sum[kGroup] = {};
      if (s.map.valid) {
        if (mode == Interpolation::kNearest || s.map.integral) {
          gather<Interpolation::kNearest>(p, s, grad, channels, x, y, sum);
        } else {
          gather<mode>(p, s, grad, channels, x, y, sum);
        }
      }
      const Strides& stride = b.grad_image_stride;
      Acc* out = static_cast<Acc*>(b.grad_image) + sample * stride.batch +
                 channel * stride.channel + y * stride.row + x * stride.column;
      for (int c = 0; c < kGroup; ++c) {
        if (c < channels) out[c * stride.channel] = sum[c];
      }
    }
    if (i + gridDim.x < grid.count) __syncthreads();  // before the next sample replaces this one
  }
}

template <class T, Interpolation mode>
void backward_image_as(const AffineBackwardImageParams& b, void* stream) {
  const AffineParams& p = b.forward;
  GatherGrid grid;
  grid.groups = (p.channels + kGroup - 1) / kGroup;
  grid.columns = (p.width + kGatherWidth - 1) / kGatherWidth;
  grid.rows = (p.height + kGatherHeight - 1) / kGatherHeight;
  grid.count = p.batch * grid.rows * grid.columns * grid.groups;
  launch(affine_backward_image<T, mode>, grid_for(grid.count), dim3(kGatherThreads), 0, stream, b,
         grid);
}

constexpr int kLanes = static_cast<int>(kTreeLeaves);
constexpr int kGroupsAtOnce = 4;
constexpr int kRowThreads = kLanes * kGroupsAtOnce;
constexpr int kRowSums = 4;  // of gx, gx x, gy, gy x
constexpr int kWarp = 32;

// This thread's pixel, by the source coordinates and summed over channels; zero outside.
template <class T, Interpolation mode, class Acc>
__device__ PixelGradient<Acc> coordinate_gradient(const AffineParams& p, const AffineMap& map,
                                                  int64_t sample, int64_t y, int64_t x) {
  PixelGradient<Acc> sum = {0, 0};
  if (!map.valid || x >= p.output_width) return sum;
  const int lane = static_cast<int>(x % kSegment);
  const SegmentOrigin<Acc> origin = segment_origin<Acc>(map.m, x - lane, y);
  const PixelTaps<mode, Acc> taps = pixel_taps<mode>(p, map, origin, lane);
  if (taps.outside()) return sum;
  const T* image = static_cast<const T*>(p.image) + sample * p.image_stride.batch;
  const T* grad = static_cast<const T*>(p.output) + sample * p.output_stride.batch +
                  y * p.output_stride.row + x * p.output_stride.column;
  for (int64_t c = 0; c < p.channels; ++c) {
    const T element = load_readonly(grad + c * p.output_stride.channel);
    const Acc g = load_element(&element);
    const Acc fill = static_cast<Acc>(affine_fill(p, c));
    const PixelGradient<Acc> d =
        differentiate_pixel(image + c * p.image_stride.channel, p.image_stride, taps, fill);
    sum.x = sum.x + g * d.x;
    sum.y = sum.y + g * d.y;
  }
  return sum;
}

template <class T, Interpolation mode>
__global__ void __launch_bounds__(kRowThreads, 2)
    affine_backward_matrix(const __grid_constant__ AffineBackwardMatrixParams b) {
  using Acc = typename Accumulate<T>::type;
  const AffineParams& p = b.forward;
  __shared__ AffineMap map;
  __shared__ double upper[kGroupsAtOnce][kRowSums][kWarp];
  __shared__ double group_sum[kGroupsAtOnce][kRowSums];
  const int thread = static_cast<int>(threadIdx.x);
  const int group = thread / kLanes, lane = thread % kLanes;
  const int64_t rows = p.batch * p.output_height;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t sample = row / p.output_height, y = row - sample * p.output_height;
    if (thread == 0) map = affine_map(p, sample);
    __syncthreads();
    double row_sum = 0.0;  // of the first threads: one of the four sums each
    for (int64_t x0 = 0; x0 < p.output_width; x0 += kRowThreads) {
      const int64_t x = x0 + thread;
      const PixelGradient<Acc> g = coordinate_gradient<T, mode, Acc>(p, map, sample, y, x);
      const double column = static_cast<double>(x);
      double v[kRowSums] = {static_cast<double>(g.x), static_cast<double>(g.x) * column,
                            static_cast<double>(g.y), static_cast<double>(g.y) * column};
      if (lane >= kWarp) {
        for (int k = 0; k < kRowSums; ++k) upper[group][k][lane - kWarp] = v[k];
      }
      __syncthreads();
      if (lane < kWarp) {
        for (int k = 0; k < kRowSums; ++k) {
          v[k] += upper[group][k][lane];
          for (int w = kWarp / 2; w >= 1; w /= 2) v[k] += __shfl_down_sync(0xffffffffu, v[k], w);
          if (lane == 0) group_sum[group][k] = v[k];
        }
      }
      __syncthreads();
      if (thread < kRowSums) {
        for (int i = 0; i < kGroupsAtOnce; ++i) {
          if (x0 + i * kLanes < p.output_width) row_sum += group_sum[i][thread];
        }
      }
    }
    if (thread < kRowSums) b.row_sums[row * kRowSums + thread] = row_sum;
    if (row + gridDim.x < rows) __syncthreads();  // before the next row replaces the map
  }
}

// Nearest does not move with the matrix.
__global__ void zero_row_sums(double* row_sums, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    row_sums[i] = 0.0;
  }
}

__global__ void __launch_bounds__(kLanes)
    affine_backward_matrix_finish(const __grid_constant__ AffineBackwardMatrixParams b) {
  const AffineParams& p = b.forward;
  __shared__ double sum[6][kLanes];
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t rows = p.batch * p.output_height / b.matrices;
  for (int64_t matrix = blockIdx.x; matrix < b.matrices; matrix += gridDim.x) {
    double v[6] = {};
    for (int64_t r = lane; r < rows; r += kLanes) {
      const double* row = b.row_sums + (matrix * rows + r) * kRowSums;
      const double at = static_cast<double>(r % p.output_height);
      v[0] += row[1];
      v[1] += row[0] * at;
      v[2] += row[0];
      v[3] += row[3];
      v[4] += row[2] * at;
      v[5] += row[2];
    }
    for (int k = 0; k < 6; ++k) sum[k][lane] = v[k];
    for (int w = kLanes / 2; w >= 1; w /= 2) {
      __syncthreads();
      if (lane < w) {
        for (int k = 0; k < 6; ++k) sum[k][lane] += sum[k][lane + w];
      }
    }
    if (lane == 0) {
      double grad_map[6], grad_matrix[6] = {};
      for (int k = 0; k < 6; ++k) grad_map[k] = sum[k][0];
      if (affine_map(p, matrix).valid) affine_map_backward(p, matrix, grad_map, grad_matrix);
      for (int k = 0; k < 6; ++k) b.grad_matrix[matrix * 6 + k] = grad_matrix[k];
    }
    if (matrix + gridDim.x < b.matrices) __syncthreads();
  }
}

template <class T, Interpolation mode>
void backward_matrix_as(const AffineBackwardMatrixParams& b, void* stream) {
  const int64_t rows = b.forward.batch * b.forward.output_height;
  launch(affine_backward_matrix<T, mode>, grid_for(rows), dim3(kRowThreads), 0, stream, b);
}

template <Interpolation mode>
void backward_image_mode(const AffineBackwardImageParams& b, void* stream) {
  switch (b.forward.dtype) {
    case DType::kFloat16: return backward_image_as<Half, mode>(b, stream);
    case DType::kBFloat16: return backward_image_as<BFloat16, mode>(b, stream);
    case DType::kFloat32: return backward_image_as<float, mode>(b, stream);
    case DType::kFloat64: return backward_image_as<double, mode>(b, stream);
    default: throw std::logic_error("visops.affine_backward_image: no kernel for this dtype");
  }
}

template <Interpolation mode>
void backward_matrix_mode(const AffineBackwardMatrixParams& b, void* stream) {
  switch (b.forward.dtype) {
    case DType::kFloat16: return backward_matrix_as<Half, mode>(b, stream);
    case DType::kBFloat16: return backward_matrix_as<BFloat16, mode>(b, stream);
    case DType::kFloat32: return backward_matrix_as<float, mode>(b, stream);
    case DType::kFloat64: return backward_matrix_as<double, mode>(b, stream);
    default: throw std::logic_error("visops.affine_backward_matrix: no kernel for this dtype");
  }
}

void backward_image_cuda(const AffineBackwardImageParams& b, void* stream) {
  switch (b.forward.mode) {
    case Interpolation::kNearest: return backward_image_mode<Interpolation::kNearest>(b, stream);
    case Interpolation::kBilinear: return backward_image_mode<Interpolation::kBilinear>(b, stream);
    case Interpolation::kBicubic: return backward_image_mode<Interpolation::kBicubic>(b, stream);
  }
}

void backward_matrix_cuda(const AffineBackwardMatrixParams& b, void* stream) {
  switch (b.forward.mode) {
    case Interpolation::kNearest: {
      const int64_t count = b.forward.batch * b.forward.output_height * kRowSums;
      return launch(zero_row_sums, grid_for((count + 255) / 256), dim3(256), 0, stream, b.row_sums,
                    count);
    }
    case Interpolation::kBilinear: return backward_matrix_mode<Interpolation::kBilinear>(b, stream);
    case Interpolation::kBicubic: return backward_matrix_mode<Interpolation::kBicubic>(b, stream);
  }
}

void backward_matrix_finish_cuda(const AffineBackwardMatrixParams& b, void* stream) {
  launch(affine_backward_matrix_finish, grid_for(b.matrices), dim3(kLanes), 0, stream, b);
}

const bool registered =
    affine_backward_image_stub.set(kCudaSlot, backward_image_cuda) &&
    affine_backward_matrix_stub.set(kCudaSlot, backward_matrix_cuda) &&
    affine_backward_matrix_finish_stub.set(kCudaSlot, backward_matrix_finish_cuda);

}  // namespace
}  // namespace visops
