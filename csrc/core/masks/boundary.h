// The boundaries of masks: what fronts and kernels share.
//
// NOTE [ Boundaries of masks ]
// The boundary of a mask is what erosion by a square removes: its pixels with one outside of the
// mask within `distance` rows and columns. What lies beyond the image is outside. The distance is a
// share of the image's diagonal, rounded half to even, at least 1.
#pragma once

#include "core/dispatch/kernel_stub.h"

namespace visops {

struct BoundaryParams {
  const uint64_t* bits;  // [count, height, words], as NOTE [ Packed masks ] has them
  int64_t count, height, words;
  int64_t distance;      // from 1 to the longer side
  uint64_t* boundaries;  // as bits
};

extern KernelStub<BoundaryParams> boundary_stub;

// Checks the share too.
int64_t boundary_distance(const char* op, int64_t height, int64_t width, double dilation_ratio);

}  // namespace visops
