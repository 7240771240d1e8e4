#include "core/suppression/nms.h"

#include "core/check.h"

namespace visops {

KernelStub<NmsParams> nms_stub{"nms"};
KernelStub<NmsParams> nms_rotated_stub{"nms_rotated"};

void check_nms(const char* op, const NmsParams& p) {
  require(p.dtype != DType::kBool, op, "boxes has dtype bool, must be a floating or integer type");
  require(p.iou_threshold >= 0.0 && p.iou_threshold <= 1.0, op, "iou_threshold is ",
          p.iou_threshold, ", must be in [0, 1]");
}

}  // namespace visops
