// Which stored pixels of a file make up a part of the upright image in it.
#pragma once

#include <cstdint>

#include "core/chain/windows.h"

namespace visops {

// NOTE [ Stored pixels ]
// Windows count pixels of the upright image at full size. A file stores rows and columns that its
// EXIF orientation may swap or reverse, and a reduction by r gives ceil(n / r) of n, counted from
// the stored start. So where an axis is reversed and n is no multiple of r, the grid of reduced
// pixels starts before the upright image, at n - r ceil(n / r).
struct StoredPart {
  int64_t top, left, height, width;     // of stored pixels after the reduction
  int64_t position_top, position_left;  // where the first of them begin in the upright image
};

inline bool swaps_sides(int64_t orientation) { return orientation >= 5; }

// The reduced pixels that cover a window of an upright image of height x width.
StoredPart stored_part(int64_t height, int64_t width, int64_t orientation,
                       const PixelWindow& window, int64_t reduction);

}  // namespace visops
