// The torch fronts of packed masks: bits and back, areas and boxes, overlaps of pairs.
#include "core/masks/components.h"

#include <optional>
#include <utility>

#include "torch/masks/measured.h"
#include "torch/register.h"

namespace visops {

Tensor pack_batch(const char* op, const MaskBatch& batch) {
  const int64_t words = words_of(batch.width);
  const Tensor bits =
      make_result(op, batch.masks, batch.sizes({batch.height, words}), DType::kInt64);
  if (batch.is_empty()) return bits;
  PackParams p = {};
  p.rows = batch.count * batch.height;
  p.width = batch.width;
  p.masks = static_cast<const uint8_t*>(batch.masks.const_data_ptr());
  p.bits = static_cast<uint64_t*>(bits.mutable_data_ptr());
  run(pack_stub, p, batch.masks, p.rows, p.width);
  return bits;
}

namespace {

Tensor pack_masks(const Tensor& masks) {
  constexpr const char* op = "pack_masks";
  const DType dtype = dtype_of(op, "masks", masks);
  require(dtype == DType::kBool || dtype == DType::kUInt8, op, "masks has dtype ",
          dtype_name(dtype), ", must be bool or uint8");
  const MaskBatch batch = mask_batch(op, "masks", masks);
  return pack_batch(op, batch);
}

Tensor unpack_masks(const Tensor& bits, int64_t width) {
  constexpr const char* op = "unpack_masks";
  const MaskBatch batch = bits_batch(op, "bits", bits);
  check_width(op, width, bits);
  check_mask_size(op, "masks", batch.height, width);
  const Tensor masks = make_result(op, bits, batch.sizes({batch.height, width}), DType::kBool);
  if (batch.is_empty()) return masks;
  UnpackParams p = {};
  p.rows = batch.count * batch.height;
  p.width = width;
  p.bits = static_cast<const uint64_t*>(batch.masks.const_data_ptr());
  p.masks = static_cast<uint8_t*>(masks.mutable_data_ptr());
  run(unpack_stub, p, bits, p.rows, p.width);
  return masks;
}

std::tuple<Tensor, Tensor> measure_masks(const Tensor& bits) {
  constexpr const char* op = "measure_masks";
  const Measured found = measure(op, bits, bits_batch(op, "bits", bits));
  return {found.areas, found.boxes};
}

Tensor mask_iou(const Tensor& bits1, const Tensor& bits2, const std::string& kind,
                const std::optional<Tensor>& iscrowd) {
  constexpr const char* op = "mask_iou";
  for (const auto& [name, bits] : {std::pair{"bits1", &bits1}, std::pair{"bits2", &bits2}}) {
    require(bits->dim() == 3, op, name, " has shape ", shape_text(*bits),
            ", must be [N, H, words]");
  }
  check_same_device(op, "bits1", bits1, "bits2", bits2);
  const MaskBatch first = bits_batch(op, "bits1", bits1);
  const MaskBatch second = bits_batch(op, "bits2", bits2);
  require(first.height == second.height && first.width == second.width, op, "bits1 has shape ",
          shape_text(bits1), ", bits2 has ", shape_text(bits2), ": masks must be of one size");
  MaskIouParams p = {};
  p.kind = parse_mask_overlap(op, kind);
  Tensor crowd = bits1;
  if (iscrowd) {
    const DType dtype = dtype_of(op, "iscrowd", *iscrowd);
    require(dtype == DType::kBool || dtype == DType::kUInt8, op, "iscrowd has dtype ",
            dtype_name(dtype), ", must be bool or uint8");
    const std::vector<int64_t> expected = {second.count};
    require(iscrowd->sizes().equals(expected), op, "iscrowd has shape ", shape_text(*iscrowd),
            ", must be ", shape_text(expected));
    check_same_device(op, "bits1", bits1, "iscrowd", *iscrowd);
    crowd = torch::stable::contiguous(*iscrowd);
    p.crowd = static_cast<const uint8_t*>(crowd.const_data_ptr());
  }
  const std::vector<int64_t> sizes = {first.count, second.count};
  if (first.is_empty() || second.is_empty()) {
    return make_zeros(op, bits1, sizes, DType::kFloat32);
  }
  const Measured found1 = measure(op, bits1, first), found2 = measure(op, bits2, second);
  const Tensor overlaps = make_result(op, bits1, sizes, DType::kFloat32);
  p.first = masks_of(first, found1);
  p.second = masks_of(second, found2);
  p.height = first.height;
  p.words = first.width;
  p.overlaps = static_cast<float*>(overlaps.mutable_data_ptr());
  run(mask_iou_stub, p, bits1, first.count, second.count * p.height * p.words / 4);
  return overlaps;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("pack_masks", TORCH_BOX(&visops::pack_masks));
  m.impl("unpack_masks", TORCH_BOX(&visops::unpack_masks));
  m.impl("measure_masks", TORCH_BOX(&visops::measure_masks));
  m.impl("mask_iou", TORCH_BOX(&visops::mask_iou));
}
