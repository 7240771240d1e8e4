// Numbers of the host that kernels of a device are to read.
#pragma once

#include <cstdint>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"

namespace visops {

// The kernel has taken a copy when it returns, and waits for nothing:
// csrc/cuda/send_numbers_kernel.cu.
struct SendNumbersParams {
  const uint64_t* from;  // in host memory
  uint64_t* to;          // in the device's
  int64_t count;
};

extern KernelStub<SendNumbersParams> send_numbers_stub;  // of devices only

}  // namespace visops
