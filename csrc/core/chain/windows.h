// What a pass reads of its images, for decoders that can leave the rest out.
#pragma once

#include <cstdint>
#include <vector>

#include "core/chain/plan.h"

namespace visops {

struct PixelWindow {
  int64_t top, left, height, width;
};

// How far sampling reads: around the canvas in pixels of the result, since a filter that shrinks is
// that wide, and around its source in pixels of the image.
struct Reach {
  double around, beyond;
  bool anywhere;  // the padding repeats the image: what is read outside comes from anywhere
};

// What is read of each image, at least a pixel: under the canvas, and under that of every mean.
std::vector<PixelWindow> windows_read(const ChainPlan& plan, const Reach& reach);

// By how much each image may be reduced, 1, 2, 4 or 8, so that the pass still shrinks it.
std::vector<int64_t> reductions(const ChainPlan& plan);

// What a decoder has made: pixels of height x width, of which each covers `reduction` squared of
// the image, from (top, left) on.
struct DecodedPart {
  int64_t top, left, reduction, height, width;
};

// Makes the plan one for decoded parts.
void move_to_parts(const std::vector<DecodedPart>& parts, ChainPlan& plan);

// Which stored pixels of a file make up a part of the upright image in it.

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
