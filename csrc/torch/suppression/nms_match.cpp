// The torch front of matching: suppression, and then which kept box the others belong to.
#include "core/suppression/nms_match.h"

#include "torch/operators.h"
#include "torch/register.h"
#include "torch/suppression/nms.h"

namespace visops {
namespace {

constexpr int64_t kBoxCost = 1024;  // elements' worth of work in matching a box

template <class Acc>
Tensor load_kept(const NmsMatchParams& p, const Tensor& like) {
  const int64_t bytes = p.kept_count * static_cast<int64_t>(sizeof(Box<Acc>));
  const Tensor memory = empty_tensor("nms_match", "scratch", like, {bytes}, DType::kUInt8);
  auto* boxes = static_cast<Box<Acc>*>(memory.mutable_data_ptr());
  for (int64_t k = 0; k < p.kept_count; ++k) boxes[k] = box_at<Acc>(p, p.kept[k]);
  return memory;
}

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
  const Tensor kept = call.on_device() ? nms_on_device(call) : nms_on_host(call);
  const Tensor matched =
      call_for_tensor("aten::index_copy", "", filled(boxes, {p.count}, -1), int64_t{0}, kept, kept);
  p.kept = static_cast<const int64_t*>(kept.const_data_ptr());
  p.kept_count = kept.numel();
  p.matched = static_cast<int64_t*>(matched.mutable_data_ptr());
  Tensor loaded;
  if (!call.on_device()) {
    loaded = computes_in_double(p.dtype) ? load_kept<double>(p, boxes) : load_kept<float>(p, boxes);
    p.kept_boxes = loaded.const_data_ptr();
  }
  run(nms_match_stub, p, boxes, p.count, kBoxCost);
  return matched;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) { m.impl("nms_match", TORCH_BOX(&visops::nms_match)); }
