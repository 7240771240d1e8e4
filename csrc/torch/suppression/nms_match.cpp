// The torch front of matching: suppression, then which kept box each of the others belongs to.
#include "core/suppression/nms_match.h"

#include "torch/operators.h"
#include "torch/register.h"
#include "torch/suppression/nms.h"

namespace visops {
namespace {

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

VISOPS_KERNELS(m) { m.impl("nms_match", VISOPS_BOX(&visops::nms_match)); }
