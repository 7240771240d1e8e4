// The samples that read a pixel, in order: NOTE [ Gradient of values on CUDA ].
#pragma once

#include <cstdint>

#include "cuda/lane_sum.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int64_t kNoCell = INT64_MAX;

// Samples sorted by the cell that they lie in, stably.
struct SortedSamples {
  const int64_t* cells;  // rising
  const int64_t* order;
  int64_t count;
};

// The first place in the order that is not before(place).
template <class Before>
__device__ int64_t first_place(const SortedSamples& samples, const Before& before) {
  int64_t begin = 0, end = samples.count;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (before(middle)) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// The first sample in the order whose cell is `cell` or a later one.
__device__ inline int64_t first_at(const SortedSamples& samples, int64_t cell) {
  return first_place(samples, [&](int64_t place) { return samples.cells[place] < cell; });
}

// The samples of a cell that are still to be added.
struct CellSamples {
  int64_t next, end;
  int64_t sample;  // order[next]
};

__device__ inline void load_sample(const SortedSamples& samples, CellSamples* list) {
  list->sample = list->next < list->end ? samples.order[list->next] : INT64_MAX;
}

// The lists of a pixel's cells: cell k of kCells has its tap kCells - 1 - k at the pixel. Called by
// all lanes of a warp; some search one border each.
template <int kCells>
__device__ void find_samples(const SortedSamples& samples, int64_t cell, int64_t row_cells,
                             int lane, CellSamples (&lists)[kCells]) {
  // Borders of the pixel's cells in its upper row, then in the lower one.
  const int64_t row = lane / 3, column = lane % 3;
  int64_t border = 0;
  if (lane < (kCells == 1 ? 2 : 6)) border = first_at(samples, cell + row * row_cells + column);
#pragma unroll
  for (int k = 0; k < kCells; ++k) {
    const int first = k / 2 * 3 + k % 2;
    lists[k].next = __shfl_sync(kAllLanes, border, first);
    lists[k].end = __shfl_sync(kAllLanes, border, first + 1);
    load_sample(samples, &lists[k]);
  }
}

// The next sample of all lists, or INT64_MAX.
template <int kCells>
__device__ int64_t next_sample(const CellSamples (&lists)[kCells]) {
  int64_t i = lists[0].sample;
#pragma unroll
  for (int k = 1; k < kCells; ++k) i = lists[k].sample < i ? lists[k].sample : i;
  return i;
}

}  // namespace
}  // namespace visops
