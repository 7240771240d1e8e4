// What no GPU can start, though a CPU can.
#pragma once

#include <cstddef>
#include <string>

namespace cuda_emulation::check {

// Each returns what is wrong, or nothing.
inline std::string fault_of_parameters(size_t bytes) {
  constexpr size_t kMost = 4096;
  if (bytes <= kMost) return "";
  return "its parameters take " + std::to_string(bytes) + " bytes, more than " +
         std::to_string(kMost);
}

inline std::string fault_of_shared(size_t all, size_t dynamic) {
  constexpr size_t kMost = 48 * 1024;  // more must be opted in to
  if (all <= kMost) return "";
  return std::to_string(all) + " bytes, " + std::to_string(dynamic) + " of them dynamic; " +
         std::to_string(kMost) + " are allowed";
}

}  // namespace cuda_emulation::check
