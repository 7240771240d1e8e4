// The kernels that pull gradients back to the samples; NOTE [ Augment backward on CUDA ].
#pragma once

#include "core/element_types.h"
#include "cuda/launch.h"
#include "cuda/warp/augment_backward_rows_pixel.h"
#include "cuda/warp/augment_modes.h"

namespace visops {
namespace {

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
