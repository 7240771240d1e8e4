// The torch front of greedy suppression.
#include "torch/suppression/nms.h"

#include <cmath>

#include "core/check.h"
#include "core/numbers/element.h"
#include "core/suppression/nms.h"
#include "torch/operators.h"
#include "torch/register.h"

namespace visops {

Tensor kept_rows(const NmsCall& call) {
  return runs_cuda_kernels(call.boxes) ? nms_on_device(call) : nms_on_host(call);
}

namespace {

using MaybeTensor = std::optional<Tensor>;
using MaybeNumber = std::optional<double>;

Tensor nms(const Tensor& boxes, const Tensor& scores, double iou_threshold, int64_t max_output,
           MaybeNumber score_threshold) {
  const NmsForms forms = {true, false};
  return kept_rows(checked_nms_call("nms", boxes, scores, {}, forms, iou_threshold, max_output,
                                    score_threshold));
}

Tensor batched_nms(const Tensor& boxes, const Tensor& scores, const MaybeTensor& idxs,
                   double iou_threshold, int64_t max_output, MaybeNumber score_threshold) {
  const NmsForms forms = {true, true, true};
  return kept_rows(checked_nms_call("batched_nms", boxes, scores, idxs, forms, iou_threshold,
                                    max_output, score_threshold));
}

Tensor nms_rotated(const Tensor& boxes, const Tensor& scores, const MaybeTensor& idxs,
                   double iou_threshold, int64_t max_output, MaybeNumber score_threshold) {
  const NmsForms forms = {true, false, true, true};
  return kept_rows(checked_nms_call("nms_rotated", boxes, scores, idxs, forms, iou_threshold,
                                    max_output, score_threshold));
}

std::tuple<Tensor, Tensor> nms_padded(const Tensor& boxes, const Tensor& scores,
                                      double iou_threshold, int64_t max_output,
                                      MaybeNumber score_threshold) {
  require(max_output >= 0, "nms_padded", "max_output is ", max_output, ", must be >= 0");
  const NmsCall call = checked_nms_call("nms_padded", boxes, scores, {}, {false, true},
                                        iou_threshold, max_output, score_threshold);
  const PaddedResult result =
      runs_cuda_kernels(boxes) ? nms_padded_on_device(call) : nms_padded_on_host(call);
  return {result.indices, result.count};
}

}  // namespace
namespace {

void check_boxes(const NmsCall& call, const NmsForms& forms) {
  const Tensor& boxes = call.boxes;
  const int64_t dim = boxes.dim(), width = call.rotated ? 5 : 4;
  const bool shaped =
      ((forms.single && dim == 2) || (forms.batch && dim == 3)) && boxes.size(dim - 1) == width;
  if (shaped) return;
  const std::string single = "[N, " + std::to_string(width) + "]";
  const std::string batch = "[B, N, " + std::to_string(width) + "]";
  const std::string either = forms.single && forms.batch ? " or " : "";
  fail(call.op, "boxes has shape ", shape_text(boxes), ", must be ", forms.single ? single : "",
       either, forms.batch ? batch : "");
}

// Scores must fit the boxes; those of a batch may have a dimension of `classes`.
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

void check_ids(const NmsCall& call, bool required) {
  if (!call.ids) {
    require(call.in_batch || !required, call.op, "idxs must be given for boxes of shape ",
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
  call.score_dtype = dtype_of(call.op, "scores", call.scores);
  require(is_floating(call.score_dtype), call.op, "scores has dtype ", dtype_name(call.score_dtype),
          ", must be a floating type");
  require(max_output >= -1, call.op, "max_output is ", max_output, ", must be >= 0");
  p.max_output = max_output;
  if (score_threshold) {
    require(!std::isnan(*score_threshold), call.op, "score_threshold is nan, must be a number");
    call.score_threshold = rounded_to(call.score_dtype, *score_threshold);
  }
}

}  // namespace

NmsCall checked_nms_call(const char* op, const Tensor& boxes, const Tensor& scores,
                         const std::optional<Tensor>& ids, NmsForms forms, double iou_threshold,
                         int64_t max_output, std::optional<double> score_threshold) {
  NmsCall call = {op, boxes, scores, ids, forms.rotated};
  check_boxes(call, forms);
  check_scores(call, forms.groups);
  set_params(call, iou_threshold, max_output, score_threshold);
  if (forms.groups) check_ids(call, !forms.rotated);
  return call;
}

PaddedResult empty_padded_result(const NmsCall& call) {
  const int64_t most = call.params.max_output;
  return {empty_tensor(call.op, "indices", call.boxes, {call.images, most}, DType::kInt64),
          empty_tensor(call.op, "count", call.boxes, {call.images}, DType::kInt64)};
}

NmsPadParams padding_of(const NmsCall& call, const PaddedResult& result) {
  NmsPadParams p = {};
  p.images = call.images;
  p.per_image = call.per_image;
  p.most = call.params.max_output;
  p.indices = static_cast<int64_t*>(result.indices.mutable_data_ptr());
  p.count = static_cast<int64_t*>(result.count.mutable_data_ptr());
  return p;
}

void run_padding(const NmsCall& call, const NmsPadParams& p) {
  run(nms_pad_stub, call.op, p, call.boxes);
}

namespace {

// The torch front of matching: suppression, then which kept box each of the others belongs to.

Tensor nms_match(const Tensor& boxes, const Tensor& scores, double iou_threshold) {
  const NmsCall call = checked_nms_call("nms_match", boxes, scores, {}, {true, false},
                                        iou_threshold, -1, std::nullopt);
  NmsMatchParams p = {};
  p.boxes = call.params.boxes;
  p.dtype = call.params.dtype;
  p.box_stride = call.params.box_stride;
  p.coordinate_stride = call.params.coordinate_stride;
  p.count = call.per_image;
  p.iou_threshold = iou_threshold;
  const Tensor kept = kept_rows(call);
  const Tensor matched =
      call_for_tensor("aten::index_copy", "", filled(boxes, {p.count}, -1), int64_t{0}, kept, kept);
  p.kept = static_cast<const int64_t*>(kept.const_data_ptr());
  p.kept_count = kept.numel();
  p.matched = static_cast<int64_t*>(matched.mutable_data_ptr());
  run(nms_match_stub, call.op, p, boxes);
  return matched;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("nms", VISOPS_BOX(&visops::nms));
  m.impl("batched_nms", VISOPS_BOX(&visops::batched_nms));
  m.impl("nms_padded", VISOPS_BOX(&visops::nms_padded));
  m.impl("nms_rotated", VISOPS_BOX(&visops::nms_rotated));
  m.impl("nms_match", VISOPS_BOX(&visops::nms_match));
}
