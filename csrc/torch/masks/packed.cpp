// The torch fronts of packed masks: bits and back, areas and boxes, overlaps of pairs.
#include "core/masks/components.h"

#include <optional>
#include <tuple>

#include "torch/masks/front.h"
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
  run(pack_stub, op, p, batch.masks);
  return bits;
}

namespace {

Tensor pack_masks(const Tensor& masks) {
  constexpr const char* op = "pack_masks";
  const MaskBatch batch = pixel_batch(op, "masks", masks);
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
  run(unpack_stub, op, p, bits);
  return masks;
}

std::tuple<Tensor, Tensor> measure_masks(const Tensor& masks, bool packed) {
  constexpr const char* op = "measure_masks";
  const MaskBatch batch = packed ? bits_batch(op, "masks", masks) : pixel_batch(op, "masks", masks);
  const Measured found = measure(op, masks, {batch, packed});
  return {found.areas, found.boxes};
}

// Whether two tensors are the same numbers.
bool are_one(const Tensor& a, const Tensor& b) {
  return a.const_data_ptr() == b.const_data_ptr() && a.sizes().equals(b.sizes()) &&
         a.strides().equals(b.strides()) && a.scalar_type() == b.scalar_type();
}

Tensor mask_iou(const Tensor& masks1, const Tensor& masks2, const std::string& kind,
                const std::optional<Tensor>& iscrowd, bool packed1, bool packed2) {
  constexpr const char* op = "mask_iou";
  for (const auto& [name, masks, packed] :
       {std::tuple{"masks1", &masks1, packed1}, std::tuple{"masks2", &masks2, packed2}}) {
    require(masks->dim() == 3, op, name, " has shape ", shape_text(*masks), ", must be [N, H, ",
            packed ? "words]" : "W]");
  }
  check_same_device(op, "masks1", masks1, "masks2", masks2);
  MaskIouParams p = {};
  p.kind = parse_mask_overlap(op, kind);
  p.is_one = packed1 == packed2 && are_one(masks1, masks2);
  const GivenMasks first = given_masks(op, "masks1", masks1, packed1);
  const GivenMasks second = p.is_one ? first : given_masks(op, "masks2", masks2, packed2);
  const MaskBatch &one = first.batch, &other = second.batch;
  require(one.height == other.height && first.words() == second.words() &&
              (first.is_packed != second.is_packed || one.width == other.width),
          op, "masks1 has shape ", shape_text(masks1), ", masks2 has ", shape_text(masks2),
          ": masks must be of one size");
  Tensor crowd = masks1;
  if (iscrowd) {
    const DType dtype = dtype_of(op, "iscrowd", *iscrowd);
    require(dtype == DType::kBool || dtype == DType::kUInt8, op, "iscrowd has dtype ",
            dtype_name(dtype), ", must be bool or uint8");
    const std::vector<int64_t> expected = {other.count};
    require(iscrowd->sizes().equals(expected), op, "iscrowd has shape ", shape_text(*iscrowd),
            ", must be ", shape_text(expected));
    check_same_device(op, "masks1", masks1, "iscrowd", *iscrowd);
    crowd = torch::stable::contiguous(*iscrowd);
    p.crowd = static_cast<const uint8_t*>(crowd.const_data_ptr());
  }
  const std::vector<int64_t> sizes = {one.count, other.count};
  if (one.is_empty() || other.is_empty()) return make_zeros(op, masks1, sizes, DType::kFloat32);
  std::optional<Measured> found1, found2;  // kernels measure pixels themselves
  const auto measured = [&](const GivenMasks& given, std::optional<Measured>* found) {
    if (!given.is_packed)
      return MeasuredMasks{nullptr, nullptr, nullptr, given.batch.count, given.pixels()};
    *found = measure(op, masks1, given);
    return masks_of(given.batch, **found);
  };
  const Tensor overlaps = make_result(op, masks1, sizes, DType::kFloat32);
  p.first = measured(first, &found1);
  p.second = p.is_one ? p.first : measured(second, &found2);
  p.height = one.height;
  p.width = first.is_packed ? other.width : one.width;
  p.words = first.words();
  p.overlaps = static_cast<float*>(overlaps.mutable_data_ptr());
  run(mask_iou_stub, op, p, masks1);
  return overlaps;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("pack_masks", VISOPS_BOX(&visops::pack_masks));
  m.impl("unpack_masks", VISOPS_BOX(&visops::unpack_masks));
  m.impl("measure_masks", VISOPS_BOX(&visops::measure_masks));
  m.impl("mask_iou", VISOPS_BOX(&visops::mask_iou));
}
