// Runs loops on torch's threads.
#pragma once

#include <torch/csrc/stable/ops.h>
#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "core/dispatch/plain_kernel.h"
#include "core/dispatch/threads.h"
#include "core/dispatch/workspace.h"

#ifdef __SANITIZE_THREAD__
#include <thread>
#include <vector>
#endif

namespace visops {

// Calls body(begin, end) for parts of 0 .. count that are no smaller than `grain`.
template <class Body>
void run_on_threads(int64_t count, int64_t grain, const Body& body) {
#ifdef __SANITIZE_THREAD__
  // torch's pool is built without ThreadSanitizer, which would take what it hands over for races.
  constexpr int64_t kThreads = 4;
  const int64_t step = std::max(grain, (count + kThreads - 1) / kThreads);
  std::vector<std::thread> threads;
  for (int64_t begin = 0; begin < count; begin += step) {
    threads.emplace_back([=, &body] { body(begin, std::min(count, begin + step)); });
  }
  for (std::thread& thread : threads) thread.join();
#elif defined(_LIBCPP_VERSION)
  // No exception passes through torch: NOTE [ Errors of another C++ runtime ] (torch/register.h).
  std::exception_ptr first;
  std::mutex lock;
  torch::stable::parallel_for(0, count, grain, [&](int64_t begin, int64_t end) {
    try {
      body(begin, end);
    } catch (...) {
      const std::lock_guard<std::mutex> held(lock);
      if (first == nullptr) first = std::current_exception();
    }
  });
  if (first != nullptr) std::rethrow_exception(first);
#else
  torch::stable::parallel_for(0, count, grain, body);
#endif
}

// The loops of workspaces; Base has memory.
template <class Base>
class OnTorchThreads : public Base {
 public:
  int64_t threads() const override {
    return std::max<int64_t>(1, torch::stable::get_num_threads());
  }
  void for_each_part(int64_t count, int64_t grain, void (*body)(void*, int64_t, int64_t),
                     void* context) override {
    run_on_threads(count, grain, [&](int64_t begin, int64_t end) { body(context, begin, end); });
  }
};

// Both fronts run CPU kernels on torch's thread pool, so torch.set_num_threads also governs calls
// on NumPy arrays.

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
