#include "core/dispatch/threads.h"

#include <mutex>

#include "core/dispatch/plain_kernel.h"
#include "core/dispatch/workspace.h"

namespace visops {
namespace {

class CallerThread final : public Threads {
 public:
  int64_t count() const override { return 1; }
  void with_workspace(const std::function<void(Workspace&)>& run) const override {
    CallerWorkspace workspace;
    if (cpu_slot() != Slot::kCudaEmulated) return run(workspace);
    static std::mutex emulator;  // which is one device
    const std::lock_guard<std::mutex> lock(emulator);
    run(workspace);
  }
  void for_each(int64_t count, const std::function<void(size_t)>& each) const override {
    for (int64_t i = 0; i < count; ++i) each(static_cast<size_t>(i));
  }
};

}  // namespace

const Threads& caller_thread() {
  static const CallerThread thread;
  return thread;
}

}  // namespace visops
