// What CUDA's gradients of maps make on the way: NOTE [ Samples of a pixel ]
// (cuda/deformable/pixel_lists.h).
#pragma once

#include <cstdint>

namespace visops {

// Lists are made in steps, because torch sorts after the first one.
enum class ListStep : int { kCells, kLists, kSums };

struct PixelLists {
  ListStep step;
  int64_t samples, cells;       // how many
  int32_t* cell_of;             // [samples]
  const int32_t* sorted_cells;  // rising
  const int64_t* order;         // the samples in that order; equal cells by index
  int32_t* begins;              // [cells + 1]: each cell's first place in that order
  void* entries;                // [4 samples], of which some are not used
};

// Entries are counted in 32 bits.
constexpr int64_t kMostListed = (int64_t{1} << 30) - 1;

}  // namespace visops
