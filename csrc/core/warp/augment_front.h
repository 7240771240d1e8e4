// What the front does with an AugmentParams before a kernel sees it.
#pragma once

#include <vector>

#include "core/warp/augment.h"

namespace visops {

// Per-channel numbers as the caller gave them.
struct AugmentValues {
  const std::vector<double>&fill, &mean, &std, &erase_value;
};

// Sizes, dtypes, modes and per-channel numbers. Reads no tensor data, allocates nothing.
void check_augment(const char* op, const AugmentParams& params, const AugmentValues& values);

// Matrices, windows, colours and rectangles. Reads host memory.
void check_augment_data(const char* op, const AugmentParams& params);

// Copies the numbers, with mean, std and the dtypes' full scales folded into one scale and offset.
void set_values(AugmentParams& params, const AugmentValues& values);

// The element that stands for 1.0.
double full_scale(DType dtype);

}  // namespace visops
