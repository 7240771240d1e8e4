// The torch front of matrix suppression. Every device takes the device's way (NOTE [ Fronts on the
// device ] in torch/operators.h): torch's own operators sort and select, kernels compute new
// scores.
#include "core/suppression/matrix_nms.h"

#include <algorithm>

#include "core/check.h"
#include "torch/operators.h"
#include "torch/register.h"

namespace visops {
namespace {

using MaybeTensor = std::optional<Tensor>;

constexpr const char* kOp = "matrix_nms";

void check_arguments(const Tensor& objects, const Tensor& scores, const MaybeTensor& idxs) {
  const bool boxes = objects.dim() == 2 && objects.size(1) == 4;
  require(boxes || objects.dim() == 3, kOp, "objects has shape ", shape_text(objects),
          ", must be [N, 4] (boxes) or [N, H, W] (masks)");
  const std::vector<int64_t> expected = {objects.size(0)};
  require(scores.sizes().equals(expected), kOp, "scores has shape ", shape_text(scores),
          ", must be ", shape_text(expected));
  check_same_device(kOp, "objects", objects, "scores", scores);
  if (!boxes) {
    const DType dtype = dtype_of(kOp, "objects", objects);
    require(dtype == DType::kBool || dtype == DType::kUInt8, kOp, "objects has dtype ",
            dtype_name(dtype), ", masks must be bool or uint8");
  }
  if (!idxs) return;
  require(idxs->sizes().equals(expected), kOp, "idxs has shape ", shape_text(*idxs), ", must be ",
          shape_text(expected));
  check_same_device(kOp, "objects", objects, "idxs", *idxs);
  const DType dtype = dtype_of(kOp, "idxs", *idxs);
  require(!is_floating(dtype) && dtype != DType::kBool, kOp, "idxs has dtype ", dtype_name(dtype),
          ", must be an integer type");
}

MatrixNmsParams params_of(const Tensor& objects, const Tensor& scores, const std::string& method,
                          double sigma) {
  MatrixNmsParams p = {};
  p.count = objects.size(0);
  p.dtype = DType::kUInt8;
  if (objects.dim() == 2) {
    p.boxes = objects.const_data_ptr();
    p.dtype = dtype_of(kOp, "objects", objects);
    p.box_stride = objects.stride(0);
    p.coordinate_stride = objects.stride(1);
  }
  p.score_dtype = dtype_of(kOp, "scores", scores);
  p.decay = parse_decay_function(kOp, method);
  p.sigma = sigma;
  return p;
}

Tensor make(const Tensor& like, const char* what, int64_t count, DType dtype) {
  return empty_tensor(kOp, what, like, {count}, dtype);
}

// Masks as bits, in `order`, for the kernel.
struct PackedMasks {
  Tensor bits, extent;
  int64_t words;
};

PackedMasks pack_masks(const Tensor& masks, const Tensor& order) {
  MaskBitsParams p = {};
  p.masks = static_cast<const uint8_t*>(masks.const_data_ptr());
  p.height = masks.size(1);
  p.width = masks.size(2);
  p.mask_stride = masks.stride(0);
  p.row_stride = masks.stride(1);
  p.column_stride = masks.stride(2);
  p.count = masks.size(0);
  p.order = data_of<const int64_t>(order);
  const int64_t words = mask_words(p);
  const int64_t extents = static_cast<int64_t>(sizeof(MaskExtent) / sizeof(int64_t));
  const PackedMasks packed = {make(masks, "scratch", p.count * words, DType::kInt64),
                              make(masks, "scratch", p.count * extents, DType::kInt64), words};
  p.bits = data_of<uint64_t>(packed.bits);
  p.extent = data_of<MaskExtent>(packed.extent);
  run(mask_bits_stub, kOp, p, masks);
  return packed;
}

Tensor at_least(const Tensor& scores, const Tensor& least) {
  return call_for_tensor("aten::ge", "Tensor", scores, least);
}

std::tuple<Tensor, Tensor> matrix_nms(const Tensor& objects, const Tensor& scores,
                                      const MaybeTensor& idxs, const std::string& method,
                                      double sigma, double min_score, int64_t max_output) {
  check_arguments(objects, scores, idxs);
  MatrixNmsParams p = params_of(objects, scores, method, sigma);
  check_matrix_nms(kOp, p, min_score);
  require(max_output >= -1, kOp, "max_output is ", max_output, ", must be >= 0");
  if (p.count == 0) {
    return {make(objects, "result", 0, DType::kInt64), make(objects, "result", 0, p.score_dtype)};
  }
  // Compared in the scores' own dtype. Scores never rise: an object below now stays below, and
  // decays only worse ones, which are below too.
  const Tensor least = number(scores, min_score, scores.scalar_type());
  const Tensor taking_part = call_for_tensor("aten::where", "self", at_least(scores, least), scores,
                                             number(scores, -1.0, scores.scalar_type()));
  const Tensor groups =
      idxs ? torch::stable::to(*idxs, ScalarType::Long) : filled(objects, {p.count}, 0);
  const Sorted order = sort_by_group(taking_part, groups);
  const Tensor changed = make(objects, "new_scores", p.count, p.score_dtype);
  p.order = data_of<const int64_t>(order.indices);
  p.segment = data_of<const int64_t>(order.values);
  p.scores = taking_part.const_data_ptr();
  p.new_scores = changed.mutable_data_ptr();
  std::optional<PackedMasks> masks;
  if (p.boxes == nullptr) {
    masks = pack_masks(objects, order.indices);
    p.bits = data_of<const uint64_t>(masks->bits);
    p.extent = data_of<const MaskExtent>(masks->extent);
    p.words = masks->words;
  }
  run(matrix_nms_stub, kOp, p, objects);

  const Tensor found = masked(flat(numbers(objects, 1, p.count)), at_least(changed, least));
  Sorted by_score = sort_last(select(changed, found), true);
  const int64_t kept = max_output < 0 ? found.numel() : std::min(max_output, found.numel());
  return {select(found, torch::stable::narrow(by_score.indices, 0, 0, kept)),
          torch::stable::narrow(by_score.values, 0, 0, kept)};
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) { m.impl("matrix_nms", VISOPS_BOX(&visops::matrix_nms)); }
