// Images moved by a map: what fronts and kernels share.
//
// NOTE [ Maps ]
// A map says for every output pixel where in the source it is read, in float32, with the first
// pixel's centre at (0, 0): as cv2.remap's, or relative to the pixel's own place. Places are
// limited to 10^7 pixels from the origin, and NaN is far to the left. Bilinear interpolation is
// computed in float32, along x and then along y; OpenCV rounds places to 1/32 of a pixel first.
// Nearest takes floor(x + 0.5) and copies elements of any type.
#pragma once

#include <cstdint>

#include "core/element.h"
#include "core/kernel_stub.h"
#include "core/sampling.h"

namespace visops {

struct RemapParams {
  const void* source;  // [channels, height, width]
  int64_t channels, height, width;
  int64_t channel_stride, row_stride, column_stride;  // in elements
  DType dtype;   // uint8, float16, bfloat16 or float32; nearest reads only its size
  void* target;  // [channels, target_height, target_width], contiguous
  int64_t target_height, target_width;
  const float* x;  // [target_height, target_width], contiguous
  const float* y;
  bool relative;  // x and y are added to the pixel's own place
  Interpolation mode;
  Padding padding;
  const float* fill;      // [channels]; of interpolation
  const void* fill_bits;  // one element; of nearest
};

// Work is cut over target_height. A plane has fewer than 2^31 elements.
extern KernelStub<RemapParams> remap_stub;

// The place in [0, n - 1] of `points` [count, 2] x, y in the source, where a relative map puts
// them: q with q + map(q) = p, found by q = p - map(q), which converges where the map changes by
// less than a pixel per pixel. It ends when a step is shorter than 1e-4 pixels, or after 100.
void invert_map(const RemapParams& p, const double* points, int64_t count, double* moved);

}  // namespace visops
