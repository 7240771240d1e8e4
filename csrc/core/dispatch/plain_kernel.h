// Kernels that exist on processors alone.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"

namespace visops {

// A workspace for kernels that run in the thread that calls them, outside torch.

class CallerWorkspace : public Workspace {
 public:
  void* allocate(int64_t bytes) override {
    void* const memory = ::operator new(static_cast<size_t>(bytes), kAlignment);
    held_.emplace_back(memory);
    return memory;
  }
  int64_t threads() const override { return 1; }
  void for_each_part(int64_t count, int64_t, void (*body)(void*, int64_t, int64_t),
                     void* context) override {
    body(context, 0, count);
  }
  void* stream() const override { return nullptr; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(void* memory) const { ::operator delete(memory, kAlignment); }
  };
  std::vector<std::unique_ptr<void, Free>> held_;
};

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
