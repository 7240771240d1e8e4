// All kernels of the folder VISOPS_PTX_DIR, decoded when they are first launched.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "interpreter/code.h"
#include "symbols.h"

namespace ptx {

struct Known {
  const Module* module;
  const Module::Entry* entry;
  std::unique_ptr<Kernel> kernel;  // once it was needed
};

class Registry {
 public:
  Registry();
  // The kernel that the C++ compiler has put there.
  Kernel& find(const void* address);
  const std::map<std::string, Known>& all() const { return known_; }

 private:
  Known& look_up(const void* address);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Module>> modules_;
  std::map<std::string, Known> known_;
  std::unordered_map<const void*, Known*> by_address_;
  std::map<std::string, std::unique_ptr<Symbols>> symbols_;
};

Registry& registry();
std::string environment(const char* name);  // empty where it is not set
// In VISOPS_PTX_STATS: that a kernel has run, at once, since the process may be killed; and at its
// end everything else.
void write_first_launch(const Kernel& kernel);
void write_statistics(const Registry& registry);

}  // namespace ptx
