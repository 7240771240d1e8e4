// NOTE [ Affine matrix gradient on CUDA ]
// Deterministic: no atomics, and every sum has one order, that of the CPU kernel. A block has eight
// output rows of a sample, a warp each, and takes 64 columns of a row at once. A thread has two
// pixels of them, 32 columns apart: the gradient with respect to their source coordinates, summed
// over channels in order. Sums over pixels are in float64: a fixed tree halves the 64 columns of a
// group to one, and groups are added from left to right. A second kernel sums rows by 64 lanes and
// the same tree, and the chain rule leads from the map to the given matrix. The split depends
// neither on the GPU nor on the grid.
//
// What pixels share is computed once a block, in float64: the map, and the origin of each segment.
//
// Rounding: NOTE [ One pixel ], without contraction (-fmad=false), so the bits are the CPU's.
//
// Assumes from check_affine(): sizes below 2^31, floating types. It does not assume a finite or
// regular matrix: with another, a sample's gradient is zero.

#include "core/dispatch/workspace.h"
#include "core/warp/affine.h"
#include "cuda/launch.h"
#include "cuda/pixel_gradient.h"
#include "cuda/tile_grid.h"
#include "cuda/warp/bands.h"

namespace visops {
namespace {

constexpr int kLeaves = static_cast<int>(kTreeLeaves);
constexpr int kRows = 8;  // of a block
constexpr int kRowThreads = kRows * kWarp;
constexpr int kRowSums = 4;  // of gx, gx x, gy, gy x
constexpr int kZeroThreads = 256;
// Segments of a row, whose origins a block has at once.
#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kSegments = 1;  // so that tests see rows of several times as many
#else
constexpr int kSegments = 16;
#endif
static_assert(kLeaves == 2 * kWarp, "a thread has two pixels");

// The gradient of a pixel with respect to its source coordinates, summed over channels; zero
// outside. `lane` is its place in the segment of `origin`.
template <class T, Interpolation mode, class Acc>
__device__ PixelGradient<Acc> coordinate_gradient(const AffineParams& p, const AffineMap& map,
                                                  const SegmentOrigin<Acc>& origin, int lane,
                                                  const T* image, const T* grad,
                                                  ColumnTaps<mode, Acc, kRowThreads>* columns) {
  const PixelTaps<mode, Acc> taps = pixel_taps<mode>(p, map, origin, lane);
  if (taps.outside()) return {0, 0};
  const auto grad_of = [&](int64_t c) {
    const T element = load_readonly(grad + c * p.output_stride.channel);
    return static_cast<Acc>(load_element(&element));
  };
  const auto fill_of = [&](int64_t c) { return static_cast<Acc>(affine_fill(p, c)); };
  return sum_gradients(p.channels, image, p.image_stride, taps, grad_of, fill_of, columns);
}

template <class T, Interpolation mode>
__global__ void __launch_bounds__(kRowThreads, sizeof(typename Accumulate<T>::type) == 8 ? 3 : 4)
    affine_backward_matrix(const __grid_constant__ AffineBackwardMatrixParams b,
                           int64_t first_sample) {
  using Acc = typename Accumulate<T>::type;
  const AffineParams& p = b.forward;
  __shared__ AffineMap map;
  __shared__ SegmentOrigin<Acc> origins[kSegments][kRows];
  __shared__ double row_sum[kRows][kRowSums];
  __shared__ ColumnTaps<mode, Acc, kRowThreads> columns;
  const int thread = static_cast<int>(threadIdx.x), row = thread / kWarp, lane = thread % kWarp;
  const Band band = band_at<kRows>(first_sample);
  if (thread == 0) map = affine_map(p, band.sample);
  if (lane == 0) {
    for (int k = 0; k < kRowSums; ++k) row_sum[row][k] = 0.0;
  }
  __syncthreads();
  const int32_t y = band.y + row;
  const T* const image = static_cast<const T*>(p.image) + band.sample * p.image_stride.batch;
  const T* const grad = static_cast<const T*>(p.output) + band.sample * p.output_stride.batch +
                        y * p.output_stride.row;
  constexpr int64_t kColumns = kSegments * kSegment;
  for (int64_t x0 = 0; x0 < p.output_width && map.valid; x0 += kColumns) {
    if (x0 > 0) __syncthreads();  // before the next origins replace these
    const int64_t rest = p.output_width - x0;
    const int left = static_cast<int>(rest < kColumns ? rest : kColumns);
    for (int i = thread; i / kRows * kSegment < left; i += kRowThreads) {
      origins[i / kRows][i % kRows] =
          segment_origin<Acc>(map.m, x0 + i / kRows * kSegment, band.y + i % kRows);
    }
    __syncthreads();
    if (y >= p.output_height) continue;
#pragma unroll 1
    for (int group = 0; group < left; group += kLeaves) {
      const SegmentOrigin<Acc>& origin = origins[group / kSegment][row];
      PixelGradient<Acc> first = {0, 0}, second = {0, 0};
#pragma unroll 1
      for (int x = group + lane, i = 0; i < 2; x += kWarp, ++i) {
        first = second;
        second = {0, 0};
        if (x < left) {
          second =
              coordinate_gradient<T, mode>(p, map, origin, static_cast<int>(x % kSegment), image,
                                           grad + (x0 + x) * p.output_stride.column, &columns);
        }
      }
      const double column = static_cast<double>(x0 + group + lane);
      for (int k = 0; k < kRowSums; ++k) {
        double low = static_cast<double>(k < 2 ? first.x : first.y);
        double high = static_cast<double>(k < 2 ? second.x : second.y);
        if (k % 2 == 1) {
          low *= column;
          high *= column + kWarp;
        }
        double v = low + high;
        for (int w = kWarp / 2; w >= 1; w /= 2) v += __shfl_down_sync(0xffffffffu, v, w);
        if (lane == 0) row_sum[row][k] += v;
      }
    }
  }
  if (lane == 0 && y < p.output_height) {
    double* const to = b.row_sums + (band.sample * p.output_height + y) * kRowSums;
    for (int k = 0; k < kRowSums; ++k) to[k] = row_sum[row][k];
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
  const AffineParams& p = b.forward;
  each_band(p.batch, parts_of(p.output_height, kRows), 1, [&](int64_t first, dim3 blocks) {
    launch(affine_backward_matrix<T, mode>, blocks, dim3(kRowThreads), 0, stream, b, first);
  });
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

void sum_rows(const AffineBackwardMatrixParams& b, void* stream) {
  switch (b.forward.mode) {
    case Interpolation::kNearest: {
      const int64_t count = b.forward.batch * b.forward.output_height * kRowSums;
      return launch(zero_row_sums, grid_for((count + kZeroThreads - 1) / kZeroThreads),
                    dim3(kZeroThreads), 0, stream, b.row_sums, count);
    }
    case Interpolation::kBilinear: return backward_matrix_mode<Interpolation::kBilinear>(b, stream);
    default: return backward_matrix_mode<Interpolation::kBicubic>(b, stream);
  }
}

void backward_matrix_cuda(const AffineBackwardMatrixParams& given, Workspace& workspace) {
  AffineBackwardMatrixParams b = given;
  const int64_t rows = b.forward.batch * b.forward.output_height;
  b.row_sums = allocate<double>(workspace, rows * kRowSums);
  sum_rows(b, workspace.stream());
  launch(affine_backward_matrix_finish, grid_for(b.matrices), dim3(kLeaves), 0, workspace.stream(),
         b);
}

const bool registered = affine_backward_matrix_stub.set(kCudaSlot, backward_matrix_cuda);

}  // namespace
}  // namespace visops
