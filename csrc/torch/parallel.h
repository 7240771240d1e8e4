// Both fronts run CPU kernels on torch's thread pool, so torch.set_num_threads also governs calls
// on NumPy arrays.
#pragma once

#include <mutex>

#include "core/caller_workspace.h"
#include "core/kernel_stub.h"
#include "torch/threads.h"

namespace visops {

// Whose threads run a kernel.
enum class Threads {
  kTorch,
  kCaller,  // only the one that calls, as in a loader, which has threads of its own
};

using ThreadsWorkspace = OnTorchThreads<CallerWorkspace>;

// Runs a CPU kernel without tensors.
template <class Params>
void run_on_cpu(const KernelStub<Params>& stub, const Params& params,
                Threads threads = Threads::kTorch) {
  if (threads == Threads::kTorch) {
    ThreadsWorkspace workspace;
    return stub.cpu()(params, workspace);
  }
  CallerWorkspace workspace;
  if (cpu_slot() != Slot::kCudaEmulated) return stub.cpu()(params, workspace);
  static std::mutex emulator;  // which is one device
  const std::lock_guard<std::mutex> lock(emulator);
  stub.cpu()(params, workspace);
}

}  // namespace visops
