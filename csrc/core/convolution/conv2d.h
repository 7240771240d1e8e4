// The convolution of neural networks: what fronts and kernels share.
//
// NOTE [ A convolution as a matrix product ]
// An output pixel is a sum over k = (input channel, kernel row, kernel column), in this order:
//   out[n, m, y, x] = bias[m] + sum over k of weight[m, k] * in[n, c, y', x']
// a product of matrices [out channels, k] and [k, pixels], the second of which (im2col) is never in
// memory: kernels read a block of the image once, put zeros around it, and find every column in it.
// Sums are in the type of the elements, float32 for halves; integers wrap; complex elements are two
// real channels, so that the product is of [2 out, 2 in] with weights (re, -im) and (im, re).
//
// The gradient of the input is the same sum with the channels' roles swapped, over kernel elements
// that reach the pixel. Along an axis of stride s the pixels of one remainder mod s (a phase) are
// reached by the same of them, which makes it a convolution of stride 1: ConvAxis describes both.
//
// The gradient of the weight is, for each (m, k), a sum over the batch and its pixels.
//
// All three are what one trilinear form leaves of (gradient, input, weight) without one of them, so
// that each one's derivatives are the other two. None of them conjugates.
//
// Rounding: products may be fused with sums, and CPU and CUDA sum in orders of their own, so bits
// depend on the instruction set. They don't depend on the thread count: no sum is split by it.
#pragma once

#include "core/arithmetic.h"
#include "core/kernel_stub.h"

namespace visops {

// An axis of a convolution: output i reads input first + i * step + t * tap_step for tap t.
struct ConvAxis {
  int64_t taps;                 // kernel elements that take part
  int64_t kernel_first;         // the kernel's index of tap 0 ...
  int64_t kernel_step;          // ... and from each tap to the next; may be negative
  int64_t first;                // may be negative or beyond the input: 0 is read there
  int64_t step, tap_step;       // >= 1
  int64_t size;                 // of the input
  int64_t count;                // outputs
  int64_t out_first, out_step;  // where they are in the output

  VISOPS_DEVICE int64_t kernel_index(int64_t tap) const { return kernel_first + tap * kernel_step; }
  VISOPS_DEVICE int64_t out_index(int64_t i) const { return out_first + i * out_step; }
};

// What an axis of the forward convolution is made of; `input` and `output` are its sizes.
struct ConvSizes {
  int64_t input, kernel, output;
  int64_t stride, dilation, padding;  // before
};

VISOPS_FN ConvAxis forward_axis(const ConvSizes& s) {
  return {s.kernel, 0, 1, -s.padding, s.stride, s.dilation, s.input, s.output, 0, 1};
}

// Input pixels phase, phase + stride, ... as sums over the outputs that they went into.
VISOPS_FN ConvAxis transposed_axis(const ConvSizes& s, int64_t phase) {
  int64_t common = s.dilation, rest = s.stride;  // becomes their greatest common divisor
  while (rest != 0) {
    const int64_t next = common % rest;
    common = rest;
    rest = next;
  }
  const int64_t every = s.stride / common, at = phase + s.padding;
  int64_t tap = s.dilation == 1 ? at % s.stride : 0;
  while (tap < every && (at - tap * s.dilation) % s.stride != 0) ++tap;
  const bool any = tap < every && tap < s.kernel;
  const int64_t taps = any ? (s.kernel - 1 - tap) / every + 1 : 0;
  const int64_t last = tap + (taps - 1) * every;  // in rising order of what is read
  const int64_t count = (s.input - phase + s.stride - 1) / s.stride;
  return {taps,     last,
          -every,   any ? (at - last * s.dilation) / s.stride : 0,
          1,        s.dilation / common,
          s.output, count,
          phase,    s.stride};
}

// Elements of a map; strides in elements.
struct ConvMap {
  void* data;
  int64_t batch_stride, channel_stride, row_stride, column_stride;
};

// Forward, or the gradient of the input: `from` -> `to`. For the latter the two are output and
// input of the forward convolution, and so are the channels counted here.
struct Conv2dParams {
  Arithmetic kind;
  bool transposed;
  ConvMap from, to;
  const void* weight;
  // By group, `to` channel, `from` channel, kernel row and column.
  int64_t weight_group, weight_to, weight_from, weight_row, weight_column;
  const void* bias;  // null, or of `to` channels
  int64_t bias_stride;
  int64_t batch, groups;
  int64_t from_channels, to_channels;  // of a group
  ConvSizes y, x;                      // of the forward convolution
};

// The gradient of the weight.
struct Conv2dWeightParams {
  Arithmetic kind;
  ConvMap grad, input;
  void* weight_grad;  // [groups * out, in, kernel height, kernel width] contiguous
  int64_t batch, groups;
  int64_t in_channels, out_channels;  // of a group
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

extern ScheduledStub<Conv2dParams> conv2d_stub;
extern ScheduledStub<Conv2dWeightParams> conv2d_backward_weight_stub;

// Of one axis, named for errors; gives the size of the output.
struct ConvArguments {
  const char* op;
  const char* axis;  // "height" or "width"
  int64_t input, kernel, stride, dilation, before, after;
};
ConvSizes conv_sizes(const ConvArguments& a);

}  // namespace visops
