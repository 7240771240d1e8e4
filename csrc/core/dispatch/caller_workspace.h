// A workspace for kernels that run in the thread that calls them, outside torch.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "core/dispatch/workspace.h"

namespace visops {

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

}  // namespace visops
