#include "torch/masks/front.h"

#include "core/masks/components.h"
#include "torch/tensor.h"

namespace visops {

std::vector<int64_t> MaskBatch::sizes(const std::vector<int64_t>& last) const {
  std::vector<int64_t> all = leading;
  all.insert(all.end(), last.begin(), last.end());
  return all;
}

MaskBatch mask_batch(const char* op, const char* name, const Tensor& masks) {
  const int64_t dims = masks.dim();
  require(dims >= 2, op, name, " has shape ", shape_text(masks), ", must be [..., H, W]");
  const int64_t height = masks.size(dims - 2), width = masks.size(dims - 1);
  check_mask_size(op, name, height, width);  // before a copy is made
  MaskBatch batch = {torch::stable::contiguous(masks), 1, height, width, {}};
  for (int64_t d = 0; d < dims - 2; ++d) {
    batch.leading.push_back(masks.size(d));
    batch.count *= masks.size(d);
  }
  return batch;
}

Tensor make_result(const char* op, const Tensor& like, const std::vector<int64_t>& sizes,
                   DType dtype) {
  return empty_contiguous(op, "result", like, sizes, scalar_type_of(dtype));
}

Tensor make_zeros(const char* op, const Tensor& like, const std::vector<int64_t>& sizes,
                  DType dtype) {
  Tensor zeros = make_result(op, like, sizes, dtype);
  return torch::stable::fill_(zeros, 0.0);
}

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
