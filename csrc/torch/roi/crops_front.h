// What the torch fronts of cropping and pasting share.
#pragma once

#include <string>

#include "core/roi/crops.h"
#include "torch/tensor.h"

namespace visops {

void check_images(const char* op, const char* name, const Tensor& images);
Strides strides_of_images(const Tensor& images);
CropBoxes crop_boxes(const char* op, const Tensor& boxes);
Interpolation parse_crop_interpolation(const char* op, const std::string& name);
// Memory for CropMaps, on the device of `like`.
Tensor empty_maps(const char* op, const Tensor& like, int64_t count);

}  // namespace visops
