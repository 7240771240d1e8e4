// The torch front of greedy suppression.
#include "torch/suppression/nms.h"

#include "core/check.h"
#include "torch/register.h"
#include "torch/suppression/nms_device.h"
#include "torch/suppression/nms_host.h"

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
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("nms", VISOPS_BOX(&visops::nms));
  m.impl("batched_nms", VISOPS_BOX(&visops::batched_nms));
  m.impl("nms_padded", VISOPS_BOX(&visops::nms_padded));
  m.impl("nms_rotated", VISOPS_BOX(&visops::nms_rotated));
}
