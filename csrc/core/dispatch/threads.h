// Whose threads run kernels that are called without tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"
#include "core/platform.h"

namespace visops {

class Threads {
 public:
  virtual int64_t count() const = 0;
  // Calls run() with a workspace whose loops take these threads.
  virtual void with_workspace(const std::function<void(Workspace&)>& run) const = 0;
  // each(i) for 0 .. count, side by side. Of what they throw, the first in order is thrown when all
  // are done.
  virtual void for_each(int64_t count, const std::function<void(size_t)>& each) const = 0;

 protected:
  ~Threads() = default;  // nobody deletes one through this class
};

// Only the one that calls, as in a loader, which has threads of its own.
const Threads& caller_thread();

// Runs a CPU kernel without tensors.
template <class Params>
void run_on_cpu(const KernelStub<Params>& stub, const Params& params, const Threads& threads) {
  threads.with_workspace([&](Workspace& workspace) { stub.cpu()(params, workspace); });
}

// How much work is worth a task of its own.

// Tasks that touch fewer elements cost more to hand out than to do.
constexpr int64_t kGrain = 32768;

// The least number of items for a task, if each of them touches `cost` elements.
VISOPS_FN int64_t grain_of(int64_t cost) {
  const int64_t items = kGrain / (cost > 1 ? cost : 1);
  return items > 1 ? items : 1;
}

}  // namespace visops
