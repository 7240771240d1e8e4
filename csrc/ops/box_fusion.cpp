// The torch front of weighted boxes fusion. Sorting and selecting are torch's own operators on
// every device; the kernels go through the clusters.
#include "core/box_fusion.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "ops/torch_operators.h"

namespace visops {
namespace {

constexpr const char* kOp = "weighted_boxes_fusion";
constexpr int64_t kBoxCost = 512;  // elements' worth of work in placing a box

struct Fusion {
  Tensor boxes, scores, labels;
  BoxFusionParams params;
  const std::vector<int64_t>& boxes_per_model;
  const std::vector<double>& weights;
  double min_score;
};

void check_lengths(const Fusion& f) {
  const auto models = static_cast<int64_t>(f.boxes_per_model.size());
  require(static_cast<int64_t>(f.weights.size()) == models, kOp, "weights has ", f.weights.size(),
          " values, must have ", models, ", one for each model");
  int64_t total = 0;
  for (int64_t model = 0; model < models; ++model) {
    const int64_t boxes = f.boxes_per_model[model];
    require(boxes >= 0 && boxes <= f.boxes.size(0) - total, kOp, "boxes_per_model is ",
            shape_text(f.boxes_per_model), ", boxes has shape ", shape_text(f.boxes));
    total += boxes;
  }
  require(total == f.boxes.size(0), kOp, "boxes_per_model is ", shape_text(f.boxes_per_model),
          ", boxes has shape ", shape_text(f.boxes));
}

void check_arguments(Fusion& f) {
  const Tensor& boxes = f.boxes;
  require(boxes.dim() == 2 && boxes.size(1) == 4, kOp, "boxes has shape ", shape_text(boxes),
          ", must be [N, 4]");
  const std::vector<int64_t> expected = {boxes.size(0)};
  for (const auto& [name, tensor] :
       {std::pair("scores", f.scores), std::pair("labels", f.labels)}) {
    require(tensor.sizes().equals(expected), kOp, name, " has shape ", shape_text(tensor),
            ", must be ", shape_text(expected));
    check_same_device(kOp, "boxes", boxes, name, tensor);
  }
  BoxFusionParams& p = f.params;
  p.boxes = boxes.const_data_ptr();
  p.dtype = dtype_of(kOp, "boxes", boxes);
  p.box_stride = boxes.stride(0);
  p.coordinate_stride = boxes.stride(1);
  p.count = boxes.size(0);
  p.score_dtype = dtype_of(kOp, "scores", f.scores);
  const DType label_dtype = dtype_of(kOp, "labels", f.labels);
  require(!is_floating(label_dtype) && label_dtype != DType::kBool, kOp, "labels has dtype ",
          dtype_name(label_dtype), ", must be an integer type");
  check_lengths(f);
  p.models = static_cast<int64_t>(f.weights.size());
  check_box_fusion(kOp, &p, f.weights.data(), f.min_score);
}

// Numbers of the host as a tensor on the device of `like`.
template <class T>
Tensor on_device_of(const Tensor& like, const std::vector<T>& values, ScalarType type) {
  const std::vector<int64_t> sizes = {static_cast<int64_t>(values.size())};
  const Tensor host = torch::stable::empty(
      sizes, type, std::nullopt, torch::stable::Device(torch::headeronly::DeviceType::CPU));
  std::copy(values.begin(), values.end(), static_cast<T*>(host.mutable_data_ptr()));
  return like.is_cuda() ? torch::stable::to(host, like.device()) : host;
}

// Scores times weights, in float64; -1 for what takes no part: below min_score (compared in the
// scores' own dtype), infinite or NaN.
Tensor weighted_scores(const Fusion& f, const Tensor& weight_of_box) {
  const auto constant = [&](ScalarType type, double value) {
    Tensor tensor = torch::stable::new_empty(f.scores, {1}, type);
    return torch::stable::fill_(tensor, value);
  };
  const double most = std::numeric_limits<double>::max();
  const Tensor least = constant(f.scores.scalar_type(), f.min_score);
  const Tensor scores = torch::stable::to(f.scores, ScalarType::Double);
  const Tensor takes_part = call_for_tensor(
      "aten::logical_and", "", call_for_tensor("aten::ge", "Tensor", f.scores, least),
      call_for_tensor("aten::le", "Tensor", scores, constant(ScalarType::Double, most)));
  const Tensor weighted = call_for_tensor("aten::mul", "Tensor", scores, weight_of_box);
  return call_for_tensor("aten::where", "self", takes_part, weighted,
                         constant(ScalarType::Double, -1.0));
}

// The clusters that were found, by falling score.
std::tuple<Tensor, Tensor, Tensor> ranked(const Fusion& f, const Tensor& is_cluster,
                                          const Tensor& fused, const Tensor& scores,
                                          const Tensor& labels) {
  const Tensor found = masked(flat(numbers(f.boxes, 1, f.params.count)), is_cluster);
  const Sorted by_score = sort_last(select(scores, found), true);
  const Tensor rows = select(found, by_score.indices);
  return {select(fused, rows), by_score.values,
          torch::stable::to(select(labels, rows), f.labels.scalar_type())};
}

std::tuple<Tensor, Tensor, Tensor> weighted_boxes_fusion(
    const Tensor& boxes, const Tensor& scores, const Tensor& labels,
    const std::vector<int64_t>& boxes_per_model, const std::vector<double>& weights,
    double iou_threshold, double min_score, const std::string& conf_type, bool allows_overflow) {
  Fusion f = {boxes, scores, labels, {}, boxes_per_model, weights, min_score};
  BoxFusionParams& p = f.params;
  p.iou_threshold = iou_threshold;
  p.confidence = parse_confidence(kOp, conf_type);
  p.allows_overflow = allows_overflow;
  check_arguments(f);

  const auto make = [&](const char* what, const std::vector<int64_t>& sizes, DType dtype) {
    return empty_tensor(kOp, what, boxes, sizes, dtype);
  };
  if (p.count == 0) {
    return {make("result", {0, 4}, p.dtype), make("result", {0}, p.score_dtype),
            make("result", {0}, dtype_of(kOp, "labels", labels))};
  }
  const Tensor weight = on_device_of(boxes, weights, ScalarType::Double);
  const Tensor model = call_for_tensor("aten::repeat_interleave", "Tensor",
                                       on_device_of(boxes, boxes_per_model, ScalarType::Long),
                                       std::optional<int64_t>(p.count));
  const Tensor weighted = weighted_scores(f, select(weight, model));
  const Sorted order = sort_by_group(weighted, torch::stable::to(labels, ScalarType::Long));
  const Tensor fused = make("result", {p.count, 4}, p.dtype);
  const Tensor score = make("result", {p.count}, p.score_dtype);
  Tensor is_cluster = make("scratch", {p.count}, DType::kUInt8);
  torch::stable::zero_(is_cluster);
  const Tensor scratch = make("scratch", {box_fusion_scratch_bytes(p)}, DType::kUInt8);

  p.order = data_of<int64_t>(order.indices);
  p.label = data_of<int64_t>(order.values);
  p.weighted = data_of<double>(weighted);
  p.model = data_of<int64_t>(model);
  p.weights = data_of<double>(weight);
  p.fused = fused.mutable_data_ptr();
  p.score = score.mutable_data_ptr();
  p.is_cluster = data_of<uint8_t>(is_cluster);
  p.scratch = scratch.mutable_data_ptr();
  run(box_fusion_stub, p, boxes, p.count, kBoxCost);
  return ranked(f, is_cluster, fused, score, order.values);
}

}  // namespace
}  // namespace visops

STABLE_TORCH_LIBRARY_IMPL(visops, CPU, m) {
  m.impl("weighted_boxes_fusion", TORCH_BOX(&visops::weighted_boxes_fusion));
}

STABLE_TORCH_LIBRARY_IMPL(visops, CUDA, m) {
  m.impl("weighted_boxes_fusion", TORCH_BOX(&visops::weighted_boxes_fusion));
}
