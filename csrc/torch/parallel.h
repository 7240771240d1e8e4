// Both fronts run CPU kernels on torch's thread pool, so torch.set_num_threads also governs calls
// on NumPy arrays.
#pragma once

#include <exception>
#include <mutex>
#include <vector>

#include "core/dispatch/caller_workspace.h"
#include "core/dispatch/kernel_stub.h"
#include "torch/threads.h"

namespace visops {

// Whose threads run a kernel.
enum class Threads {
  kTorch,
  kCaller,  // only the one that calls, as in a loader, which has threads of its own
};

using ThreadsWorkspace = OnTorchThreads<CallerWorkspace>;

// each(i) for 0 .. count, side by side. torch's threads don't take exceptions: the first in order
// is thrown when all are done.
template <class Each>
void for_each_on_threads(int64_t count, const Each& each) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
  run_on_threads(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      try {
        each(static_cast<size_t>(i));
      } catch (...) {
        errors[static_cast<size_t>(i)] = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

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
