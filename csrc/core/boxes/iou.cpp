#include "core/boxes/iou.h"

#include "core/check.h"

namespace visops {

KernelStub<BoxIouParams> box_columns_stub{"box_columns"};
KernelStub<BoxIouParams> rotated_columns_stub{"rotated_columns"};
KernelStub<BoxIouParams> box_iou_stub{"box_iou"};
KernelStub<BoxIouParams> box_iou_backward_stub{"box_iou_backward"};
KernelStub<BoxIouParams> box_iou_rotated_stub{"box_iou_rotated"};
KernelStub<BoxIouParams> box_iou_rotated_backward_stub{"box_iou_rotated_backward"};

BoxOverlap parse_box_overlap(const char* op, const std::string& name) {
  if (name == "iou") return BoxOverlap::kIou;
  if (name == "iof") return BoxOverlap::kIof;
  if (name == "iof2") return BoxOverlap::kIof2;
  if (name == "generalized") return BoxOverlap::kGeneralized;
  if (name == "distance") return BoxOverlap::kDistance;
  if (name == "complete") return BoxOverlap::kComplete;
  fail(op, "kind is '", name, "', must be iou, iof, iof2, generalized, distance or complete");
}

BoxOverlap parse_rotated_overlap(const char* op, const std::string& name) {
  if (name == "iou") return BoxOverlap::kIou;
  if (name == "iof") return BoxOverlap::kIof;
  if (name == "iof2") return BoxOverlap::kIof2;
  fail(op, "kind is '", name, "', must be iou, iof or iof2");
}

void check_box_iou(const char* op, const BoxIouParams& p, bool backward) {
  require(p.boxes1.dtype != DType::kBool, op,
          "boxes1 has dtype bool, must be a floating or integer type");
  require(p.boxes2.dtype != DType::kBool, op,
          "boxes2 has dtype bool, must be a floating or integer type");
  require(!backward || is_floating(p.boxes1.dtype), op, "boxes1 has dtype ",
          dtype_name(p.boxes1.dtype), ", must be a floating type to have a gradient");
  require(p.eps >= 0.0 && p.eps <= std::numeric_limits<double>::max(), op, "eps is ", p.eps,
          ", must be >= 0 and finite");
}

}  // namespace visops
