// Deformable convolution: what a valid problem is, and what the fronts and kernels share.
//
// NOTE [ Samples of a deformable convolution ]
// Tap k = (i, j) of the kernel reads, for output pixel (row, column), the input at
//
//     y = (row stride - padding + i dilation) + offset_y,   x likewise
//
// where pixel centres are integers. The integer part is exact, then becomes float32 (float64 for
// float64), and the offset is added. A sample counts if -1 < y < height and -1 < x < width; all
// others, and those at places that are not finite, are 0. With a = mask (1 without one), f = the
// fraction of x or y:
//
//     w00 = (a (1 - fy)) (1 - fx),  w01 = (a (1 - fy)) fx,  w10 = (a fy) (1 - fx),  w11 = (a fy) fx
//     sample = (w00 v00 + w01 v01) + (w10 v10 + w11 v11),   w = v = 0 for pixels outside
//
// Samples make a row of numbers for each output pixel: by tap, then by the group's channel (a
// column of im2col). The result is the product of these rows and the weights, plus the bias. On the
// CPU no kernel holds more of the rows than it multiplies at a time. On CUDA a kernel writes a part
// of them, of kRowBytes at most where a block of pixels does not need more, and torch multiplies
// it.
//
// NOTE [ Gradients of a deformable convolution ]
// The product of the result's gradient and the weights is that of the rows, in the type of sums. On
// CUDA torch multiplies, a part of the rows at a time; kernels then use the part for whichever
// gradients are wanted. From it come
//
// input: a pixel's gradient is the sum of w times the row's gradient, over the samples that read
// it, in this order: blocks of kBlockPixels output pixels (row by row), then taps, then pixels.
// offset and mask: s = the sum over an offset group's channels of the row's gradient times v, for
// each of the four taps. Channels that share a group and an offset group are a run; a run's sum is
// taken as NOTE [ Lane sums ] says, and runs are added in order. Then coordinate_gradient()
// (core/deformable/points.h).
// weight: the sum over images and output pixels of the result's gradient times the rows.
//
// Rounding: products of matrices may fuse products with sums and have an order of their own on each
// instruction set and on CUDA, as conv2d's. All else has the same bits everywhere, so results are
// equal where those products are exact. No sum depends on the thread count.
#pragma once

#include "core/deformable/pixel_lists.h"
#include "core/deformable/points.h"
#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/element.h"
#include "core/numbers/lane_sum.h"

namespace visops {

constexpr int64_t kBlockPixels = 64;

// One axis of the convolution.
struct DeformAxis {
  int64_t input, kernel, output;  // sizes
  int64_t stride, padding, dilation;

  // What tap t of output i reads without an offset.
  VISOPS_DEVICE int64_t position(int64_t i, int64_t t) const {
    return i * stride - padding + t * dilation;
  }
};

struct DeformConvParams {
  DType dtype;                                                  // of input, weight, bias and output
  const void* input;                                            // [batch, channels, height, width]
  int64_t input_batch, input_channel, input_row, input_column;  // strides; on the CPU, channels are
                                                                // adjacent
  // All others are contiguous; those without `dtype` are float32, or float64 for float64.
  const void* offset;  // [batch, offset_groups, taps, 2, pixels] as (y, x)
  const void* mask;    // [batch, offset_groups, taps, pixels], or null
  const void* weight;  // dtype: [out_channels, channels / groups, taps]
  const void* bias;    // dtype: [out_channels], or null
  DeformAxis y, x;
  int64_t batch, channels, out_channels, groups, offset_groups;

  void* output;                                        // dtype: [batch, out_channels, pixels]
  int64_t output_batch, output_channel, output_pixel;  // strides

  // Backward only.
  const void* grad;   // [batch, pixels, out_channels]
  void* grad_input;   // [batch, height, width, channels]
  void* grad_offset;  // of the offset's shape
  void* grad_mask;    // of the mask's shape, or null
  void* grad_weight;  // dtype, of the weight's shape

  // CUDA's gradient of the input only. Samples are numbered as
  // [batch, offset_groups, blocks, taps, kBlockPixels].
  PixelLists lists;

  // CUDA's gradients of input, offset and mask only: a part of the rows' gradient, that of output
  // pixels [part_first, part_first + part_pixels) of all images: whole images, or blocks of one.
  const void* row_gradients;  // [groups, part_pixels, taps, channels / groups]
  int64_t part_first, part_pixels;

  VISOPS_DEVICE int64_t taps() const { return y.kernel * x.kernel; }
  VISOPS_DEVICE int64_t pixels() const { return y.output * x.output; }
  VISOPS_DEVICE int64_t blocks() const { return (pixels() + kBlockPixels - 1) / kBlockPixels; }
  // The last block of an image counts as a whole one.
  VISOPS_DEVICE int64_t samples() const {
    return batch * offset_groups * blocks() * taps() * kBlockPixels;
  }
  VISOPS_DEVICE int64_t group_channels() const { return channels / groups; }
  VISOPS_DEVICE int64_t group_outputs() const { return out_channels / groups; }
  VISOPS_DEVICE int64_t offset_channels() const { return channels / offset_groups; }
  // The end of a run of channels from `channel` on that share a group and an offset group.
  VISOPS_DEVICE VISOPS_ALWAYS_INLINE int64_t run_end(int64_t channel) const {
    const int64_t group = (channel / group_channels() + 1) * group_channels();
    const int64_t offset_group = (channel / offset_channels() + 1) * offset_channels();
    return group < offset_group ? group : offset_group;
  }
};

// Some of the rows: output pixels [first, first + count) of all images. Each has `depth` numbers:
// those of its samples, then a 1 for the bias if there is one, then zeros.
struct DeformRowsParams {
  DeformConvParams conv;
  int64_t first, count, depth;
  void* rows;  // dtype: [groups, count, depth]
};
// Bytes of rows, or of their gradient, at a time on CUDA. Tests of emulated kernels see many parts
// of the gradient.
constexpr int64_t kRowBytes = int64_t{256} << 20, kEmulatedGradientBytes = 16 << 10;

// The dtype of sums, offsets and masks.
inline DType sum_dtype(DType dtype) {
  return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

extern KernelStub<DeformConvParams> deform_conv2d_stub;       // on the CPU
extern KernelStub<DeformRowsParams> deform_conv2d_rows_stub;  // on CUDA
// On CUDA in ListSteps, the last one for each part of the rows' gradient, in order.
extern KernelStub<DeformConvParams> deform_conv2d_backward_input_stub;
// On CUDA for each part of the rows' gradient.
extern KernelStub<DeformConvParams> deform_conv2d_backward_offset_stub;
extern KernelStub<DeformConvParams> deform_conv2d_backward_weight_stub;  // on the CPU

// Checks one axis, which errors name, and adds the size of its output.
DeformAxis deform_axis(const char* op, const char* name, DeformAxis axis);

}  // namespace visops
