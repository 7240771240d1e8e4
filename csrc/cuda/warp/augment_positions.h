// Where the pixels of a batch lie, computed once for all kernels of the gradient.
#pragma once

#include "core/numbers/arithmetic.h"
#include "core/warp/augment_segment.h"
#include "cuda/launch.h"

namespace visops {
namespace {

template <class Acc>
struct PlacedSegment {
  AugmentSegment<Acc> segment;
  SegmentAxes<Acc> axes;  // of the sample as it is differentiated
};

// How many a row has.
VISOPS_FN int64_t segments_of(const AugmentParams& p) { return parts_of(p.output_width, kSegment); }

// The place of the segment of pixel (x, y) in [batch, output_height, segments_of()].
VISOPS_FN int64_t segment_at(const AugmentParams& p, int64_t sample, int64_t y, int64_t x) {
  return (sample * p.output_height + y) * segments_of(p) + x / kSegment;
}

}  // namespace
}  // namespace visops
