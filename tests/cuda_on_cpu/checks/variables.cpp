#include "parts.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

namespace cuda_emulation::check {
namespace {

struct Variable {
  Extent extent;
  std::vector<unsigned char> before;
};

std::vector<Variable> variables;  // of the kernel that runs
std::map<const void*, std::vector<Variable>> of_kernels;

const unsigned char* bytes_at(uintptr_t at) { return reinterpret_cast<const unsigned char*>(at); }

}  // namespace

void begin_variables(const void* kernel) {
  static uintptr_t known_for = 0;  // another host thread has other variables
  if (std::exchange(known_for, variables_begin()) != variables_begin()) of_kernels.clear();
  variables = std::move(of_kernels[kernel]);
  fill_variables();
}

void end_variables(const void* kernel) { of_kernels[kernel] = std::move(variables); }

void fill_variables() {
  for (Variable& variable : variables) {
    fill_unwritten(variable.extent.begin, variable.before.size());
    std::fill(variable.before.begin(), variable.before.end(), kUnwritten);
  }
}

void know_variable(const Extent& extent) {
  for (const Variable& variable : variables) {
    if (variable.extent.begin == extent.begin) return;
  }
  variables.push_back({extent, {bytes_at(extent.begin), bytes_at(extent.end)}});
}

size_t variable_bytes() {
  size_t bytes = 0;
  for (const Variable& variable : variables) bytes += variable.before.size();
  return bytes;
}

void for_each_change(Change call) {
  for (Variable& variable : variables) {
    const uintptr_t begin = variable.extent.begin;
    const size_t count = variable.before.size();
    unsigned char* const before = variable.before.data();
    if (std::memcmp(bytes_at(begin), before, count) == 0) continue;
    for (size_t i = 0; i < count; i += 4) {
      const size_t width = std::min<size_t>(4, count - i);
      if (std::memcmp(bytes_at(begin + i), before + i, width) == 0) continue;
      call(variable.extent, begin + i, width, before + i);
      std::memcpy(before + i, bytes_at(begin + i), width);
    }
  }
}

}  // namespace cuda_emulation::check
