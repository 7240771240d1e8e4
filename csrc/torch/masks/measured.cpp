#include "torch/masks/measured.h"

namespace visops {

MaskBatch bits_batch(const char* op, const char* name, const Tensor& bits) {
  const DType dtype = dtype_of(op, name, bits);
  require(dtype == DType::kInt64, op, name, " has dtype ", dtype_name(dtype),
          ", must be int64, as pack_masks returns");
  return mask_batch(op, name, bits);
}

void check_width(const char* op, int64_t width, const Tensor& bits) {
  require(width >= 0 && words_of(width) == bits.size(bits.dim() - 1), op, "width is ", width,
          ", bits has shape ", shape_text(bits), ": its last dimension must be ceil(width / 64)");
}

MaskBatch pixel_batch(const char* op, const char* name, const Tensor& masks) {
  const DType dtype = dtype_of(op, name, masks);
  require(dtype == DType::kBool || dtype == DType::kUInt8, op, name, " has dtype ",
          dtype_name(dtype), ", must be bool or uint8");
  return mask_batch(op, name, masks);
}

GivenMasks given_masks(const char* op, const char* name, const Tensor& masks, bool is_packed) {
  MaskBatch batch = is_packed ? bits_batch(op, name, masks) : pixel_batch(op, name, masks);
  GivenMasks given = {batch, is_packed};
  if (is_packed || batch.is_empty() || !runs_cuda_kernels(masks)) return given;
  given.batch.masks = pack_batch(op, batch);
  given.batch.width = words_of(batch.width);
  given.is_packed = true;
  return given;
}

Measured measure(const char* op, const Tensor& like, const GivenMasks& given) {
  static_assert(sizeof(MaskBox) == 4 * sizeof(int64_t), "boxes are tensors of four numbers");
  const MaskBatch& batch = given.batch;
  const auto make = batch.is_empty() ? make_zeros : make_result;
  const Measured found = {make(op, like, batch.leading, DType::kInt64),
                          make(op, like, batch.sizes({4}), DType::kInt64)};
  if (batch.is_empty()) return found;
  MeasureParams p = {};
  p.bits = given.bits();
  p.pixels = given.pixels();
  p.count = batch.count;
  p.height = batch.height;
  p.width = batch.width;
  p.words = given.words();
  p.areas = static_cast<int64_t*>(found.areas.mutable_data_ptr());
  p.boxes = static_cast<MaskBox*>(found.boxes.mutable_data_ptr());
  run(measure_stub, op, p, like);
  return found;
}

MeasuredMasks masks_of(const MaskBatch& batch, const Measured& found) {
  return {static_cast<const uint64_t*>(batch.masks.const_data_ptr()),
          static_cast<const int64_t*>(found.areas.const_data_ptr()),
          static_cast<const MaskBox*>(found.boxes.const_data_ptr()), batch.count, nullptr};
}

}  // namespace visops
