// Rotated boxes [x, y, width, height, angle], and how much two of them overlap.
//
// NOTE [ Rotated overlap ]
// In the frame of box a, a's sides are parallel to the axes; let p and q be its half sides. The
// area of the intersection is the integral over x in [-p, p] of the part of b's cross-section that
// lies within [-q, q]. That is a sum over b's four edges: of the integral of clamp(y(x), -q, q) dx,
// with the sign of the edge's direction. No polygon is built and no case is special. Every term is
// a continuous function of its arguments, so rounding can't lose an edge or count it twice. (It
// can where vertices are collected and sorted, for boxes that are equal or share an edge.)
//
// Everything is float64, whatever the boxes' dtype: angles and positions of long, thin boxes need
// it. A box overlaps itself by exactly 1: with equal angles the frame's rotation is exact.
#pragma once

#include "core/box.h"
#include "core/numbers/elementary.h"

namespace visops {

struct RotatedBox {
  double x, y, half_width, half_height;
  double angle, sine, cosine;
  double area, radius;  // the radius of the circle through its corners
};

// Loads five numbers `stride` elements apart, from element i on. The angle is in radians, from x to
// y; beyond 1e5 it is taken modulo float64's 2 pi.
VISOPS_FN RotatedBox load_rotated_box(const void* data, DType dtype, int64_t i, int64_t stride) {
  RotatedBox box;
  box.x = load_coordinate<double>(data, dtype, i);
  box.y = load_coordinate<double>(data, dtype, i + stride);
  const double width = load_coordinate<double>(data, dtype, i + 2 * stride);
  const double height = load_coordinate<double>(data, dtype, i + 3 * stride);
  box.angle = load_coordinate<double>(data, dtype, i + 4 * stride);
  box.half_width = 0.5 * width;
  box.half_height = 0.5 * height;
  const SinCos turn = sin_cos(box.angle);
  box.sine = turn.sine;
  box.cosine = turn.cosine;
  box.area = width * height;
  box.radius = sqrt(box.half_width * box.half_width + box.half_height * box.half_height);
  return box;
}

// Whether it overlaps nothing: a side is not positive, or a number is not finite, or so large that
// an area might not be, or so small that its half, or the area, would lose digits to underflow.
VISOPS_FN bool is_inert(const RotatedBox& box) {
  const double most = 1e150, least = 1e-290;
  const bool placed = fabs(box.x) <= most && fabs(box.y) <= most && box.cosine == box.cosine;
  return !(placed && box.half_width >= least && box.half_height >= least && box.radius <= most &&
           box.area >= least);
}

VISOPS_FN double clamp_between(double v, double low, double high) {
  return v < low ? low : (v > high ? high : v);
}

// The integral of clamp(y(x), -q, q) along the edge from (x0, y0) to (x1, y1), within [-p, p].
VISOPS_FN double clamped_edge_integral(double x0, double y0, double x1, double y1, double p,
                                       double q) {
  const double start = clamp_between(x0, -p, p), end = clamp_between(x1, -p, p);
  const double width = end - start;
  if (width == 0.0) return 0.0;
  // Fractions, not a slope, which could be infinite. Ends that are not cut stay exact.
  const double length = x1 - x0;
  const double ys = y0 + (start - x0) / length * (y1 - y0);
  const double ye = y1 - (x1 - end) / length * (y1 - y0);
  const double low = ys < ye ? ys : ye, high = ys < ye ? ye : ys;
  const double rise = high - low;
  const double low_in = clamp_between(low, -q, q), high_in = clamp_between(high, -q, q);
  if (!(rise > 0.0)) return low_in * width;
  const double below = (high < -q ? high : -q) - (low < -q ? low : -q);
  const double above = (high > q ? high : q) - (low > q ? low : q);
  const double inside = (high_in - low_in) * (0.5 * (high_in + low_in));
  return (inside + q * (above - below)) / rise * width;
}

// Whether the circles through the corners meet; if not, the boxes don't.
template <class Circle>
VISOPS_FN bool circles_meet(const Circle& a, const Circle& b) {
  const double dx = b.x - a.x, dy = b.y - a.y, reach = a.radius + b.radius;
  return dx * dx + dy * dy < reach * reach;
}

// A box's position and rotation in the frame of another one.
struct Placement {
  double x, y, cosine, sine;
};

VISOPS_FN Placement located_in(const RotatedBox& frame, const RotatedBox& box) {
  const double dx = box.x - frame.x, dy = box.y - frame.y;
  const double x = frame.cosine * dx + frame.sine * dy, y = frame.cosine * dy - frame.sine * dx;
  if (frame.angle == box.angle) return {x, y, 1.0, 0.0};
  return {x, y, frame.cosine * box.cosine + frame.sine * box.sine,
          frame.cosine * box.sine - frame.sine * box.cosine};
}

// The area of the intersection of boxes that are not inert.
VISOPS_FN double intersection(const RotatedBox& a, const RotatedBox& b) {
  if (!circles_meet(a, b)) return 0.0;
  const auto [x, y, c, s] = located_in(a, b);
  const double wx = c * b.half_width, wy = s * b.half_width;
  const double hx = -s * b.half_height, hy = c * b.half_height;
  const double corner_x[4] = {x - wx - hx, x + wx - hx, x + wx + hx, x - wx + hx};
  const double corner_y[4] = {y - wy - hy, y + wy - hy, y + wy + hy, y - wy + hy};
  double area = 0.0;  // counter-clockwise: upper edges run towards smaller x
  for (int i = 0; i < 4; ++i) {
    const int j = (i + 1) & 3;
    area -= clamped_edge_integral(corner_x[i], corner_y[i], corner_x[j], corner_y[j], a.half_width,
                                  a.half_height);
  }
  const double least = a.area < b.area ? a.area : b.area;
  // For boxes apart, the sum leaves a rounding error, which is below this bound: they share
  // nothing.
  return area > 1e-15 * a.area ? (area < least ? area : least) : 0.0;
}

// Intersection over union, in [0, 1], of boxes that are not inert.
VISOPS_FN double rotated_iou(const RotatedBox& a, const RotatedBox& b) {
  const double inter = intersection(a, b);
  return inter / (a.area + b.area - inter);
}

// Bounds parallel to the axes, rounding included; inert if the box is. Boxes whose bounds don't
// meet share nothing. The area is any positive one.
VISOPS_FN Box<double> bounds_of(const RotatedBox& box) {
  if (is_inert(box)) return {};
  const double c = fabs(box.cosine), s = fabs(box.sine);
  const double dx = c * box.half_width + s * box.half_height;
  const double dy = s * box.half_width + c * box.half_height;
  const double margin = 1e-14 * (fabs(box.x) + fabs(box.y) + dx + dy);
  return {box.x - dx - margin, box.y - dy - margin, box.x + dx + margin, box.y + dy + margin, 1.0};
}

// Whether rotated_iou() exceeds `threshold`.
VISOPS_FN bool overlaps(const RotatedBox& a, const RotatedBox& b, double threshold) {
  const double least = a.area < b.area ? a.area : b.area, most = a.area < b.area ? b.area : a.area;
  // The ratio of the areas bounds the overlap, and costs less.
  return least >= threshold * most * (1.0 - 1e-9) && rotated_iou(a, b) > threshold;
}

}  // namespace visops
