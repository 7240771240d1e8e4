// The gradients of the one-pass augmentation on CUDA.
//
// NOTE [ Augment backward on CUDA ]
// All gradients are deterministic: no atomics, and every sum has one order, that of the CPU kernel
// (NOTE [ Gradient of the augmentation ]).
//
// Places. Two small kernels compute each sample's map and each segment's place, once for the
// others: float64 work, whose registers pixels can't spare.
//
// Rows. A block has four output rows (two in float64), with 64 threads per row. A thread takes
// every 64th pixel: it samples again, pulls the incoming gradient back to the samples, writes that
// to `grad_sampled` (scratch), and adds its share of the matrix gradient in float64. At the end a
// fixed tree halves the row's 64 lanes to one, eight threads per sum.
//
// Sampling and colour together want twice the registers that leave half of a multiprocessor's
// threads. So they are stages, which hand over in shared memory what belongs to a pixel: its place,
// its samples and their derivatives, and the sums.
//
// Colour gradient. The same walk again for each colour step. A matrix of more than 12 sums, as many
// as fit, takes two blocks.
//
// Image gradient. NOTE [ Image gradient by tiles ] (cuda/warp/gather.h), from `grad_sampled`.
// Output pixels that are all fill are left out: they have none.
//
// Finish. A block per sample adds up the rows, and the chain rule leads to the given matrix.
//
// Rounding: without contraction (-fmad=false), so the bits are the CPU's.
//
// Assumes from check_augment(): sizes below 2^31, a floating incoming gradient, an image gradient
// in float32 (float64 for float64). It does not assume sensible matrices, windows or colours: a
// sample that is all fill has no gradient except that of colour.
#include "core/dispatch/workspace.h"
#include "core/warp/augment_gradient.h"
#include "cuda/launch.h"
#include "cuda/warp/augment_gather_launch.h"
#include "cuda/warp/augment_positions.h"

namespace visops {
namespace {

constexpr int kPositionThreads = 128;

// A thread a segment.
template <class Acc>
__global__ void __launch_bounds__(kPositionThreads)
    augment_positions(const __grid_constant__ AugmentParams p, PlacedSegment<Acc>* segments) {
  const int64_t of_row = segments_of(p), count = p.batch * p.output_height * of_row;
  const int64_t stride = int64_t{gridDim.x} * kPositionThreads;
  for (int64_t i = int64_t{blockIdx.x} * kPositionThreads + threadIdx.x; i < count; i += stride) {
    const int64_t row = i / of_row, sample = row / p.output_height;
    const AugmentSample& s = p.samples[sample];
    const AugmentSegment<Acc> segment =
        augment_segment<Acc>(s.map, (i - row * of_row) * kSegment, row - sample * p.output_height);
    segments[i] = {segment, segment_axes(slope_sample(p, s), segment)};
  }
}

template <class Acc>
void* position_segments(const AugmentParams& p, Workspace& workspace) {
  const int64_t count = p.batch * p.output_height * segments_of(p);
  auto* segments = allocate<PlacedSegment<Acc>>(workspace, count);
  launch(augment_positions<Acc>, grid_for(parts_of(count, kPositionThreads)),
         dim3(kPositionThreads), 0, workspace.stream(), p, segments);
  return segments;
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
        const int elements = 3 * p.matrix_rows;
        for (int k = 0; k < 9; ++k) {  // unrolled, so that registers hold the array
          if (k < elements) b.grad_matrix[sample * elements + k] = grad_matrix[k];
        }
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

void backward_cuda(const AugmentBackwardParams& given, Workspace& workspace) {
  AugmentBackwardParams b = given;
  AugmentParams& p = b.forward;
  void* const stream = workspace.stream();
  const bool wide = p.dtype == DType::kFloat64;
  p.samples = allocate<AugmentSample>(workspace, p.batch);
  b.row_sums = allocate<double>(workspace, p.batch * p.output_height * b.row_sum_count);
  launch_augment_samples<kCudaSlot>(p, stream);
  void* const segments =
      wide ? position_segments<double>(p, workspace) : position_segments<float>(p, workspace);
  void* grad_sampled = nullptr;
  if (b.grad_image != nullptr) {
    const int64_t size = wide ? sizeof(double) : sizeof(float);
    const int64_t elements = p.batch * p.channels * p.output_height * p.output_width;
    grad_sampled = workspace.allocate(elements * size);
  }
  with_augment_mode(p.mode, [&](auto mode) {
    if (b.grad_matrix != nullptr || b.grad_image != nullptr) {
      launch_augment_backward_rows<kCudaSlot, mode.value>(b, segments, grad_sampled, stream);
    }
    if (b.grad_color != nullptr) {
      launch_augment_backward_rows_color<kCudaSlot, mode.value>(b, segments, stream);
    }
    if (b.grad_image != nullptr) {
      launch_augment_gather<kCudaSlot, mode.value>(b, segments, grad_sampled, workspace);
    }
  });
  if (b.row_sum_count > 0) {
    launch(augment_backward_finish, grid_for(p.batch), dim3(kFinishThreads), 0, stream, b);
  }
}

const bool registered = augment_backward_stub.set(kCudaSlot, backward_cuda);

}  // namespace
}  // namespace visops
