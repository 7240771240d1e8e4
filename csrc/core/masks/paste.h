// Masks pasted into the boxes of an image: what a valid problem is, and where samples lie.
//
// NOTE [ Pasted masks ]
// Pixels of the image are sampled from the mask, bilinearly (NOTE [ One pixel ] in
// core/images/pixel.h). Along an axis, pixel j lies on a mask of `size` pixels at u(j), pixel
// centres being integers:
//
//     detectron2    u = ((((j + 0.5) - low) / (high - low) * 2 - 1) + 1) * (size / 2) - 0.5
//                   Taps beyond the mask are 0, so it fades out over half of its outermost pixels.
//     torchvision   The mask gets `padding` zeros at each end, and the box grows in proportion to
//                   the mask's width along both axes, as theirs does, and is truncated to the
//                   pixels first to last, `count` of them.
//                   u = max(((j - first) + 0.5) * (padded size / count) - 0.5, 0) - padding
//                   Without padding, taps beyond the mask repeat its outermost pixels.
//
// All of it in the masks' type, in the order of these libraries. A pixel whose taps are all beyond
// the mask is not reached: it is 0, and outside whatever the threshold is. Of those reached,
// detectron2's are inside at the threshold and torchvision's above it, so NaN is outside.
//
// A box is valid if its coordinates are finite and its sides are not negative. On the CPU the front
// checks them. CUDA kernels paste nothing for other boxes. Flat boxes hold no pixel of detectron2's
// and a row or column of torchvision's.
//
// NOTE [ Gradients of pasted masks ]
// The gradient of mask pixel (i, j) is a sum over the rows y of the image by index, of wy (i) times
// the sum over its columns x by index of wx (j) * incoming[y, x], over those that reach the mask. A
// row or column with two taps on one index counts once for each, in tap order.
#pragma once

#include <string>

#include "core/dispatch/kernel_stub.h"
#include "core/images/pixel.h"
#include "core/span.h"

namespace visops {

enum class PasteConvention : int { kDetectron2, kTorchvision };
enum class PastedForm : int { kFloating, kBytes, kBits };

struct PasteMasksParams {
  const void* masks;  // [count, mask_height, mask_width], contiguous, of `dtype`
  const void* boxes;  // [count, 4] x1, y1, x2, y2, contiguous, of `dtype`
  DType dtype;        // float32 or float64
  int64_t count, mask_height, mask_width;
  int64_t height, width;  // of the image
  PasteConvention convention;
  int64_t padding;  // torchvision's

  PastedForm form;
  double threshold;    // not for kFloating
  DType output_dtype;  // kFloating only
  // On the CPU 0 when the kernel starts: [count, height, width] elements or bytes, or
  // [count, height, words] bits.
  void* output;

  // Backward only.
  const void* grad;  // [count, height, width], contiguous, of output_dtype
  void* grad_masks;  // [count, mask_height, mask_width] of `dtype`
};

extern KernelStub<PasteMasksParams> paste_masks_stub;
extern KernelStub<PasteMasksParams> paste_masks_backward_stub;

PasteConvention parse_paste_convention(const char* op, const std::string& name);
PastedForm parse_pasted_form(const char* op, const std::string& name);
void check_paste_masks(const char* op, const PasteMasksParams& p);
// Boxes in host memory: throws for the first that is not valid.
void check_paste_boxes(const char* op, const PasteMasksParams& p);

// Where the pixels of an axis lie on the mask.
template <class Acc>
struct PasteAxis {
  PasteConvention convention;
  Span pixels;  // of the image: all that reach the mask
  Acc low, extent, scale;
  int64_t first, padding, size;
};

template <class Acc>
struct PasteMap {
  PasteAxis<Acc> x, y;
};

VISOPS_FN Padding padding_of(PasteConvention convention, int64_t padding) {
  const bool repeats = convention == PasteConvention::kTorchvision && padding == 0;
  return repeats ? Padding::kReplicate : Padding::kConstant;
}

template <class Acc>
VISOPS_FN AxisSample<Acc> paste_sample(const PasteAxis<Acc>& axis, int64_t j) {
  const Acc half = static_cast<Acc>(0.5), one = static_cast<Acc>(1);
  Acc u;
  if (axis.convention == PasteConvention::kDetectron2) {
    const Acc at = ((static_cast<Acc>(j) + half) - axis.low) / axis.extent;
    u = ((at * static_cast<Acc>(2) - one) + one) * axis.scale - half;
  } else {
    u = (static_cast<Acc>(j - axis.first) + half) * axis.scale - half;
    if (!(u > static_cast<Acc>(0))) u = static_cast<Acc>(0);
  }
  const Acc limit = static_cast<Acc>(1073741824.0);  // no mask is that large: saturate
  const bool is_sane = u > -limit && u < limit;
  const Acc whole = is_sane ? floor(u) : (u > static_cast<Acc>(0) ? limit : -limit);
  AxisSample<Acc> sample;
  sample.tap = static_cast<int64_t>(whole) - axis.padding;
  sample.weight = is_sane ? u - whole : static_cast<Acc>(0);
  return sample;
}

template <class Acc>
VISOPS_FN AxisTaps<Interpolation::kBilinear, Acc> paste_taps(const PasteAxis<Acc>& axis,
                                                             int64_t j) {
  return axis_taps<Interpolation::kBilinear>(paste_sample(axis, j),
                                             padding_of(axis.convention, axis.padding), axis.size);
}

// Truncates towards 0; beyond 2^40 pixels there is no image.
VISOPS_FN int64_t truncated(double v) {
  const double limit = 1099511627776.0;
  return static_cast<int64_t>(v < -limit ? -limit : (v > limit ? limit : v));
}

template <class Acc>
VISOPS_FN PasteAxis<Acc> paste_axis(PasteConvention convention, int64_t padding, Acc low, Acc high,
                                    int64_t mask_size, int64_t mask_width, int64_t image_size) {
  PasteAxis<Acc> axis = {};
  axis.convention = convention;
  axis.padding = padding;
  axis.size = mask_size;
  const double finite = static_cast<double>(low) - static_cast<double>(low) +
                        (static_cast<double>(high) - static_cast<double>(high));
  if (finite != 0.0 || high < low || mask_size == 0 || mask_width == 0) return axis;
  if (convention == PasteConvention::kDetectron2) {
    axis.low = low;
    axis.extent = high - low;
    axis.scale = static_cast<Acc>(mask_size) / static_cast<Acc>(2);
    if (high == low) return axis;
    // Half a pixel of the mask beyond the box, and one of the image for rounding.
    const double from = static_cast<double>(low), to = static_cast<double>(high);
    const double fade = (to - from) / (2.0 * static_cast<double>(mask_size));
    axis.pixels =
        make_span(floor(from - fade - 0.5) - 1.0, ceil(to + fade - 0.5) + 1.0, image_size);
    return axis;
  }
  const double padded = static_cast<double>(mask_size + 2 * padding);
  const double grown = static_cast<double>(mask_width + 2 * padding);
  const Acc half = static_cast<Acc>(0.5);
  const Acc reach = (high - low) * half * static_cast<Acc>(grown / static_cast<double>(mask_width));
  const Acc centre = (high + low) * half;
  axis.first = truncated(static_cast<double>(centre - reach));
  const int64_t last = truncated(static_cast<double>(centre + reach));
  axis.scale = static_cast<Acc>(padded) / static_cast<Acc>(last - axis.first + 1);
  axis.pixels = make_span(static_cast<double>(axis.first), static_cast<double>(last), image_size);
  return axis;
}

// The axis x of box k, or y.
template <class Acc>
VISOPS_FN PasteAxis<Acc> paste_axis_of(const PasteMasksParams& p, int64_t k, bool is_y) {
  const Acc* side = static_cast<const Acc*>(p.boxes) + k * 4 + (is_y ? 1 : 0);
  return paste_axis(p.convention, p.padding, side[0], side[2], is_y ? p.mask_height : p.mask_width,
                    p.mask_width, is_y ? p.height : p.width);
}

template <class Acc>
VISOPS_FN PasteMap<Acc> paste_masks_map(const PasteMasksParams& p, int64_t k) {
  return {paste_axis_of<Acc>(p, k, false), paste_axis_of<Acc>(p, k, true)};
}

template <class Acc>
VISOPS_FN bool is_inside(PasteConvention convention, Acc sample, Acc threshold) {
  return convention == PasteConvention::kDetectron2 ? sample >= threshold : sample > threshold;
}

}  // namespace visops
