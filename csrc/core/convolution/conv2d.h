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

// How the CPU cuts a convolution into blocks that fit its caches and into work for its threads. It
// is in core because kernel files may not throw.

struct Conv2dPlan {
  int64_t workers;
  int64_t block_rows, block_columns;  // of outputs, in a block
  int64_t row_chunks;                 // tasks that share a block's strips of channels
  int64_t packed_bytes;               // of all packed weights, in whole cache lines
  int64_t worker_bytes;               // of scratch
  int64_t bytes;                      // of the packed weights and all workers' scratch
};

struct Conv2dWeightPlan {
  int64_t workers;
  int64_t block_rows;                   // of outputs, in a band
  int64_t in_block, out_block;          // channels of a task
  int64_t worker_bytes, scratch_bytes;  // of one worker, of all
};

// Both throw where even the smallest band is too large to index.
Conv2dPlan plan_conv2d(const Conv2dParams& p, int64_t threads);
Conv2dWeightPlan plan_conv2d_weight(const Conv2dWeightParams& p, int64_t threads);

// How the CPU's convolutions hold a block of an image.
//
// NOTE [ Bands of images ]
// The inputs of a block of outputs become planes, one per channel. Where tap (v, u) of output pixel
// (j, i) lies in a plane depends on the pixel only through j * width + i. So a column of im2col for
// many adjacent pixels is one run of memory, and a tap is an offset.
//
// Zeros surround the image. Where outputs are `step` inputs apart, a plane is split into classes of
// rows and columns: the ones that a tap reads, every step-th, lie side by side.
//
// A row is at least as wide as the outputs; what lies beyond them is computed too, and thrown away.
// Where step is 1, the zeros right of a row are also those left of the next.

// Elements that may be read after the last pixel's, where a tile of columns may begin.
constexpr int64_t kBandSlack = 128;

VISOPS_FN int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }
VISOPS_FN int64_t most_of(int64_t a, int64_t b) { return a > b ? a : b; }

VISOPS_FN int64_t common_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// Tap t reads class t % classes.
VISOPS_FN int64_t band_classes(const ConvAxis& axis) {
  return least_of(axis.taps, axis.step / common_divisor(axis.step, axis.tap_step));
}
// How far the tap reads from the output's own place, within the class.
VISOPS_FN int64_t band_shift(const ConvAxis& axis, int64_t tap) {
  return tap * axis.tap_step / axis.step;
}
// How many rows (or columns) of a class `count` outputs read.
VISOPS_FN int64_t band_extent(const ConvAxis& axis, int64_t count) {
  return count + (axis.taps > 0 ? band_shift(axis, axis.taps - 1) : 0);
}
// The input index of a class's entry 0, for a block that begins at output `begin`.
VISOPS_FN int64_t band_origin(const ConvAxis& axis, int64_t begin, int64_t of_class) {
  return axis.first + begin * axis.step + of_class * axis.tap_step % axis.step;
}

// Elements from one row of the band to the next, for outputs begin .. begin + count.
VISOPS_FN int64_t band_width(const ConvAxis& axis, int64_t begin, int64_t count) {
  const int64_t extent = band_extent(axis, count);
  if (axis.step != 1) return extent;
  const int64_t origin = band_origin(axis, begin, 0);
  const int64_t zeros = most_of(-origin, 0);  // left of each row
  // Reads beyond the width see the next row's left zeros, which must be right for them.
  const int64_t width = most_of(most_of(axis.size - origin, extent - zeros), count);
  return least_of(extent, width);
}

// Elements in a channel's plane.
VISOPS_FN int64_t band_plane(const ConvAxis& y, int64_t rows, const ConvAxis& x, int64_t width) {
  return band_classes(y) * band_extent(y, rows) * band_classes(x) * width;
}

// Elements after all planes that may be read, and must be 0.
VISOPS_FN int64_t band_tail(const ConvAxis& x, int64_t columns, int64_t width) {
  return band_extent(x, columns) - width + kBandSlack;
}

// Bytes of the columns' offsets, which lie before the band.
VISOPS_FN int64_t offsets_bytes(int64_t columns) {
  constexpr int64_t kLine = 64;
  return (columns * static_cast<int64_t>(sizeof(int32_t)) + kLine - 1) / kLine * kLine;
}

// How elements of each type are stored and summed.

// Stored as kParts numbers of type Stored (2: real, imaginary), summed as Value.
template <class Stored_, class Value_, int parts>
struct ConvElement {
  using Stored = Stored_;
  using Value = Value_;
  static constexpr int kParts = parts;
};

// Bytes become 16 bits: no instruction set multiplies bytes.
VISOPS_FN uint16_t conv_value(uint8_t v) { return v; }
VISOPS_FN uint16_t conv_value(uint16_t v) { return v; }
VISOPS_FN uint32_t conv_value(uint32_t v) { return v; }
VISOPS_FN uint64_t conv_value(uint64_t v) { return v; }
VISOPS_FN float conv_value(Half v) { return load_element(&v); }
VISOPS_FN float conv_value(BFloat16 v) { return load_element(&v); }
VISOPS_FN float conv_value(float v) { return v; }
VISOPS_FN double conv_value(double v) { return v; }

VISOPS_FN void conv_store(uint8_t* p, uint16_t v) { *p = static_cast<uint8_t>(v); }
VISOPS_FN void conv_store(uint16_t* p, uint16_t v) { *p = v; }
VISOPS_FN void conv_store(uint32_t* p, uint32_t v) { *p = v; }
VISOPS_FN void conv_store(uint64_t* p, uint64_t v) { *p = v; }
VISOPS_FN void conv_store(Half* p, float v) { store_element(p, v); }
VISOPS_FN void conv_store(BFloat16* p, float v) { store_element(p, v); }
VISOPS_FN void conv_store(float* p, float v) { *p = v; }
VISOPS_FN void conv_store(double* p, double v) { *p = v; }

// Calls work(ConvElement<...>{}) for `kind`, which is not kBool.
template <class Work>
static inline void with_conv_element(Arithmetic kind, const Work& work) {
  switch (kind) {
    case Arithmetic::kBool: return;
    case Arithmetic::kInt8: return work(ConvElement<uint8_t, uint16_t, 1>{});
    case Arithmetic::kInt16: return work(ConvElement<uint16_t, uint16_t, 1>{});
    case Arithmetic::kInt32: return work(ConvElement<uint32_t, uint32_t, 1>{});
    case Arithmetic::kInt64: return work(ConvElement<uint64_t, uint64_t, 1>{});
    case Arithmetic::kFloat16: return work(ConvElement<Half, float, 1>{});
    case Arithmetic::kBFloat16: return work(ConvElement<BFloat16, float, 1>{});
    case Arithmetic::kFloat32: return work(ConvElement<float, float, 1>{});
    case Arithmetic::kFloat64: return work(ConvElement<double, double, 1>{});
    case Arithmetic::kComplex32: return work(ConvElement<Half, float, 2>{});
    case Arithmetic::kComplex64: return work(ConvElement<float, float, 2>{});
    case Arithmetic::kComplex128: return work(ConvElement<double, double, 2>{});
  }
}

VISOPS_FN int64_t conv_parts(Arithmetic kind) { return is_complex(kind) ? 2 : 1; }

// Elements of the matrices that a convolution multiplies: NOTE [ A convolution as a matrix product
// ]. A row or plane is a channel or, for complex elements, one part of a channel.

// Size of the matrix of weights.
VISOPS_FN int64_t matrix_rows(const Conv2dParams& p) { return p.to_channels * conv_parts(p.kind); }
VISOPS_FN int64_t matrix_planes(const Conv2dParams& p) {
  return p.from_channels * conv_parts(p.kind);
}

// The factor of a number's part `plane_part` in part `row_part` of its product with `element`: (re,
// -im) for the real part, (im, re) for the imaginary one.
template <class Element>
VISOPS_FN typename Element::Value factor_of(const typename Element::Stored* element,
                                            int64_t row_part, int64_t plane_part) {
  if constexpr (Element::kParts == 1) {
    return conv_value(*element);
  } else {
    const typename Element::Value value = conv_value(element[row_part == plane_part ? 0 : 1]);
    return row_part < plane_part ? -value : value;
  }
}

// The weights of one kernel element and group begin at `at`.
template <class Element>
VISOPS_FN typename Element::Value weight_value(const Conv2dParams& p, int64_t row, int64_t plane,
                                               int64_t at) {
  constexpr int kParts = Element::kParts;
  const auto* weight = static_cast<const typename Element::Stored*>(p.weight);
  const int64_t element = at + row / kParts * p.weight_to + plane / kParts * p.weight_from;
  return factor_of<Element>(weight + element * kParts, row % kParts, plane % kParts);
}

template <class Element>
VISOPS_FN typename Element::Value bias_value(const Conv2dParams& p, int64_t group, int64_t row) {
  constexpr int kParts = Element::kParts;
  if (p.bias == nullptr) return typename Element::Value{};
  const int64_t channel = group * p.to_channels + row / kParts;
  const auto* bias = static_cast<const typename Element::Stored*>(p.bias);
  return conv_value(bias[channel * p.bias_stride * kParts + row % kParts]);
}

}  // namespace visops
