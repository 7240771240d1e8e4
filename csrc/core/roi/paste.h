// Patches pasted into images: what a valid problem is, and how patches blend.
//
// NOTE [ Pasted pixels ]
// A patch covers the pixels whose centres are in its box: x1 <= x + 0.5 < x2, and likewise for y.
// There it is sampled as in NOTE [ Crop coordinates ], with its outermost pixels repeated, and
// blended:
//
//     out = w s + (1 - w) out          over boxes by index, beginning with the image
//
// w is 1 (replace: out = s), the sampled alpha, or a ramp: the distance from the pixel's centre to
// the nearest side of its box, divided by `feather`, at most 1. `feather` is capped at half the
// shorter side. Everything is computed in float32 (float64 for float64) and rounded once.
//
// NOTE [ Gradients of pasting ]
// Patch k contributes w_k s_k times the product of 1 - w_l over the later boxes l that cover the
// pixel. So its gradient is NOTE [ Transposed samples ] of g w_k prod(1 - w_l), in that order of
// factors. That of alpha is the same of prod(1 - w_l) * sum over channels of g (s_k - before_k),
// where before_k is what box k is blended with. The gradient of the images is the incoming gradient
// with patches of 0 pasted into it.
#pragma once

#include <string>

#include "core/roi/crops.h"

namespace visops {

enum class PasteBlend : int { kReplace, kFeather, kAlpha };

struct RoiPasteParams {
  const void* images;  // [batch, channels, height, width]; or the incoming gradient
  Strides image_stride;
  int64_t batch, channels, height, width;
  const void* patches;  // [count, channels, patch_height, patch_width]
  Strides patch_stride;
  int64_t patch_height, patch_width;
  const void* alpha;  // [count, patch_height, patch_width], contiguous; float32, or float64 for it
  CropBoxes boxes;
  CropMap* maps;  // [count] scratch
  DType dtype;
  Interpolation mode;
  PasteBlend blend;
  double feather;
  void* output;  // [batch, channels, height, width]
  Strides output_stride;

  // Backward only; either `grad_patches` or `grad_alpha` is null.
  const void* grad;  // of the output's shape
  Strides grad_stride;
  void* grad_patches;  // [count, channels, patch_height, patch_width]; float32, or float64
  Strides grad_patch_stride;
  void* grad_alpha;  // [count, patch_height, patch_width], contiguous; as alpha
};

// Fills `maps`.
extern KernelStub<RoiPasteParams> roi_paste_maps_stub;
extern KernelStub<RoiPasteParams> roi_paste_stub;
extern KernelStub<RoiPasteParams> roi_paste_backward_stub;

PasteBlend parse_paste_blend(const char* op, const std::string& name);
// Checks everything but the boxes' numbers.
void check_roi_paste(const char* op, const RoiPasteParams& p);

// Pixels of [0, size) whose centres lie in [low, high).
VISOPS_FN Span pixels_within(double low, double high, int64_t size) {
  const double first = ceil(low - 0.5), end = ceil(high - 0.5);
  return make_span(first, end - 1.0, size);
}

VISOPS_FN CropMap paste_map(const RoiPasteParams& p, int64_t k) {
  CropMap map = {};
  if (!load_crop_box(p.boxes, p.batch, k, &map)) return map;
  map.columns = pixels_within(map.x1, map.x2, p.width);
  map.rows = pixels_within(map.y1, map.y2, p.height);
  const bool is_empty = map.columns.begin >= map.columns.end || map.rows.begin >= map.rows.end;
  if (is_empty) {
    map.image = -1;  // covers no pixel
    return map;
  }
  const double step_x = static_cast<double>(p.patch_width) / (map.x2 - map.x1);
  const double step_y = static_cast<double>(p.patch_height) / (map.y2 - map.y1);
  map.x = {0.0, map.x1, step_x};
  map.y = {0.0, map.y1, step_y};
  map.integral = is_integral(map.x) && is_integral(map.y);
  map.reach_x = grid_reach(map.x, map.columns, Padding::kReplicate, p.patch_width);
  map.reach_y = grid_reach(map.y, map.rows, Padding::kReplicate, p.patch_height);
  return map;
}

// The distance from a side, in pixels, over which a patch's weight rises to 1.
VISOPS_FN double feather_width(const RoiPasteParams& p, const CropMap& map) {
  const double width = map.x2 - map.x1, height = map.y2 - map.y1;
  const double most = 0.5 * (width < height ? width : height);
  return p.feather < most ? p.feather : most;
}

// The weight along one axis of pixel j between low and high. A pixel has the smaller of its two.
template <class Acc>
VISOPS_FN Acc feather_weight(double width, double low, double high, int64_t j) {
  const double centre = static_cast<double>(j) + 0.5;
  const double before = centre - low, after = high - centre;
  const double weight = (before < after ? before : after) / width;
  return weight < 1.0 ? static_cast<Acc>(weight) : static_cast<Acc>(1);
}

template <class Acc>
VISOPS_FN Acc blended(Acc weight, Acc sample, Acc before) {
  return weight * sample + (static_cast<Acc>(1) - weight) * before;
}

VISOPS_FN bool covers(const CropMap& map, int64_t image, int64_t y, int64_t x) {
  return map.image == image && contains(map.rows, y) && contains(map.columns, x);
}

}  // namespace visops
