#include "torch/suppression/nms_call.h"

#include <cmath>

#include "core/check.h"
#include "core/numbers/round_to_dtype.h"

namespace visops {
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

}  // namespace visops
