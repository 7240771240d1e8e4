#include "registry.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

namespace ptx {

std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

Registry::Registry() {
  const std::string folder = environment("VISOPS_PTX_DIR");
  if (folder.empty()) throw Error("VISOPS_PTX_DIR is not set");
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".ptx") continue;
    modules_.push_back(std::make_unique<Module>(file.path().string()));
    for (const Module::Entry& entry : modules_.back()->entries()) {
      const std::string key = stem(file.path().string()) + " " + canonical_name(entry.name);
      if (!known_.emplace(key, Known{modules_.back().get(), &entry, nullptr}).second) {
        throw Error("two kernels of one name: " + key);
      }
    }
  }
}

Kernel& Registry::find(const void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Known*& known = by_address_[address];
  if (known == nullptr) known = &look_up(address);
  if (known->kernel == nullptr) {
    known->kernel = decode(known->module->parse(*known->entry));
    known->kernel->plain_name = demangle(known->kernel->name);
  }
  return *known->kernel;
}

Known& Registry::look_up(const void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0) throw Error("a kernel of no library");
  auto& symbols = symbols_[info.dli_fname];
  if (symbols == nullptr) symbols = std::make_unique<Symbols>(info.dli_fname);
  const uint64_t offset =
      reinterpret_cast<uint64_t>(address) - reinterpret_cast<uint64_t>(info.dli_fbase);
  const std::string* name = symbols->at(offset);
  if (name == nullptr) throw Error("a kernel without a symbol in " + std::string(info.dli_fname));
  const auto found = known_.find(*name);
  if (found != known_.end()) return found->second;
  // g++ and nvcc write some types of parameters in different ways; names and the arguments of
  // templates they don't.
  const size_t space = name->find(' ') + 1;
  const std::string plain = demangle(name->substr(space));
  Known* fits = nullptr;
  for (auto& [key, known] : known_) {
    if (key.compare(0, space, *name, 0, space) != 0 || demangle(key.substr(space)) != plain)
      continue;
    if (fits != nullptr) throw Error("several PTX functions could be " + *name);
    fits = &known;
  }
  if (fits == nullptr) throw Error("no PTX of " + *name);
  return *fits;
}

Registry& registry() {
  static Registry* const one = [] {
    auto* r = new Registry;
    static Registry* kept = r;
    if (!environment("VISOPS_PTX_STATS").empty()) std::atexit([] { write_statistics(*kept); });
    return r;
  }();
  return *one;
}

}  // namespace ptx
