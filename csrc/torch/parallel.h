// Both fronts run CPU kernels on torch's thread pool, so torch.set_num_threads also governs calls
// on NumPy arrays.
#pragma once

#include <exception>
#include <vector>

#include "core/dispatch/caller_workspace.h"
#include "core/dispatch/threads.h"
#include "torch/threads.h"

namespace visops {

class TorchThreads final : public Threads {
 public:
  int64_t count() const override { return torch::stable::get_num_threads(); }
  void with_workspace(const std::function<void(Workspace&)>& run) const override {
    OnTorchThreads<CallerWorkspace> workspace;
    run(workspace);
  }
  // torch's threads don't take exceptions.
  void for_each(int64_t count, const std::function<void(size_t)>& each) const override {
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
};

inline const Threads& torch_threads() {
  static const TorchThreads threads;
  return threads;
}

}  // namespace visops
