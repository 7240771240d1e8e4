// How the CPU's convolutions hold a block of an image.
//
// NOTE [ Bands of images ]
// The inputs of a block of outputs become planes, one per channel. Where tap (v, u) of output pixel
// (j, i) lies in a plane depends on the pixel only through j * width + i. So a column of im2col for
// many adjacent pixels is one run of memory, and a tap is an offset.
//
// Zeros surround the image. Where outputs are `step` inputs apart, a plane is split into classes of
// rows and columns: the ones that a tap reads, every step-th, lie side by side.
//
// A row is at least as wide as the outputs; what lies beyond them is computed too, and thrown away.
// Where step is 1, the zeros right of a row are also those left of the next.
#pragma once

#include "core/convolution/conv2d.h"

namespace visops {

// Elements that may be read after the last pixel's, where a tile of columns may begin.
constexpr int64_t kBandSlack = 128;

VISOPS_FN int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }
VISOPS_FN int64_t most_of(int64_t a, int64_t b) { return a > b ? a : b; }

VISOPS_FN int64_t common_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// Tap t reads class t % classes.
VISOPS_FN int64_t band_classes(const ConvAxis& axis) {
  return least_of(axis.taps, axis.step / common_divisor(axis.step, axis.tap_step));
}
// How far the tap reads from the output's own place, within the class.
VISOPS_FN int64_t band_shift(const ConvAxis& axis, int64_t tap) {
  return tap * axis.tap_step / axis.step;
}
// How many rows (or columns) of a class `count` outputs read.
VISOPS_FN int64_t band_extent(const ConvAxis& axis, int64_t count) {
  return count + (axis.taps > 0 ? band_shift(axis, axis.taps - 1) : 0);
}
// The input index of a class's entry 0, for a block that begins at output `begin`.
VISOPS_FN int64_t band_origin(const ConvAxis& axis, int64_t begin, int64_t of_class) {
  return axis.first + begin * axis.step + of_class * axis.tap_step % axis.step;
}

// Elements from one row of the band to the next, for outputs begin .. begin + count.
VISOPS_FN int64_t band_width(const ConvAxis& axis, int64_t begin, int64_t count) {
  const int64_t extent = band_extent(axis, count);
  if (axis.step != 1) return extent;
  const int64_t origin = band_origin(axis, begin, 0);
  const int64_t zeros = most_of(-origin, 0);  // left of each row
  // Reads beyond the width see the next row's left zeros, which must be right for them.
  const int64_t width = most_of(most_of(axis.size - origin, extent - zeros), count);
  return least_of(extent, width);
}

// Elements in a channel's plane.
VISOPS_FN int64_t band_plane(const ConvAxis& y, int64_t rows, const ConvAxis& x, int64_t width) {
  return band_classes(y) * band_extent(y, rows) * band_classes(x) * width;
}

// Elements after all planes that may be read, and must be 0.
VISOPS_FN int64_t band_tail(const ConvAxis& x, int64_t columns, int64_t width) {
  return band_extent(x, columns) - width + kBandSlack;
}

// Bytes of the columns' offsets, which lie before the band.
VISOPS_FN int64_t offsets_bytes(int64_t columns) {
  constexpr int64_t kLine = 64;
  return (columns * static_cast<int64_t>(sizeof(int32_t)) + kLine - 1) / kLine * kLine;
}

}  // namespace visops
