// What the checks found, as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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

// "csrc/cuda/roi/box_tile.h:128" from a compiler's path.
std::string short_path(const std::string& path);
// Places in the sources of return addresses, asked for together: reading the library's line numbers
// takes a while.
std::map<const void*, std::string> positions_of(const std::vector<const void*>& addresses);
std::string position_text(unsigned x, unsigned y, unsigned z);
const char* verb(unsigned kind);  // of races.h

// Throws the text or, where VISOPS_CUDA_CHECK_LOG names a file, appends it there.
void throw_or_log(const std::string& text);

// One text; asks addr2line for the places.
std::string describe(const std::string& kernel, const std::vector<Finding>& findings);

}  // namespace cuda_emulation::check
