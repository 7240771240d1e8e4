// Images moved by a map: what the front and kernels share.
//
// NOTE [ Maps ]
// A map says for every output pixel where in the source it is read, with the first pixel's centre
// at (0, 0): as cv2.remap's, or relative to the pixel's own position. It is given for every pixel,
// or at the points of a grid, between which it is interpolated. A matrix takes it from there to the
// source, so that a warp and a displacement are one interpolation.
//
// Positions are float32 (float64 for float64 images). They are limited to 10^7 pixels from the
// origin, and NaN is far to the left. Interpolation goes down the columns of taps and then across;
// OpenCV rounds positions to 1/32 of a pixel first. Nearest takes floor(x + 0.5) and copies
// elements of any type. Every sum has one order, here or in NOTE [ One pixel of a map ], so all
// backends have the same bits.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"
#include "core/images/image.h"

namespace visops {

// What a map's numbers belong to: each pixel, or points that are evenly spaced over the output,
// those in the corners on its corner pixels' centres. Splines are cubic B-splines, of which the
// points hold the coefficients; they go on as at their rim.
enum class MapGrid : int { kDense, kLinear, kSpline };

struct RemapParams {
  const void* image;
  Strides image_stride;
  int64_t batch, channels, height, width;  // a plane spans fewer than 2^31 elements
  DType dtype;   // bilinear and bicubic only for those that with_element_type() takes
  void* output;  // [batch, channels, output_height, output_width]
  Strides output_stride;
  int64_t output_height, output_width;
  bool to_float;          // the output is float32, with white at 1; otherwise of the images' type
  const void* map[2];     // x and y: [rows, columns], contiguous; float32, or float64 for float64
  int64_t map_stride[2];  // between samples; 0 where they share one
  int64_t rows, columns;
  MapGrid grid;
  bool relative;         // the map is added to the pixel's own position
  const double* matrix;  // [3, 3], from where the map leads to the source; or null
  int64_t matrix_stride;
  Interpolation mode;
  Padding padding;
  double fill[kMaxFill];  // one, or one for each channel
  int64_t fill_count;
};

extern KernelStub<RemapParams> remap_stub;

// Sizes, dtype and mode, grid, fill. Reads no tensor data, allocates nothing.
void check_remap(const char* op, const RemapParams& params);

MapGrid parse_grid(const char* op, std::string_view name);

}  // namespace visops
