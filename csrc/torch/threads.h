// Runs loops on torch's threads.
#pragma once

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>

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

}  // namespace visops
