// The torch fronts of suppression and merging: masks in the order that is given.
#include "core/masks/select.h"

#include <limits>
#include <optional>

#include "torch/masks/front.h"
#include "torch/register.h"

namespace visops {
namespace {

// Masks [N, H, words] in an order, measured.
struct OrderedMasks {
  MaskBatch batch;
  Measured found;
  Tensor order;
  std::optional<Tensor> takes_part;

  MeasuredMasks masks() const { return masks_of(batch, found); }
  MaskOrder positions() const {
    return {static_cast<const int64_t*>(order.const_data_ptr()),
            takes_part ? static_cast<const uint8_t*>(takes_part->const_data_ptr()) : nullptr};
  }
};

Tensor checked(const char* op, const char* name, const Tensor& tensor, DType dtype, int64_t count,
               const Tensor& bits) {
  const DType given = dtype_of(op, name, tensor);
  require(given == dtype, op, name, " has dtype ", dtype_name(given), ", must be ",
          dtype_name(dtype));
  check_shape(op, name, tensor, {count});
  check_same_device(op, "bits", bits, name, tensor);
  return torch::stable::contiguous(tensor);
}

OrderedMasks ordered_masks(const char* op, const Tensor& bits, const Tensor& order,
                           const std::optional<Tensor>& takes_part) {
  require(bits.dim() == 3, op, "bits has shape ", shape_text(bits), ", must be [N, H, words]");
  MaskBatch batch = bits_batch(op, "bits", bits);
  const Tensor ranks = checked(op, "order", order, DType::kInt64, batch.count, bits);
  std::optional<Tensor> flags;
  if (takes_part) {
    flags = checked(op, "takes_part", *takes_part, DType::kBool, batch.count, bits);
  }
  const Measured found = measure(op, bits, {batch, true});
  OrderedMasks masks = {batch, found, ranks, flags};
  if (!bits.is_cuda()) check_order(op, masks.positions(), batch.count);
  return masks;
}

Tensor suppress_masks(const Tensor& bits, const Tensor& order,
                      const std::optional<Tensor>& takes_part, const std::optional<Tensor>& idxs,
                      double iou_threshold) {
  constexpr const char* op = "suppress_masks";
  check_share(op, "iou_threshold", iou_threshold);
  const OrderedMasks masks = ordered_masks(op, bits, order, takes_part);
  SuppressMasksParams p = {};
  p.masks = masks.masks();
  p.height = masks.batch.height;
  p.words = masks.batch.width;
  p.order = masks.positions();
  p.iou_threshold = iou_threshold;
  Tensor groups = bits;
  if (idxs) {
    groups = checked(op, "idxs", *idxs, DType::kInt64, p.masks.count, bits);
    p.groups = static_cast<const int64_t*>(groups.const_data_ptr());
  }
  const Tensor kept = make_result(op, bits, {p.masks.count}, DType::kBool);
  if (p.masks.count == 0) return kept;
  p.kept = static_cast<uint8_t*>(kept.mutable_data_ptr());
  run(suppress_masks_stub, op, p, bits);
  return kept;
}

std::tuple<Tensor, Tensor> merge_masks(const Tensor& bits, int64_t width, const Tensor& order,
                                       const std::optional<Tensor>& takes_part,
                                       double overlap_threshold) {
  constexpr const char* op = "merge_masks";
  check_share(op, "overlap_threshold", overlap_threshold);
  const OrderedMasks masks = ordered_masks(op, bits, order, takes_part);
  const MaskBatch& batch = masks.batch;
  check_width(op, width, bits);
  require(batch.count < std::numeric_limits<int32_t>::max(), op, "bits has shape ",
          shape_text(bits), ", must have fewer than 2^31 masks");
  MergeMasksParams p = {};
  p.masks = masks.masks();
  p.height = batch.height;
  p.width = width;
  p.words = batch.width;
  p.order = masks.positions();
  p.overlap_threshold = overlap_threshold;
  const Tensor labels = make_zeros(op, bits, {p.height, p.width}, DType::kInt32);
  const Tensor ids = make_zeros(op, bits, {p.masks.count}, DType::kInt32);
  if (batch.is_empty()) return {labels, ids};
  p.labels = static_cast<int32_t*>(labels.mutable_data_ptr());
  p.ids = static_cast<int32_t*>(ids.mutable_data_ptr());
  run(merge_masks_stub, op, p, bits);
  return {labels, ids};
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("suppress_masks", VISOPS_BOX(&visops::suppress_masks));
  m.impl("merge_masks", VISOPS_BOX(&visops::merge_masks));
}
