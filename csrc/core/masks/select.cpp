#include "core/masks/select.h"

#include "core/check.h"

namespace visops {

KernelStub<SuppressMasksParams> suppress_masks_stub{"suppress_masks"};
KernelStub<MergeMasksParams> merge_masks_stub{"merge_masks"};

void check_order(const char* op, const MaskOrder& order, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    require(order.masks[i] >= 0 && order.masks[i] < count, op, "order[", i, "] is ", order.masks[i],
            ", must be the index of one of ", count, " masks");
  }
}

void check_share(const char* op, const char* name, double share) {
  require(share >= 0.0 && share <= 1.0, op, name, " is ", share, ", must be in [0, 1]");
}

}  // namespace visops
