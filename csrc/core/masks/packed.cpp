#include "core/masks/packed.h"

#include "core/check.h"

namespace visops {

KernelStub<PackParams> pack_stub{"pack_masks"};
KernelStub<UnpackParams> unpack_stub{"unpack_masks"};
KernelStub<MeasureParams> measure_stub{"measure_masks"};
KernelStub<MaskIouParams> mask_iou_stub{"mask_iou"};

MaskOverlap parse_mask_overlap(const char* op, const std::string& name) {
  if (name == "iou") return MaskOverlap::kIou;
  if (name == "ioa") return MaskOverlap::kIoa;
  fail(op, "kind is '", name, "', must be 'iou' or 'ioa'");
}

}  // namespace visops
