// Kernels that exist on processors alone.
#pragma once

#include "core/dispatch/caller_workspace.h"
#include "core/dispatch/kernel_stub.h"

namespace visops {

// The kernel to call on the CPU, also where tests put emulated CUDA kernels in force: this stub has
// none of them.
template <class Params>
typename KernelStub<Params>::Kernel plain_kernel(const KernelStub<Params>& stub) {
  if (cpu_slot() != Slot::kCudaEmulated) return stub.cpu();
  for (const Slot slot : {Slot::kDefault, Slot::kAvx2, Slot::kAvx512}) {
    if (!stub.has(slot)) continue;
    return reinterpret_cast<typename KernelStub<Params>::Kernel>(stub.kernel(slot));
  }
  return stub.cpu();  // says what is missing
}

// Runs it in the calling thread.
template <class Params>
void run_plain(const KernelStub<Params>& stub, const Params& params) {
  CallerWorkspace workspace;
  plain_kernel(stub)(params, workspace);
}

}  // namespace visops
