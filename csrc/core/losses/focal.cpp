#include "core/losses/focal.h"

namespace visops {

KernelStub<FocalParams> focal_loss_stub("focal_loss");
KernelStub<FocalParams> focal_loss_backward_stub("focal_loss_backward");

}  // namespace visops
