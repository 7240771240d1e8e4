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

}  // namespace visops
