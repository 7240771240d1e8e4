// Both fronts run CPU kernels on torch's thread pool, so torch.set_num_threads also governs calls
// on NumPy arrays.
#pragma once

#include <torch/csrc/stable/ops.h>

#include <algorithm>
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

// Memory of the process, and torch's threads.
class ThreadsWorkspace final : public CallerWorkspace {
 public:
  int64_t threads() const override {
    return std::max<int64_t>(1, torch::stable::get_num_threads());
  }
  void for_each_part(int64_t count, int64_t grain, void (*body)(void*, int64_t, int64_t),
                     void* context) override {
    run_on_threads(count, grain, [&](int64_t begin, int64_t end) { body(context, begin, end); });
  }
};

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
