// The gradient of two rotated boxes' overlap by the first of them.
//
// NOTE [ Rotated gradient ]
// When the boundary of box a moves, the area of the intersection changes by the integral of the
// boundary's normal velocity over the part of it that lies within box b (Reynolds' transport
// theorem). On each edge of a, that part is one segment, found by clipping the edge with b's sides.
// Only its length and its first moment about the edge's middle are needed: the length for shifts
// and sides, the moment for the angle. No vertex of the intersection is needed.
//
// Where an edge of a lies on one of b's, the area has a kink. The edge counts half if both boxes
// are on the same side of it, so a box has no gradient with itself, and not at all if they are on
// different sides: the rules of NOTE [ Pairs of boxes ].
#pragma once

#include "core/boxes/iou.h"
#include "core/rotated_box.h"

namespace visops {

// Gradients by x, y, width, height and angle.
struct RotatedGradient {
  double x, y, width, height, angle;
};

// The part of an edge that lies within the other box.
struct EdgePart {
  double length, moment;
};

// The range [low, high] of the edge's parameter that lies within, and a weight.
struct EdgeClip {
  double low, high, weight;
};

// Clips to |at + t * step| <= half. The edge's own box lies on the side away from `outward`.
VISOPS_FN void clip_edge(double at, double step, double half, double outward, EdgeClip* clip) {
  if (step == 0.0) {
    const double size = fabs(at);
    if (size == half) clip->weight *= (at > 0.0) == (outward > 0.0) ? 0.5 : 0.0;
    if (size > half) clip->weight = 0.0;
    return;
  }
  const double first = (-half - at) / step, second = (half - at) / step;
  const double low = first < second ? first : second, high = first < second ? second : first;
  if (low > clip->low) clip->low = low;
  if (high < clip->high) clip->high = high;
}

// Clips an edge in the frame of box b. Its box has the centre (x, y); the edge has the middle
// (x + out_x, y + out_y) and extends by (step_x, step_y), of length `half_length`, to either side.
VISOPS_FN EdgePart edge_within(double x, double y, double out_x, double out_y, double step_x,
                               double step_y, double half_length, const RotatedBox& b) {
  EdgeClip clip = {-1.0, 1.0, 1.0};
  clip_edge(x + out_x, step_x, b.half_width, out_x, &clip);
  clip_edge(y + out_y, step_y, b.half_height, out_y, &clip);
  if (!(clip.low < clip.high)) return {0.0, 0.0};
  const double length = (clip.high - clip.low) * half_length * clip.weight;
  return {length, length * (0.5 * (clip.low + clip.high)) * half_length};
}

// The gradient of the intersection's area, for boxes that are not inert.
VISOPS_FN RotatedGradient intersection_gradient(const RotatedBox& a, const RotatedBox& b) {
  if (!circles_meet(a, b)) return {0.0, 0.0, 0.0, 0.0, 0.0};
  const auto [x, y, c, s] = located_in(b, a);
  const double wx = c * a.half_width, wy = s * a.half_width;
  const double hx = -s * a.half_height, hy = c * a.half_height;
  // Named in a's own frame; moments are along its axes.
  const EdgePart right = edge_within(x, y, wx, wy, hx, hy, a.half_height, b);
  const EdgePart left = edge_within(x, y, -wx, -wy, hx, hy, a.half_height, b);
  const EdgePart top = edge_within(x, y, hx, hy, wx, wy, a.half_width, b);
  const EdgePart bottom = edge_within(x, y, -hx, -hy, wx, wy, a.half_width, b);
  const double along = right.length - left.length, across = top.length - bottom.length;
  return {a.cosine * along - a.sine * across, a.sine * along + a.cosine * across,
          0.5 * (right.length + left.length), 0.5 * (top.length + bottom.length),
          (left.moment - right.moment) + (top.moment - bottom.moment)};
}

// Prepares a box for pairs. An inert box gets the radius NaN, with which it meets nothing; if it
// has a NaN, also the area NaN, which makes every overlap NaN.
VISOPS_FN RotatedBox paired_box(RotatedBox box) {
  if (!is_inert(box)) return box;
  const bool defined = box.x == box.x && box.y == box.y && box.half_width == box.half_width &&
                       box.half_height == box.half_height && box.angle == box.angle;
  box.radius = HUGE_VAL - HUGE_VAL;
  box.area = defined ? 1.0 : box.radius;
  return box;
}

// The overlap of boxes from paired_box(): NaN if one has the area NaN, which nothing else does.
VISOPS_FN double rotated_overlap(const RotatedBox& a, const RotatedBox& b, BoxOverlap kind) {
  if (kind == BoxOverlap::kIof) return intersection(a, b) / (a.area + (b.area - b.area));
  if (kind == BoxOverlap::kIof2) return intersection(a, b) / (b.area + (a.area - a.area));
  return rotated_iou(a, b);
}

// Gradients by box a: through the intersection, and by its area.
struct RotatedPairGradient {
  double x, y, width, height, angle, area;
};

// `grad` is the gradient of rotated_overlap(a, b, kind).
VISOPS_FN RotatedPairGradient rotated_overlap_gradient(const RotatedBox& a, const RotatedBox& b,
                                                       BoxOverlap kind, double grad) {
  const double inter = intersection(a, b);
  double whole = a.area + b.area - inter;
  if (kind == BoxOverlap::kIof) whole = a.area + (b.area - b.area);
  if (kind == BoxOverlap::kIof2) whole = b.area + (a.area - a.area);
  const double scaled = grad / whole;
  const double by_area = kind == BoxOverlap::kIof2 ? 0.0 : -(scaled * (inter / whole));
  const double by_inter = kind == BoxOverlap::kIou ? scaled - by_area : scaled;
  const RotatedGradient of_inter = intersection_gradient(a, b);
  return {by_inter * of_inter.x,      by_inter * of_inter.y,     by_inter * of_inter.width,
          by_inter * of_inter.height, by_inter * of_inter.angle, by_area};
}

// Passes the gradient by area on to the sides.
VISOPS_FN void finish_gradient(const RotatedBox& a, const RotatedPairGradient& sum, double out[5]) {
  out[0] = sum.x;
  out[1] = sum.y;
  out[2] = sum.width + sum.area * (2.0 * a.half_height);
  out[3] = sum.height + sum.area * (2.0 * a.half_width);
  out[4] = sum.angle;
}

}  // namespace visops
