#include "core/masks/stability.h"

namespace visops {

KernelStub<StabilityParams> stability_stub{"stability_score"};

}  // namespace visops
