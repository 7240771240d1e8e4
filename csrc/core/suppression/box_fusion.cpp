#include "core/suppression/box_fusion.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace visops {

KernelStub<BoxFusionParams> box_fusion_stub{"weighted_boxes_fusion"};

Confidence parse_confidence(const char* op, const std::string& name) {
  if (name == "avg") return Confidence::kAverage;
  if (name == "max") return Confidence::kMaximum;
  if (name == "box_and_model_avg") return Confidence::kBoxAndModelAverage;
  if (name == "absent_model_aware_avg") return Confidence::kAbsentModelAwareAverage;
  fail(op, "conf_type is '", name,
       "', must be avg, max, box_and_model_avg or absent_model_aware_avg");
}

void check_box_fusion(const char* op, BoxFusionParams* params, const double* weights,
                      double min_score) {
  BoxFusionParams& p = *params;
  require(p.iou_threshold >= 0.0 && p.iou_threshold <= 1.0, op, "iou_threshold is ",
          p.iou_threshold, ", must be in [0, 1]");
  require(min_score >= 0.0 && std::isfinite(min_score), op, "min_score is ", min_score,
          ", must be >= 0 and finite");
  p.weights_sum = p.weights_most = 0.0;
  for (int64_t model = 0; model < p.models; ++model) {
    require(weights[model] >= 0.0 && std::isfinite(weights[model]), op, "weights[", model, "] is ",
            weights[model], ", must be >= 0 and finite");
    p.weights_sum += weights[model];
    p.weights_most = std::max(p.weights_most, weights[model]);
  }
  require(p.weights_sum > 0.0, op, "weights are all 0, one must be > 0");
}

}  // namespace visops
