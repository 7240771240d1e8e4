// NOTE [ Affine matrix gradient on CUDA ]
// Deterministic: no atomics, and every sum has one order, that of the CPU kernel. A block takes one
// output row at a time, and four groups of 64 columns at once. A thread has one pixel: the gradient
// with respect to its source coordinates, summed over channels in order. Sums over pixels are in
// float64: a fixed tree halves the 64 lanes of a group to one, and groups are added from left to
// right. A second kernel sums rows by 64 lanes and the same tree, and the chain rule leads from the
// map to the given matrix. The split depends neither on the GPU nor on the grid.
//
// Rounding: NOTE [ One pixel ], without contraction (-fmad=false), so the bits are the CPU's.
//
// Assumes from check_affine(): sizes below 2^31, floating types. It does not assume a finite or
// regular matrix: with another, a sample's gradient is zero.

#include "core/warp/affine_pixel.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kLeaves = static_cast<int>(kTreeLeaves);
constexpr int kGroupsAtOnce = 4;
constexpr int kRowThreads = kLeaves * kGroupsAtOnce;
constexpr int kRowSums = 4;  // of gx, gx x, gy, gy x
constexpr int kWarp = 32;
constexpr int kZeroThreads = 256;

// The gradient of this thread's pixel with respect to its source coordinates, summed over channels;
// zero outside.
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
  const int group = thread / kLeaves, lane = thread % kLeaves;
  const int64_t rows = p.batch * p.output_height;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t sample = row / p.output_height, y = row - sample * p.output_height;
    if (thread == 0) map = affine_map(p, sample);
    __syncthreads();
    double row_sum = 0.0;  // of the first four threads, one sum each
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
          if (x0 + i * kLeaves < p.output_width) row_sum += group_sum[i][thread];
        }
      }
    }
    // All have met since they read the map, which the next row replaces.
    if (thread < kRowSums) b.row_sums[row * kRowSums + thread] = row_sum;
  }
}

// Nearest: the output does not move with the matrix.
__global__ void __launch_bounds__(kZeroThreads) zero_row_sums(double* row_sums, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * kZeroThreads;
  for (int64_t i = int64_t{blockIdx.x} * kZeroThreads + threadIdx.x; i < count; i += step) {
    row_sums[i] = 0.0;
  }
}

__global__ void __launch_bounds__(kLeaves)
    affine_backward_matrix_finish(const __grid_constant__ AffineBackwardMatrixParams b) {
  const AffineParams& p = b.forward;
  __shared__ double sum[6][kLeaves];
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t rows = p.batch * p.output_height / b.matrices;
  for (int64_t matrix = blockIdx.x; matrix < b.matrices; matrix += gridDim.x) {
    double v[6] = {};
    for (int64_t r = lane; r < rows; r += kLeaves) {
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
    for (int w = kLeaves / 2; w >= 1; w /= 2) {
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
void backward_matrix_mode(const AffineBackwardMatrixParams& b, void* stream) {
  switch (b.forward.dtype) {
    case DType::kFloat16: return backward_matrix_as<Half, mode>(b, stream);
    case DType::kBFloat16: return backward_matrix_as<BFloat16, mode>(b, stream);
    case DType::kFloat32: return backward_matrix_as<float, mode>(b, stream);
    case DType::kFloat64: return backward_matrix_as<double, mode>(b, stream);
    default: throw std::logic_error("visops.affine_backward_matrix: no kernel for this dtype");
  }
}

void backward_matrix_cuda(const AffineBackwardMatrixParams& b, void* stream) {
  switch (b.forward.mode) {
    case Interpolation::kNearest: {
      const int64_t count = b.forward.batch * b.forward.output_height * kRowSums;
      return launch(zero_row_sums, grid_for((count + kZeroThreads - 1) / kZeroThreads),
                    dim3(kZeroThreads), 0, stream, b.row_sums, count);
    }
    case Interpolation::kBilinear: return backward_matrix_mode<Interpolation::kBilinear>(b, stream);
    case Interpolation::kBicubic: return backward_matrix_mode<Interpolation::kBicubic>(b, stream);
  }
}

void backward_matrix_finish_cuda(const AffineBackwardMatrixParams& b, void* stream) {
  launch(affine_backward_matrix_finish, grid_for(b.matrices), dim3(kLeaves), 0, stream, b);
}

const bool registered =
    affine_backward_matrix_stub.set(kCudaSlot, backward_matrix_cuda) &&
    affine_backward_matrix_finish_stub.set(kCudaSlot, backward_matrix_finish_cuda);

}  // namespace
}  // namespace visops
