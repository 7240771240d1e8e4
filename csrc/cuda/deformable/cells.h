// Samples sorted by the cell that they are in, stably: what the gradients of sampled maps walk
// through.
#pragma once

#include <cstdint>

#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int64_t kNoCell = INT64_MAX;  // of samples that don't count

// The first of `count` sorted cells that is `cell` or a later one.
__device__ inline int64_t first_at(const int64_t* sorted_cells, int64_t count, int64_t cell) {
  int64_t begin = 0, end = count;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (sorted_cells[middle] < cell) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

}  // namespace
}  // namespace visops
