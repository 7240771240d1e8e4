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

Measured measure(const char* op, const Tensor& like, const MaskBatch& batch) {
  static_assert(sizeof(MaskBox) == 4 * sizeof(int64_t), "boxes are tensors of four numbers");
  const auto make = batch.is_empty() ? make_zeros : make_result;
  const Measured found = {make(op, like, batch.leading, DType::kInt64),
                          make(op, like, batch.sizes({4}), DType::kInt64)};
  if (batch.is_empty()) return found;
  MeasureParams p = {};
  p.bits = static_cast<const uint64_t*>(batch.masks.const_data_ptr());
  p.count = batch.count;
  p.height = batch.height;
  p.words = batch.width;
  p.areas = static_cast<int64_t*>(found.areas.mutable_data_ptr());
  p.boxes = static_cast<MaskBox*>(found.boxes.mutable_data_ptr());
  run(measure_stub, p, like, p.count, p.height * p.words);
  return found;
}

MeasuredMasks masks_of(const MaskBatch& batch, const Measured& found) {
  return {static_cast<const uint64_t*>(batch.masks.const_data_ptr()),
          static_cast<const int64_t*>(found.areas.const_data_ptr()),
          static_cast<const MaskBox*>(found.boxes.const_data_ptr()), batch.count};
}

}  // namespace visops
