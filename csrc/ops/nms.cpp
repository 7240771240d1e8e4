// The torch front of greedy suppression: arguments -> NmsCall, and which way it is done.
#include "ops/nms.h"

#include <cmath>

#include "core/affine_front.h"
#include "core/check.h"

namespace visops {
namespace {

using MaybeTensor = std::optional<Tensor>;

// [N, 4] or, where `batches`, [B, N, 4].
void check_boxes(const NmsCall& call, bool single, bool batches) {
  const Tensor& boxes = call.boxes;
  const int64_t dim = boxes.dim();
  const bool shaped = ((single && dim == 2) || (batches && dim == 3)) && boxes.size(dim - 1) == 4;
  const char* allowed = single ? (batches ? "[N, 4] or [B, N, 4]" : "[N, 4]") : "[B, N, 4]";
  require(shaped, call.op, "boxes has shape ", shape_text(boxes), ", must be ", allowed);
}

// What boxes imply; scores of a batch may have a dimension of classes.
void check_scores(const NmsCall& call, bool classes) {
  const Tensor &boxes = call.boxes, &scores = call.scores;
  const int64_t dims = boxes.dim() - 1;
  bool shaped = scores.dim() == dims || (classes && dims == 2 && scores.dim() == 3);
  for (int64_t d = 0; shaped && d < dims; ++d) shaped = scores.size(d) == boxes.size(d);
  if (shaped) return;
  const std::vector<int64_t> expected(boxes.sizes().begin(), boxes.sizes().begin() + dims);
  std::string text = shape_text(expected);
  if (classes && dims == 2) text += " or " + text.substr(0, text.size() - 1) + ", classes]";
  fail(call.op, "scores has shape ", shape_text(scores), ", must be ", text);
}

void check_ids(const NmsCall& call) {
  if (!call.ids) {
    require(call.in_batch, call.op, "idxs must be given for boxes of shape ",
            shape_text(call.boxes));
    return;
  }
  const Tensor& ids = *call.ids;
  require(!call.by_class, call.op, "idxs can't be given with scores of shape ",
          shape_text(call.scores), "; each class is a group");
  require(ids.sizes().equals(call.scores.sizes()), call.op, "idxs has shape ", shape_text(ids),
          ", must be ", shape_text(call.scores));
  check_same_device(call.op, "boxes", call.boxes, "idxs", ids);
  const DType dtype = dtype_of(call.op, "idxs", ids);
  require(!is_floating(dtype) && dtype != DType::kBool, call.op, "idxs has dtype ",
          dtype_name(dtype), ", must be an integer type");
}

// The threshold as torch's comparison of such scores has it.
double rounded_to(DType dtype, double value) {
  if (dtype == DType::kFloat64) return value;
  const auto single = static_cast<float>(value);
  if (dtype == DType::kFloat16) return half_to_float(float_to_half(single));
  if (dtype == DType::kBFloat16) {
    const BFloat16 stored = {float_to_bfloat16(single)};
    return load_element(&stored);
  }
  return single;
}

void set_params(NmsCall& call, double iou_threshold, int64_t max_output,
                std::optional<double> score_threshold) {
  const Tensor& boxes = call.boxes;
  check_same_device(call.op, "boxes", boxes, "scores", call.scores);
  NmsParams& p = call.params;
  p.boxes = boxes.const_data_ptr();
  p.dtype = dtype_of(call.op, "boxes", boxes);
  const int64_t dim = boxes.dim();
  p.image_stride = dim == 3 ? boxes.stride(0) : 0;
  p.box_stride = boxes.stride(dim - 2);
  p.coordinate_stride = boxes.stride(dim - 1);
  p.per_image = call.per_image = boxes.size(dim - 2);
  call.images = dim == 3 ? boxes.size(0) : 1;
  call.in_batch = dim == 3;
  call.by_class = call.scores.dim() == 3;
  p.classes = call.classes = call.by_class ? call.scores.size(2) : 1;
  p.iou_threshold = iou_threshold;
  check_nms(call.op, p);
  p.score_dtype = dtype_of(call.op, "scores", call.scores);
  require(is_floating(p.score_dtype), call.op, "scores has dtype ", dtype_name(p.score_dtype),
          ", must be a floating type");
  require(max_output >= -1, call.op, "max_output is ", max_output, ", must be >= 0");
  p.max_output = max_output;
  p.filtered = score_threshold.has_value();
  if (p.filtered) {
    require(!std::isnan(*score_threshold), call.op, "score_threshold is nan, must be a number");
    p.score_threshold = rounded_to(p.score_dtype, *score_threshold);
  }
}

bool on_device(const NmsCall& call) {
  return call.boxes.is_cuda() || cpu_slot() == Slot::kCudaEmulated;
}

Tensor nms(const Tensor& boxes, const Tensor& scores, double iou_threshold, int64_t max_output,
           std::optional<double> score_threshold) {
  NmsCall call = {"nms", boxes, scores, std::nullopt, 0, 0, 0, false, false, {}};
  check_boxes(call, true, false);
  check_scores(call, false);
  set_params(call, iou_threshold, max_output, score_threshold);
  return on_device(call) ? nms_on_device(call) : nms_on_host(call);
}

Tensor batched_nms(const Tensor& boxes, const Tensor& scores, const MaybeTensor& idxs,
                   double iou_threshold, int64_t max_output,
                   std::optional<double> score_threshold) {
  NmsCall call = {"batched_nms", boxes, scores, idxs, 0, 0, 0, false, false, {}};
  check_boxes(call, true, true);
  check_scores(call, true);
  set_params(call, iou_threshold, max_output, score_threshold);
  check_ids(call);
  return on_device(call) ? nms_on_device(call) : nms_on_host(call);
}

std::tuple<Tensor, Tensor> nms_padded(const Tensor& boxes, const Tensor& scores,
                                      double iou_threshold, int64_t max_output,
                                      std::optional<double> score_threshold) {
  NmsCall call = {"nms_padded", boxes, scores, std::nullopt, 0, 0, 0, false, false, {}};
  check_boxes(call, false, true);
  check_scores(call, false);
  require(max_output >= 0, call.op, "max_output is ", max_output, ", must be >= 0");
  set_params(call, iou_threshold, max_output, score_threshold);
  const PaddedResult result =
      on_device(call) ? nms_padded_on_device(call) : nms_padded_on_host(call);
  return {result.indices, result.count};
}

}  // namespace
}  // namespace visops

STABLE_TORCH_LIBRARY_IMPL(visops, CPU, m) {
  m.impl("nms", TORCH_BOX(&visops::nms));
  m.impl("batched_nms", TORCH_BOX(&visops::batched_nms));
  m.impl("nms_padded", TORCH_BOX(&visops::nms_padded));
}

STABLE_TORCH_LIBRARY_IMPL(visops, CUDA, m) {
  m.impl("nms", TORCH_BOX(&visops::nms));
  m.impl("batched_nms", TORCH_BOX(&visops::batched_nms));
  m.impl("nms_padded", TORCH_BOX(&visops::nms_padded));
}
