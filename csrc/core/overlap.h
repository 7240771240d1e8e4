// Whether the elements of an array that is written lie apart.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace visops {

// Whether every stride passes all that smaller ones reach. Elements then surely lie apart, in steps
// of `element`. Strides may be negative.
inline bool has_no_internal_overlap(int64_t dims, const int64_t* sizes, const int64_t* strides,
                                    int64_t element = 1) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride and size of every dimension that moves
  for (int64_t d = 0; d < dims; ++d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] > 1) steps.emplace_back(std::abs(strides[d]), sizes[d]);
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : steps) {
    if (stride < reach + element) return false;
    reach += stride * (size - 1);
  }
  return true;
}

}  // namespace visops
