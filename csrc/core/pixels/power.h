// Powers of floating values: what fronts and kernels share.
#pragma once

#include <cstdint>

#include "core/kernel_stub.h"

namespace visops {

struct PowerParams {
  float* data;  // in place
  float exponent;
};

// power_of() (core/pixels/values.h) of each value. CPU kernels take ranges of them.
extern KernelStub<PowerParams> power_stub;

}  // namespace visops
