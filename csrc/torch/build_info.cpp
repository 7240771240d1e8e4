// Describes the build and the machine as JSON, for visops.build_info().
#include <torch/csrc/stable/library.h>

#include <sstream>
#include <string>

#include "core/dispatch/cuda_library.h"
#include "core/dispatch/kernel_stub.h"
#include "torch/register.h"
#include "visops_build.h"  // written by the build

namespace visops {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

std::string compiler() {
  std::ostringstream text;
#if defined(__clang__)
  text << "Clang " << __clang_major__ << '.' << __clang_minor__;
#elif defined(__GNUC__)
  text << "GCC " << __GNUC__ << '.' << __GNUC_MINOR__;
#else
  text << "unknown";
#endif
  return text.str();
}

std::string slots_of(const StubTable& stub) {
  std::string names;
  for (int i = 0; i < kSlots; ++i) {
    const Slot slot = static_cast<Slot>(i);
    if (stub.has(slot)) names += (names.empty() ? "" : ", ") + quoted(slot_name(slot));
  }
  return "[" + names + "]";
}

std::string build_info() {
  std::ostringstream json;
  json << "{\"version\": " << quoted(VISOPS_VERSION)
       << ", \"torch_built\": " << quoted(VISOPS_TORCH_VERSION)
       << ", \"torch_abi_target\": \"2.11\", \"compiler\": " << quoted(compiler());
  const std::string& error = cuda_library_error();  // loads the kernels, which are listed below
  json << ", \"cuda_built\": " << (VISOPS_CUDA_MAJOR == 0 ? "null" : quoted(VISOPS_CUDA_VERSION))
       << ", \"cuda_archs\": " << quoted(VISOPS_CUDA_ARCHS)
       << ", \"cuda_error\": " << (error.empty() ? "null" : quoted(error));
  json << ", \"cpu\": " << quoted(slot_name(cpu_slot())) << ", \"cpu_available\": [";
  bool first = true;
  for (Slot slot : available_cpu_slots()) {
    json << (first ? "" : ", ") << quoted(slot_name(slot));
    first = false;
  }
  json << "], \"kernels\": {";
  first = true;
  for (const StubTable* stub : StubTable::all()) {
    json << (first ? "" : ", ") << quoted(stub->name()) << ": " << slots_of(*stub);
    first = false;
  }
  json << "}}";
  return json.str();
}

}  // namespace
}  // namespace visops

STABLE_TORCH_LIBRARY_IMPL(visops, CompositeExplicitAutograd, m) {
  m.impl("build_info", VISOPS_BOX(&visops::build_info));
}
