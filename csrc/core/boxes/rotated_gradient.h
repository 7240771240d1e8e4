// How the overlap of two rotated boxes changes with the first of them.
//
// NOTE [ Rotated gradient ]
// When the boundary of box a moves, the area of the intersection changes by the integral of the
// boundary's normal velocity over that part of it which lies within box b (Reynolds' transport
// theorem). Of each edge of a that part is one segment, found by clipping it with b's sides; all
// that is needed of it is its length and its first moment along the edge, from the edge's middle:
// shifts and sides take the former, the angle the latter. No vertex of the intersection is needed.
//
// Where an edge of a lies on one of b's, the area has a kink: with both boxes on one side of it, it
// counts half, so that a box has no gradient with itself, and with the boxes on either side not at
// all; as NOTE [ Pairs of boxes ] has it.
#pragma once

#include "core/rotated_box.h"

namespace visops {

// By x, y, width, height and angle.
struct RotatedGradient {
  double x, y, width, height, angle;
};

// Of an edge: the part within the other box.
struct EdgePart {
  double length, moment;
};

// The part [low, high] of the edge's parameter that is within, and a weight.
struct EdgeClip {
  double low, high, weight;
};

// Leaves of `clip` where |at + t * step| <= half. The edge's own box lies against `outward`.
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

// The edge whose middle is (x + out_x, y + out_y) and whose half is (step_x, step_y), of length
// `half_length`, in the frame of box b; (x, y) is the middle of its own box.
VISOPS_FN EdgePart edge_within(double x, double y, double out_x, double out_y, double step_x,
                               double step_y, double half_length, const RotatedBox& b) {
  EdgeClip clip = {-1.0, 1.0, 1.0};
  clip_edge(x + out_x, step_x, b.half_width, out_x, &clip);
  clip_edge(y + out_y, step_y, b.half_height, out_y, &clip);
  if (!(clip.low < clip.high)) return {0.0, 0.0};
  const double length = (clip.high - clip.low) * half_length * clip.weight;
  return {length, length * (0.5 * (clip.low + clip.high)) * half_length};
}

// Of the area of the intersection of boxes that are not inert.
VISOPS_FN RotatedGradient intersection_gradient(const RotatedBox& a, const RotatedBox& b) {
  if (!circles_meet(a, b)) return {0.0, 0.0, 0.0, 0.0, 0.0};
  const auto [x, y, c, s] = placed_in(b, a);
  const double wx = c * a.half_width, wy = s * a.half_width;
  const double hx = -s * a.half_height, hy = c * a.half_height;
  // Named as a's own axes have it; moments are along them.
  const EdgePart right = edge_within(x, y, wx, wy, hx, hy, a.half_height, b);
  const EdgePart left = edge_within(x, y, -wx, -wy, hx, hy, a.half_height, b);
  const EdgePart top = edge_within(x, y, hx, hy, wx, wy, a.half_width, b);
  const EdgePart bottom = edge_within(x, y, -hx, -hy, wx, wy, a.half_width, b);
  const double along = right.length - left.length, across = top.length - bottom.length;
  return {a.cosine * along - a.sine * across, a.sine * along + a.cosine * across,
          0.5 * (right.length + left.length), 0.5 * (top.length + bottom.length),
          (left.moment - right.moment) + (top.moment - bottom.moment)};
}

// A box for pairs: one that is inert overlaps nothing, by a radius that no comparison holds for,
// and one of NaN makes every overlap NaN, by its area.
VISOPS_FN RotatedBox paired_box(RotatedBox box) {
  if (!is_inert(box)) return box;
  const bool defined = box.x == box.x && box.y == box.y && box.half_width == box.half_width &&
                       box.half_height == box.half_height && box.angle == box.angle;
  box.radius = HUGE_VAL - HUGE_VAL;
  box.area = defined ? 1.0 : box.radius;
  return box;
}

// By box a: of the intersection, and by its area.
struct RotatedPairGradient {
  double x, y, width, height, angle, area;
};

// `grad` is the gradient of rotated_iou(a, b), of boxes from paired_box().
VISOPS_FN RotatedPairGradient rotated_iou_gradient(const RotatedBox& a, const RotatedBox& b,
                                                   double grad) {
  const double inter = intersection(a, b);
  const double both = a.area + b.area - inter;
  const double scaled = grad / both;
  const double by_area = -(scaled * (inter / both));
  const double by_inter = scaled - by_area;
  const RotatedGradient of_inter = intersection_gradient(a, b);
  return {by_inter * of_inter.x,      by_inter * of_inter.y,     by_inter * of_inter.width,
          by_inter * of_inter.height, by_inter * of_inter.angle, by_area};
}

// The gradient by the box's numbers alone: what the area has is passed on to the sides.
VISOPS_FN void finish_gradient(const RotatedBox& a, const RotatedPairGradient& sum, double out[5]) {
  out[0] = sum.x;
  out[1] = sum.y;
  out[2] = sum.width + sum.area * (2.0 * a.half_height);
  out[3] = sum.height + sum.area * (2.0 * a.half_width);
  out[4] = sum.angle;
}

}  // namespace visops
