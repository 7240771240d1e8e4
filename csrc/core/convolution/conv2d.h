// The convolution of neural networks: what the fronts and kernels share.
//
// NOTE [ A convolution as a matrix product ]
// An output pixel is a sum over k = (input channel, kernel row, kernel column), in this order:
//   out[n, m, y, x] = bias[m] + sum over k of weight[m, k] * in[n, c, y', x']
// This is a product of matrices [out channels, k] and [k, pixels]. The second one (im2col) never
// exists in memory: kernels read a block of the image once, surround it with zeros, and find every
// column in it. Sums have the type of the elements, float32 for halves; integers wrap. A complex
// element is two real channels: the product is of [2 out, 2 in] with weights (re, -im) and (im,
// re).
//
// The gradient of the input is the same sum with the channels' roles swapped, over the kernel
// elements that reach the pixel. Along an axis of stride s, the same elements reach all pixels with
// one remainder mod s (a phase), so each phase is a convolution of stride 1. ConvAxis describes
// both directions.
//
// The gradient of the weight sums, for each (m, k), over the batch and its pixels.
//
// All three come from one trilinear form in (gradient, input, weight), each leaving one of them
// out; the derivatives of each are the other two. None of them conjugates.
//
// Rounding: products may be fused with sums, and CPU and CUDA each have their own order of
// summation, so bits depend on the instruction set. They don't depend on the thread count, which
// never splits a sum.
#pragma once

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/arithmetic.h"

namespace visops {

// An axis of a convolution: output i reads input first + i * step + t * tap_step for tap t.
struct ConvAxis {
  int64_t taps;                 // kernel elements used
  int64_t kernel_first;         // kernel index of tap 0 ...
  int64_t kernel_step;          // ... and its step per tap; may be negative
  int64_t first;                // may lie outside the input, where 0 is read
  int64_t step, tap_step;       // >= 1
  int64_t size;                 // of the input
  int64_t count;                // outputs
  int64_t out_first, out_step;  // their indices in the output

  VISOPS_DEVICE int64_t kernel_index(int64_t tap) const { return kernel_first + tap * kernel_step; }
  VISOPS_DEVICE int64_t out_index(int64_t i) const { return out_first + i * out_step; }
};

// One axis of the forward convolution.
struct ConvSizes {
  int64_t input, kernel, output;      // sizes
  int64_t stride, dilation, padding;  // padding before the input
};

VISOPS_FN ConvAxis forward_axis(const ConvSizes& s) {
  return {s.kernel, 0, 1, -s.padding, s.stride, s.dilation, s.input, s.output, 0, 1};
}

// Input pixels phase, phase + stride, ... as sums over the outputs that they contribute to.
VISOPS_FN ConvAxis transposed_axis(const ConvSizes& s, int64_t phase) {
  int64_t common = s.dilation, rest = s.stride;  // ends as their greatest common divisor
  while (rest != 0) {
    const int64_t next = common % rest;
    common = rest;
    rest = next;
  }
  const int64_t every = s.stride / common, at = phase + s.padding;
  int64_t tap = s.dilation == 1 ? at % s.stride : 0;
  const int64_t most = every < s.kernel ? every : s.kernel;  // strides may be long
  while (tap < most && (at - tap * s.dilation) % s.stride != 0) ++tap;
  const bool any = tap < most;
  const int64_t taps = any ? (s.kernel - 1 - tap) / every + 1 : 0;
  const int64_t last = tap + (taps - 1) * every;  // ascending in what is read
  const int64_t count = (s.input - phase + s.stride - 1) / s.stride;
  return {taps,     last,
          -every,   any ? (at - last * s.dilation) / s.stride : 0,
          1,        s.dilation / common,
          s.output, count,
          phase,    s.stride};
}

// A map [batch, channels, rows, columns]; strides in elements.
struct ConvMap {
  void* data;
  int64_t batch_stride, channel_stride, row_stride, column_stride;
};

// Forward, or the gradient of the input: `from` -> `to`. For the gradient, `from` is like the
// forward convolution's output and `to` like its input; the channels count accordingly.
struct Conv2dParams {
  Arithmetic kind;
  bool transposed;
  ConvMap from, to;
  const void* weight;
  // Strides, in elements, by group, `to` channel, `from` channel, kernel row and column.
  int64_t weight_group, weight_to, weight_from, weight_row, weight_column;
  const void* bias;  // null, or one for each `to` channel
  int64_t bias_stride;
  int64_t batch, groups;
  int64_t from_channels, to_channels;  // in a group
  ConvSizes y, x;                      // of the forward convolution
};

// The gradient of the weight.
struct Conv2dWeightParams {
  Arithmetic kind;
  ConvMap grad, input;
  void* weight_grad;  // [groups * out, in, kernel height, kernel width] contiguous
  int64_t batch, groups;
  int64_t in_channels, out_channels;  // in a group
  ConvSizes y, x;
};

VISOPS_FN int64_t phases_y(const Conv2dParams& p) {
  return p.transposed ? (p.y.stride < p.y.input ? p.y.stride : p.y.input) : 1;
}
VISOPS_FN int64_t phases_x(const Conv2dParams& p) {
  return p.transposed ? (p.x.stride < p.x.input ? p.x.stride : p.x.input) : 1;
}
VISOPS_FN ConvAxis axis_of(const Conv2dParams& p, const ConvSizes& sizes, int64_t phase) {
  return p.transposed ? transposed_axis(sizes, phase) : forward_axis(sizes);
}

extern KernelStub<Conv2dParams> conv2d_stub;
extern KernelStub<Conv2dWeightParams> conv2d_backward_weight_stub;

// Checks one axis, which errors name, and adds the size of its output.
struct ConvArguments {
  const char* op;
  const char* axis;  // "height" or "width"
  int64_t input, kernel, stride, dilation, before, after;
};
ConvSizes conv_sizes(const ConvArguments& a);

}  // namespace visops
