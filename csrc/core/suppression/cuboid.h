// Boxes of three dimensions [x1, y1, z1, x2, y2, z2], and how much two of them overlap: as in
// core/box.h, in float64.
#pragma once

#include "core/box.h"

namespace visops {

struct Cuboid {
  double x1, y1, z1, x2, y2, z2, volume;
};

VISOPS_FN double volume_of(const Cuboid& box) {
  return (box.x2 - box.x1) * (box.y2 - box.y1) * (box.z2 - box.z1);
}

// Loads six coordinates `stride` elements apart, from element i on.
VISOPS_FN Cuboid load_cuboid(const void* data, DType dtype, int64_t i, int64_t stride) {
  Cuboid box;
  box.x1 = load_coordinate<double>(data, dtype, i);
  box.y1 = load_coordinate<double>(data, dtype, i + stride);
  box.z1 = load_coordinate<double>(data, dtype, i + 2 * stride);
  box.x2 = load_coordinate<double>(data, dtype, i + 3 * stride);
  box.y2 = load_coordinate<double>(data, dtype, i + 4 * stride);
  box.z2 = load_coordinate<double>(data, dtype, i + 5 * stride);
  box.volume = volume_of(box);
  return box;
}

// Whether its volume is not a positive finite number, or it is inverted: it overlaps nothing.
VISOPS_FN bool is_inert(const Cuboid& box) {
  return !(box.x2 > box.x1 && box.y2 > box.y1 && box.z2 > box.z1 && box.volume > 0.0 &&
           box.volume <= 1.7976931348623157e+308);
}

// The intersection over union of cuboids; 0 if they don't meet or one of them is inert.
VISOPS_FN double overlap_of(const Cuboid& a, const Cuboid& b) {
  const double left = a.x1 < b.x1 ? b.x1 : a.x1, right = b.x2 < a.x2 ? b.x2 : a.x2;
  const double top = a.y1 < b.y1 ? b.y1 : a.y1, bottom = b.y2 < a.y2 ? b.y2 : a.y2;
  const double front = a.z1 < b.z1 ? b.z1 : a.z1, back = b.z2 < a.z2 ? b.z2 : a.z2;
  const double width = right - left, height = bottom - top, depth = back - front;
  if (!(width > 0.0 && height > 0.0 && depth > 0.0)) return 0.0;
  const double inter = width * height * depth;
  return inter / (a.volume + b.volume - inter);
}

}  // namespace visops
