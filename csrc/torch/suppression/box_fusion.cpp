// The torch front of fusion. Every device takes the device's way (NOTE [ Fronts on
// the device ] in torch/operators.h): torch's own operators sort and select, kernels form clusters.
#include "core/suppression/box_fusion.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/check.h"
#include "torch/operators.h"
#include "torch/register.h"

namespace visops {
namespace {

// The models' tensors, one after another.
struct Fusion {
  const char* op;
  Tensor boxes, scores, labels;
  std::vector<int64_t> counts;  // of boxes, for each model
  BoxFusionParams params;
  double min_score;
};

std::string entry(const char* name, size_t model) {
  return std::string(name) + "[" + std::to_string(model) + "]";
}

void check_lengths(const char* op, size_t boxes, size_t scores, size_t labels, size_t weights) {
  require(boxes > 0, op, "boxes is empty, must have an entry for each model");
  for (const auto& [name, entries] : {std::pair("scores", scores), std::pair("labels", labels)}) {
    require(entries == boxes, op, name, " has ", entries, " entries, boxes has ", boxes);
  }
  require(weights == boxes, op, "weights has ", weights, " values, must have ", boxes,
          ", one for each model");
}

void check_model(const char* op, int64_t columns, size_t model, const Tensor& first,
                 const Tensor& boxes, const Tensor& scores, const Tensor& labels) {
  const auto check_entry = [&](const char* name, const Tensor& tensor, bool shaped,
                               const std::string& allowed, bool floating) {
    const std::string argument = entry(name, model);
    require(shaped, op, argument, " has shape ", shape_text(tensor), ", must be ", allowed);
    check_same_device(op, "boxes[0]", first, argument.c_str(), tensor);
    const DType dtype = dtype_of(op, argument.c_str(), tensor);
    require(is_floating(dtype) == floating && dtype != DType::kBool, op, argument, " has dtype ",
            dtype_name(dtype),
            floating ? ", must be a floating type" : ", must be an integer type");
  };
  check_entry("boxes", boxes, boxes.dim() == 2 && boxes.size(1) == columns,
              "[N, " + std::to_string(columns) + "]", true);
  const std::vector<int64_t> expected = {boxes.size(0)};
  const std::string text = shape_text(expected);
  check_entry("scores", scores, scores.sizes().equals(expected), text, true);
  check_entry("labels", labels, labels.sizes().equals(expected), text, false);
}

Tensor joined(const std::vector<Tensor>& parts) {
  return parts.size() == 1 ? parts[0] : call_for_tensor("aten::cat", "", parts, int64_t{0});
}

Tensor on_host_of(const std::vector<int64_t>& sizes, ScalarType type) {
  return torch::stable::empty(sizes, type, std::nullopt,
                              torch::stable::Device(torch::headeronly::DeviceType::CPU));
}

// Each model's weight, on the device of `like`. Filled there: a copy would wait for the device.
Tensor weight_of_models(const Tensor& like, const std::vector<double>& weights) {
  if (runs_cuda_kernels(like)) {
    std::vector<Tensor> parts;
    for (const double weight : weights) parts.push_back(number(like, weight, ScalarType::Double));
    return joined(parts);
  }
  const Tensor host = on_host_of({static_cast<int64_t>(weights.size())}, ScalarType::Double);
  std::copy(weights.begin(), weights.end(), data_of<double>(host));
  return host;
}

// Each box's model, of which model m has counts[m]; the same.
Tensor model_of_boxes(const Tensor& like, const std::vector<int64_t>& counts) {
  if (runs_cuda_kernels(like)) {
    std::vector<Tensor> parts;
    for (size_t model = 0; model < counts.size(); ++model) {
      parts.push_back(filled(like, {counts[model]}, static_cast<int64_t>(model)));
    }
    return joined(parts);
  }
  const Tensor host =
      on_host_of({std::accumulate(counts.begin(), counts.end(), int64_t{0})}, ScalarType::Long);
  auto* next = data_of<int64_t>(host);
  for (size_t model = 0; model < counts.size(); ++model) {
    next = std::fill_n(next, counts[model], static_cast<int64_t>(model));
  }
  return host;
}

// Scores times weights, in float64; -1 for boxes that take no part: their scores are below
// min_score (compared in the scores' own dtype), infinite or NaN.
Tensor weighted_scores(const Fusion& f, const Tensor& weight_of_box) {
  const auto as_double = [&](double value) { return number(f.scores, value, ScalarType::Double); };
  const Tensor least = number(f.scores, f.min_score, f.scores.scalar_type());
  const Tensor most = as_double(std::numeric_limits<double>::max());
  const Tensor scores = torch::stable::to(f.scores, ScalarType::Double);
  const Tensor takes_part = call_for_tensor("aten::logical_and", "",
                                            call_for_tensor("aten::ge", "Tensor", f.scores, least),
                                            call_for_tensor("aten::le", "Tensor", scores, most));
  const Tensor weighted = call_for_tensor("aten::mul", "Tensor", scores, weight_of_box);
  return call_for_tensor("aten::where", "self", takes_part, weighted, as_double(-1.0));
}

// The clusters, by falling score.
std::tuple<Tensor, Tensor, Tensor> ranked(const Fusion& f, const Tensor& is_cluster,
                                          const Tensor& fused, const Tensor& scores,
                                          const Tensor& labels) {
  const Tensor found = masked(flat(numbers(f.boxes, 1, f.params.count)), is_cluster);
  const Sorted by_score = sort_last(select(scores, found), true);
  const Tensor rows = select(found, by_score.indices);
  return {select(fused, rows), by_score.values, select(labels, rows)};
}

// Checks all arguments and joins the models' tensors; labels become int64. `p` has the options.
Fusion fusion_of(const char* op, BoxFusionParams p, const std::vector<Tensor>& boxes,
                 const std::vector<Tensor>& scores, const std::vector<Tensor>& labels,
                 const std::vector<double>& weights, double min_score) {
  check_lengths(op, boxes.size(), scores.size(), labels.size(), weights.size());
  Fusion f = {op, boxes[0], scores[0], labels[0], {}, {}, min_score};
  for (size_t model = 0; model < boxes.size(); ++model) {
    check_model(op, p.in_space ? 6 : 4, model, boxes[0], boxes[model], scores[model],
                labels[model]);
    f.counts.push_back(boxes[model].size(0));
  }
  p.models = static_cast<int64_t>(weights.size());
  check_box_fusion(op, &p, weights.data(), min_score);
  std::vector<Tensor> wide_labels;
  for (const Tensor& tensor : labels) {
    wide_labels.push_back(torch::stable::to(tensor, ScalarType::Long));
  }
  f.boxes = joined(boxes);
  f.scores = joined(scores);
  f.labels = joined(wide_labels);
  p.boxes = f.boxes.const_data_ptr();
  p.dtype = dtype_of(op, "boxes", f.boxes);
  p.box_stride = f.boxes.stride(0);
  p.coordinate_stride = f.boxes.stride(1);
  p.count = f.boxes.size(0);
  p.score_dtype = dtype_of(op, "scores", f.scores);
  f.params = p;
  return f;
}

using Fused = std::tuple<Tensor, Tensor, Tensor>;

Fused run_fusion(Fusion f, const std::vector<double>& weights, const Tensor& first_labels) {
  BoxFusionParams& p = f.params;
  const Tensor& boxes = f.boxes;
  const int64_t columns = boxes.size(1);
  const auto make = [&](const char* what, const std::vector<int64_t>& sizes, DType dtype) {
    return empty_tensor(f.op, what, boxes, sizes, dtype);
  };
  if (p.count == 0) {
    return {make("result", {0, columns}, p.dtype), make("result", {0}, p.score_dtype),
            make("result", {0}, dtype_of(f.op, "labels", first_labels))};
  }
  const Tensor weight = weight_of_models(boxes, weights);
  const Tensor model = model_of_boxes(boxes, f.counts);
  const Tensor weighted = weighted_scores(f, select(weight, model));
  const Sorted order = sort_by_group(weighted, f.labels);
  const Tensor fused = make("result", {p.count, columns}, p.dtype);
  const Tensor score = make("result", {p.count}, p.score_dtype);
  Tensor is_cluster = make("scratch", {p.count}, DType::kUInt8);
  torch::stable::zero_(is_cluster);

  p.order = data_of<int64_t>(order.indices);
  p.label = data_of<int64_t>(order.values);
  p.weighted = data_of<double>(weighted);
  p.model = data_of<int64_t>(model);
  p.weights = data_of<double>(weight);
  p.fused = fused.mutable_data_ptr();
  p.score = score.mutable_data_ptr();
  p.is_cluster = data_of<uint8_t>(is_cluster);
  run(box_fusion_stub, f.op, p, boxes);
  auto [found, values, labels] = ranked(f, is_cluster, fused, score, order.values);
  return {found, values, torch::stable::to(labels, first_labels.scalar_type())};
}

Fused weighted_mean(const char* op, bool in_space, const std::vector<Tensor>& boxes,
                    const std::vector<Tensor>& scores, const std::vector<Tensor>& labels,
                    const std::vector<double>& weights, double iou_threshold, double min_score,
                    const std::string& conf_type, bool allows_overflow) {
  BoxFusionParams p = {};
  p.in_space = in_space;
  p.iou_threshold = iou_threshold;
  p.confidence = parse_confidence(op, conf_type);
  p.allows_overflow = allows_overflow;
  // Apart from the call, so that the lists are checked before labels[0] is read.
  const Fusion fusion = fusion_of(op, p, boxes, scores, labels, weights, min_score);
  return run_fusion(fusion, weights, labels[0]);
}

Fused weighted_boxes_fusion(const std::vector<Tensor>& boxes, const std::vector<Tensor>& scores,
                            const std::vector<Tensor>& labels, const std::vector<double>& weights,
                            double iou_threshold, double min_score, const std::string& conf_type,
                            bool allows_overflow) {
  return weighted_mean("weighted_boxes_fusion", false, boxes, scores, labels, weights,
                       iou_threshold, min_score, conf_type, allows_overflow);
}

Fused weighted_boxes_fusion_3d(const std::vector<Tensor>& boxes, const std::vector<Tensor>& scores,
                               const std::vector<Tensor>& labels,
                               const std::vector<double>& weights, double iou_threshold,
                               double min_score, const std::string& conf_type,
                               bool allows_overflow) {
  return weighted_mean("weighted_boxes_fusion_3d", true, boxes, scores, labels, weights,
                       iou_threshold, min_score, conf_type, allows_overflow);
}

Fused non_maximum_weighted(const std::vector<Tensor>& boxes, const std::vector<Tensor>& scores,
                           const std::vector<Tensor>& labels, const std::vector<double>& weights,
                           double iou_threshold, double min_score) {
  BoxFusionParams p = {};
  p.around_best = true;
  p.iou_threshold = iou_threshold;
  p.confidence = Confidence::kMaximum;
  const Fusion fusion =
      fusion_of("non_maximum_weighted", p, boxes, scores, labels, weights, min_score);
  return run_fusion(fusion, weights, labels[0]);
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("weighted_boxes_fusion", VISOPS_BOX(&visops::weighted_boxes_fusion));
  m.impl("weighted_boxes_fusion_3d", VISOPS_BOX(&visops::weighted_boxes_fusion_3d));
  m.impl("non_maximum_weighted", VISOPS_BOX(&visops::non_maximum_weighted));
}
