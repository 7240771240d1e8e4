// Both fronts run CPU kernels on torch's thread pool, so torch.set_num_threads also governs calls
// on NumPy arrays.
#pragma once

#include <mutex>

#include "core/grain.h"
#include "core/kernel_stub.h"
#include "torch/threads.h"

namespace visops {

// Whose threads run a kernel.
enum class Threads {
  kTorch,
  kCaller,  // only the one that calls, as in a loader, which has threads of its own
};

template <class Params>
void run_on_cpu(const KernelStub<Params>& stub, const Params& params, int64_t work, int64_t cost) {
  if (work == 0) return;
  if (cpu_slot() == Slot::kCudaEmulated) {
    stub.emulated()(params, nullptr);
    return;
  }
  const auto kernel = stub.cpu();
  const int64_t grain = grain_of(cost);
  if (work <= grain) {
    kernel(params, 0, work);
    return;
  }
  run_on_threads(work, grain, [&](int64_t begin, int64_t end) { kernel(params, begin, end); });
}

// In the calling thread alone.
template <class Params>
void run_here(const KernelStub<Params>& stub, const Params& params, int64_t work) {
  if (work == 0) return;
  if (cpu_slot() == Slot::kCudaEmulated) {
    static std::mutex emulator;  // which is one device
    const std::lock_guard<std::mutex> lock(emulator);
    stub.emulated()(params, nullptr);
    return;
  }
  stub.cpu()(params, 0, work);
}

}  // namespace visops
