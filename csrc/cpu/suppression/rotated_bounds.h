// What rotated boxes can overlap, by bounds parallel to the axes.
#pragma once

#include <cmath>

#include "core/rotated_box.h"

namespace visops {
namespace {

// Bounds of the rotated box, rounding included; inert if it is. BoxRuns wants an area: any will do.
inline Box<double> bounds_of(const RotatedBox& box) {
  if (is_inert(box)) return {};
  const double c = std::fabs(box.cosine), s = std::fabs(box.sine);
  const double dx = c * box.half_width + s * box.half_height;
  const double dy = s * box.half_width + c * box.half_height;
  const double margin = 1e-14 * (std::fabs(box.x) + std::fabs(box.y) + dx + dy);
  return {box.x - dx - margin, box.y - dy - margin, box.x + dx + margin, box.y + dy + margin, 1.0};
}

}  // namespace
}  // namespace visops
