// Augmentations without tensors.
#pragma once

#include <vector>

#include "core/dispatch/threads.h"
#include "core/warp/augment_front.h"

namespace visops {

// Checks a problem, and runs it.
inline void run_augment(AugmentParams& p, const AugmentValues& values, const Threads& threads) {
  check_augment("augment", p, values);
  check_augment_data("augment", p);
  set_values(p, values);
  run_on_cpu(augment_stub, p, threads);
}

// Warps one image to another, whose strides are given, of its size, channels and dtype.
inline void warp_image(const AugmentImage& from, int64_t channels, DType dtype,
                       const double* matrix, Interpolation mode, const std::vector<double>& fill,
                       void* to, const Strides& strides, const Threads& threads) {
  AugmentParams p = {};
  p.batch = 1;
  p.channels = channels;
  p.first = from;
  p.dtype = p.output_dtype = dtype;
  p.output = to;
  p.output_height = from.height;
  p.output_width = from.width;
  p.output_stride = strides;
  p.matrix = {matrix, DType::kFloat64, true, 0, 3, 1};
  p.matrix_rows = 2;
  p.mode = mode;
  p.padding = Padding::kConstant;
  p.half_pixel = true;
  const std::vector<double> none, zero = {0.0};
  run_augment(p, {fill, none, none, zero}, threads);
}

}  // namespace visops
