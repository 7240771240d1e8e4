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
#include "core/images/pixel.h"

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

// NOTE [ One pixel of a map ]
// The arithmetic of maps, in the order in which every kernel does it: the displacement between the
// points of a grid down the columns first, then across; a position through the matrix; and the
// taps of a sample down their columns first, then across, as NOTE [ One pixel ] has them.

// The points of a grid around a pixel, along one axis, and their shares.
template <class Acc>
struct GridTaps {
  int32_t point[4];
  Acc share[4];
};

template <class Acc>
VISOPS_FN GridTaps<Acc> grid_taps(MapGrid grid, int64_t pixel, int64_t side, int64_t points) {
  GridTaps<Acc> taps;
  const Acc one = static_cast<Acc>(1);
  const int64_t cells = side > 1 ? side - 1 : 1;
  // Whole cells exactly, in integers: a grid of a point for each pixel is the map itself.
  const int64_t travelled = pixel * (points - 1);
  const int64_t most = points > 2 ? points - 2 : 0;
  const int64_t whole = travelled / cells < most ? travelled / cells : most;
  const Acc t = static_cast<Acc>(travelled - whole * cells) / static_cast<Acc>(cells);
  const Acc u = one - t;
  const bool spline = grid == MapGrid::kSpline;
  if (spline) {
    const Acc three = static_cast<Acc>(3), four = static_cast<Acc>(4), six = static_cast<Acc>(6);
    taps.share[0] = u * u * u / six;
    taps.share[1] = ((three * t - six) * t * t + four) / six;
    taps.share[2] = ((three * u - six) * u * u + four) / six;
    taps.share[3] = t * t * t / six;
  } else {
    taps.share[0] = u;
    taps.share[1] = t;
    taps.share[2] = taps.share[3] = 0;
  }
  for (int k = 0; k < 4; ++k) {
    const int64_t point = whole + k - (spline ? 1 : 0);
    const int64_t above = point > 0 ? point : 0;
    taps.point[k] = static_cast<int32_t>(above < points - 1 ? above : points - 1);
  }
  return taps;
}

// The sum of two or four points' shares, of which `at(point)` returns the numbers. Taps are named
// by constants, or GPUs would keep them in memory.
template <class Acc, class Numbers>
VISOPS_FN Acc grid_sum(MapGrid grid, const GridTaps<Acc>& taps, const Numbers& at) {
  Acc sum = taps.share[0] * at(taps.point[0]);
  sum += taps.share[1] * at(taps.point[1]);
  if (grid != MapGrid::kSpline) return sum;
  sum += taps.share[2] * at(taps.point[2]);
  sum += taps.share[3] * at(taps.point[3]);
  return sum;
}

// A column of a grid at a row's height. `numbers` are one axis's of the map.
template <class Acc>
VISOPS_FN Acc grid_column(MapGrid grid, const GridTaps<Acc>& down, const Acc* numbers,
                          int64_t columns, int64_t column) {
  return grid_sum(grid, down,
                  [&](int32_t row) { return load_readonly(numbers + row * columns + column); });
}

template <class Acc>
VISOPS_FN Acc limited_position(Acc value) {
  const Acc limit = static_cast<Acc>(1e7);
  const Acc above = value > -limit ? value : -limit;  // NaN too
  return above < limit ? above : limit;
}

// What is added to a position before it is split: nearest rounds.
VISOPS_FN constexpr float map_shift(Interpolation mode) {
  return mode == Interpolation::kNearest ? 0.5f : 0.0f;
}

template <class Acc>
VISOPS_FN int32_t whole_part(Acc value) {
  const auto cut = static_cast<int32_t>(value);
  return cut - (static_cast<Acc>(cut) > value ? 1 : 0);
}

// A matrix in the type of positions.
template <class Acc>
struct MapMatrix {
  Acc m[9];
  bool is_there;
};

template <class Acc>
VISOPS_FN MapMatrix<Acc> map_matrix(const RemapParams& p, int64_t sample) {
  MapMatrix<Acc> matrix = {};
  matrix.is_there = p.matrix != nullptr;
  for (int i = 0; matrix.is_there && i < 9; ++i) {
    matrix.m[i] = static_cast<Acc>(p.matrix[sample * p.matrix_stride + i]);
  }
  return matrix;
}

// Takes a position to the source. Of an affine matrix the divisor is 1, which changes nothing.
template <class Acc>
VISOPS_FN void to_source(const MapMatrix<Acc>& matrix, Acc* x, Acc* y) {
  const Acc* const m = matrix.m;
  const Acc own_x = *x, own_y = *y;
  const Acc depth = (m[6] * own_x + m[7] * own_y) + m[8];
  *x = ((m[0] * own_x + m[1] * own_y) + m[2]) / depth;
  *y = ((m[3] * own_x + m[4] * own_y) + m[5]) / depth;
}

// A pixel's position along one axis, as NOTE [ One pixel ] takes it.
template <Interpolation mode, class Acc>
VISOPS_FN AxisSample<Acc> map_sample(Acc position) {
  const Acc at = limited_position(position) + static_cast<Acc>(map_shift(mode));
  const int32_t whole = whole_part(at);
  return {whole, at - static_cast<Acc>(whole)};
}

// The value of one channel between a pixel's taps.
template <class T, Interpolation mode, class Acc>
VISOPS_FN Acc map_value(const T* plane, const Strides& stride, const PixelTaps<mode, Acc>& taps,
                        Acc fill) {
  if (taps.outside()) return fill;
  if constexpr (mode == Interpolation::kNearest) {
    return load_tap(plane, stride, taps, 0, 0);
  } else {
    return sample_pixel(plane, stride, taps, fill);
  }
}

// The fill of a channel, as interpolation reads it.
VISOPS_FN double remap_fill(const RemapParams& p, int64_t channel) {
  return p.fill[p.fill_count == 1 ? 0 : channel];
}

// Stores a sample in the output's type. `scale` is what makes white 1 in a float.
template <class T, class Acc>
VISOPS_FN void store_sample(const RemapParams& p, T* to, int64_t position, Acc value, float scale) {
  if (!p.to_float) return store_element(to + position, value);
  reinterpret_cast<float*>(to)[position] = static_cast<float>(value) * scale;
}

template <class T>
VISOPS_FN float float_scale() {
  return sizeof(T) == 1 ? 1.0f / 255.0f : 1.0f;
}

}  // namespace visops
