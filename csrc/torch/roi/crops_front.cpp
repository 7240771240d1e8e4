#include "torch/roi/crops_front.h"

#include "core/check.h"

namespace visops {

void check_images(const char* op, const char* name, const Tensor& images) {
  require(images.dim() == 4, op, name, " has shape ", shape_text(images),
          ", must have four dimensions, [B, C, H, W]");
}

Strides strides_of_images(const Tensor& t) {
  return {t.stride(0), t.stride(1), t.stride(2), t.stride(3)};
}

CropBoxes crop_boxes(const char* op, const Tensor& boxes) {
  require(boxes.dim() == 2 && boxes.size(1) == 5, op, "boxes has shape ", shape_text(boxes),
          ", must be [K, 5]");
  require(boxes.size(0) <= 2147483647, op, "boxes has shape ", shape_text(boxes),
          ", at most 2147483647 boxes are supported");
  return {boxes.const_data_ptr(), dtype_of(op, "boxes", boxes), boxes.size(0), boxes.stride(0),
          boxes.stride(1)};
}

Interpolation parse_crop_interpolation(const char* op, const std::string& name) {
  if (name == "bilinear") return Interpolation::kBilinear;
  if (name == "nearest") return Interpolation::kNearest;
  if (name == "bicubic") return Interpolation::kBicubic;
  fail(op, "interpolation is '", name, "', must be 'nearest', 'bilinear' or 'bicubic'");
}

Tensor empty_maps(const char* op, const Tensor& like, int64_t count) {
  const auto bytes = static_cast<int64_t>(sizeof(CropMap));
  return empty_tensor(op, "scratch", like, {count, bytes}, DType::kUInt8);
}

}  // namespace visops
