// The torch front of matching costs: tensors -> MatchParams.
#include "core/deformable/match.h"

#include "core/check.h"
#include "torch/register.h"
#include "torch/tensor.h"

namespace visops {
namespace {

constexpr const char* kOp = "match_cost";

DType floating_dtype_of(const char* name, const Tensor& tensor) {
  const DType dtype = dtype_of(kOp, name, tensor);
  require(is_floating(dtype), kOp, name, " has dtype ", dtype_name(dtype),
          ", must be a floating type");
  return dtype;
}

void check_numbers(const std::vector<double>& weights, double alpha, double gamma) {
  require(weights.size() == 3, kOp, "weights is ", shape_text(weights),
          ", must have three numbers: of class, box and giou");
  for (const double weight : weights) {
    require(is_finite(weight), kOp, "weights is ", shape_text(weights), ", must be finite");
  }
  require(is_finite(alpha), kOp, "alpha is ", alpha, ", must be finite");
  require(is_finite(gamma) && gamma >= 0.0, kOp, "gamma is ", gamma, ", must be finite and >= 0");
}

void check_counts(const std::vector<int64_t>& counts, int64_t images, int64_t targets) {
  require(static_cast<int64_t>(counts.size()) == images, kOp, "counts is ", shape_text(counts),
          ", must have a number for each of ", images, " images");
  int64_t left = targets;
  for (const int64_t count : counts) {
    require(count >= 0 && count <= left, kOp, "counts is ", shape_text(counts),
            ", must be >= 0 and sum to the number of targets, ", targets);
    left -= count;
  }
  require(left == 0, kOp, "counts is ", shape_text(counts),
          ", must be >= 0 and sum to the number of targets, ", targets);
}

void check_labels(const Tensor& labels, int64_t classes) {
  if (runs_cuda_kernels(labels)) return;
  const auto* label = static_cast<const int64_t*>(labels.const_data_ptr());
  for (int64_t i = 0; i < labels.numel(); ++i) {
    require(label[i] >= 0 && label[i] < classes, kOp, "target_labels[", i, "] is ", label[i],
            ", logits has ", classes, " classes");
  }
}

template <class Acc>
MatchNumbers<Acc> numbers(const std::vector<double>& weights, double alpha, double gamma) {
  return {static_cast<Acc>(weights[0]), static_cast<Acc>(weights[1]), static_cast<Acc>(weights[2]),
          static_cast<Acc>(alpha), static_cast<Acc>(gamma)};
}

const char* bytes_at(const Tensor& tensor, int64_t element, int64_t size) {
  return static_cast<const char*>(tensor.const_data_ptr()) + element * size;
}

Tensor match_cost(const Tensor& logits, const Tensor& boxes, const Tensor& target_labels,
                  const Tensor& target_boxes, const std::vector<int64_t>& counts,
                  const std::vector<double>& weights, const std::string& kind, double alpha,
                  double gamma) {
  MatchParams p = {};
  p.kind = parse_match_kind(kOp, kind);
  require(logits.dim() == 3, kOp, "logits has shape ", shape_text(logits), ", must be [B, Q, K]");
  const int64_t images = logits.size(0), targets = target_labels.numel();
  p.queries = logits.size(1);
  p.classes = logits.size(2);
  check_shape(kOp, "boxes", boxes, {images, p.queries, 4});
  require(target_labels.dim() == 1, kOp, "target_labels has shape ", shape_text(target_labels),
          ", must be [T]");
  check_shape(kOp, "target_boxes", target_boxes, {targets, 4});
  check_same_device(kOp, "logits", logits, "boxes", boxes);
  check_same_device(kOp, "logits", logits, "target_labels", target_labels);
  check_same_device(kOp, "logits", logits, "target_boxes", target_boxes);
  p.is_double = floating_dtype_of("logits", logits) == DType::kFloat64;
  floating_dtype_of("boxes", boxes);
  floating_dtype_of("target_boxes", target_boxes);
  const DType label_dtype = dtype_of(kOp, "target_labels", target_labels);
  require(label_dtype == DType::kInt64 || label_dtype == DType::kInt32, kOp,
          "target_labels has dtype ", dtype_name(label_dtype), ", must be int64 or int32");
  require(p.classes >= 1, kOp, "logits has shape ", shape_text(logits),
          ", must have at least one class");
  check_numbers(weights, alpha, gamma);
  check_counts(counts, images, targets);
  const DType dtype = p.is_double ? DType::kFloat64 : DType::kFloat32;
  const int64_t size = element_size(dtype);
  const Tensor own_logits = contiguous_as(logits, dtype), own_boxes = contiguous_as(boxes, dtype);
  const Tensor labels = contiguous_as(target_labels, DType::kInt64);
  const Tensor own_targets = contiguous_as(target_boxes, dtype);
  check_labels(labels, p.classes);
  const Tensor costs =
      empty_tensor(kOp, "result", logits, {saturating_product(p.queries, targets)}, dtype);
  if (costs.numel() == 0) return costs;
  p.single = numbers<float>(weights, alpha, gamma);
  p.wide = numbers<double>(weights, alpha, gamma);
  int64_t done = 0;  // targets
  for (int64_t first = 0; first < images; first += kMostImages) {
    p.images = images - first < kMostImages ? images - first : kMostImages;
    p.begin[0] = 0;
    for (int64_t i = 0; i < p.images; ++i) p.begin[i + 1] = p.begin[i] + counts[first + i];
    p.logits = bytes_at(own_logits, first * p.queries * p.classes, size);
    p.boxes = bytes_at(own_boxes, first * p.queries * 4, size);
    p.labels = static_cast<const int64_t*>(labels.const_data_ptr()) + done;
    p.target_boxes = bytes_at(own_targets, 4 * done, size);
    p.costs = static_cast<char*>(costs.mutable_data_ptr()) + done * p.queries * size;
    if (p.begin[p.images] > 0) run(match_cost_stub, kOp, p, logits);
    done += p.begin[p.images];
  }
  return costs;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) { m.impl("match_cost", VISOPS_BOX(&visops::match_cost)); }
