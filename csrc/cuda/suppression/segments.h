// Where segments of a list begin and end: equal numbers are adjacent.
#pragma once

#include <cstdint>

#include "cuda/launch.h"

namespace visops {
namespace {

// First position of i's segment.
__device__ inline int64_t first_of_segment(const int64_t* segment, int64_t i) {
  const int64_t number = segment[i];
  int64_t low = 0, high = i;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (segment[middle] == number) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

// One past the last position of the segment that begins at `begin`, of `count` in all.
__device__ inline int64_t end_of_segment(const int64_t* segment, int64_t begin, int64_t count) {
  const int64_t number = segment[begin];
  int64_t inside = begin, outside = begin + 1;
  for (int64_t step = 1; outside < count && segment[outside] == number; step *= 2) {
    inside = outside;
    outside = outside + step < count ? outside + step : count;
  }
  while (outside - inside > 1) {
    const int64_t middle = inside + (outside - inside) / 2;
    (segment[middle] == number ? inside : outside) = middle;
  }
  return outside;
}

}  // namespace
}  // namespace visops
