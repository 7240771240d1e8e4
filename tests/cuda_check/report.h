// What the checks found, as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "memory.h"

namespace cuda_emulation::check {

struct Finding {
  std::string what;    // "a race"
  std::string text;    // with %1 and %2 where places in the sources belong
  const void* where;   // return address of the access
  const void* before;  // that of the earlier one, or null
};

// One text; asks addr2line for the places.
std::string describe(const std::string& kernel, const std::vector<Finding>& findings);

}  // namespace cuda_emulation::check
