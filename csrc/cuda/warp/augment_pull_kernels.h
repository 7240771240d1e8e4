// The kernels that pull gradients back to the samples; NOTE [ Augment backward on CUDA ].
#pragma once

#include "core/element_types.h"
#include "cuda/launch.h"
#include "cuda/warp/augment_modes.h"
#include "cuda/warp/augment_pull.h"

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

template <class T, Interpolation mode>
void pull_as(const AugmentBackwardParams& b, void* scratch, void* stream) {
  auto* grad_sampled = static_cast<typename Accumulate<T>::type*>(scratch);
  const int64_t bands = b.forward.batch * pull_bands(b.forward);
  launch(augment_pull<T, mode>, grid_for(bands), dim3(kPullThreads), 0, stream, b, grad_sampled);
}

template <class T, Interpolation mode>
void pull_color_as(const AugmentBackwardParams& b, void* stream) {
  const AugmentParams& p = b.forward;
  const int64_t bands = p.batch * pull_bands(p) * p.color_steps;
  launch(augment_pull_color<T, mode>, grid_for(bands), dim3(kPullThreads), 0, stream, b);
}

}  // namespace

template <Slot slot, Interpolation mode>
void launch_augment_pull(const AugmentBackwardParams& b, void* grad_sampled, void* stream) {
  with_element_type(b.forward.dtype, [&](auto* element) {
    pull_as<std::remove_pointer_t<decltype(element)>, mode>(b, grad_sampled, stream);
  });
}

template <Slot slot, Interpolation mode>
void launch_augment_pull_color(const AugmentBackwardParams& b, void* stream) {
  with_element_type(b.forward.dtype, [&](auto* element) {
    pull_color_as<std::remove_pointer_t<decltype(element)>, mode>(b, stream);
  });
}

}  // namespace visops
