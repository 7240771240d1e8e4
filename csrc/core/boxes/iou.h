// Overlaps of all pairs of two sets of boxes, and their gradients: what fronts and kernels share.
//
// A call has two steps. The first, over both sets, converts boxes of any dtype and strides to
// columns of the computing type, and adds what belongs to one box alone (area, angle): an
// arctangent is per box, not per pair. The second is over pairs. Its arithmetic is
// below; what rotated boxes share of it is in core/box.h.
//
// The operators return the gradient of boxes1, one lane sum for each box (NOTE [ Lane sums ] in
// core/numbers/lane_sum.h): the pair with box j of boxes2 is item j. The gradient of boxes2 is the
// same with the roles swapped (swapped_roles()) and the gradient of the result transposed, which
// only swaps its strides.
#pragma once

#include <cmath>

#include "core/box.h"
#include "core/dispatch/kernel_stub.h"
#include "core/numbers/element.h"
#include "core/numbers/elementary.h"

namespace visops {

// kIof is the share of boxes1's box that boxes2's covers, kIof2 the other way round.
enum class BoxOverlap : int { kIou, kIof, kIof2, kGeneralized, kDistance, kComplete };

// The measure of two boxes whose roles are swapped.
constexpr BoxOverlap swapped_roles(BoxOverlap kind) {
  if (kind == BoxOverlap::kIof) return BoxOverlap::kIof2;
  return kind == BoxOverlap::kIof2 ? BoxOverlap::kIof : kind;
}

// [count, 4] x1, y1, x2, y2 or [count, 5] x, y, width, height, angle.
struct BoxSet {
  const void* data;
  DType dtype;
  int64_t count, box_stride, coordinate_stride;  // elements
};

// The columns of a set of boxes: x1, y1, x2, y2, area, angle.
constexpr int64_t kBoxColumns = 6;

struct BoxIouParams {
  BoxSet boxes1, boxes2;
  BoxOverlap kind;
  double eps;
  bool in_double;  // computed in double; rotated boxes always are
  void* columns1;  // [kBoxColumns, boxes1.count] scratch, or [boxes1.count] RotatedBox
  void* columns2;  // the same for boxes2

  // Forward only.
  void* result;  // [boxes1.count, boxes2.count] contiguous
  DType result_dtype;

  // Backward only.
  const void* grad;  // [boxes1.count, boxes2.count], of result_dtype
  int64_t grad_row_stride, grad_column_stride;
  void* grad_boxes;  // [boxes1.count, 4 or 5] contiguous, of boxes1's dtype
};

// The first step, of straight boxes and of rotated ones.
extern KernelStub<BoxIouParams> box_columns_stub;
extern KernelStub<BoxIouParams> rotated_columns_stub;
// The second.
extern KernelStub<BoxIouParams> box_iou_stub;
extern KernelStub<BoxIouParams> box_iou_backward_stub;
extern KernelStub<BoxIouParams> box_iou_rotated_stub;
extern KernelStub<BoxIouParams> box_iou_rotated_backward_stub;

BoxOverlap parse_box_overlap(const char* op, const std::string& name);
BoxOverlap parse_rotated_overlap(const char* op, const std::string& name);

// Checks dtypes and eps and, for the backward, that boxes1 can have a gradient.
void check_box_iou(const char* op, const BoxIouParams& p, bool backward);

// How much two boxes overlap, in several measures, and the gradients by the first of them.
//
// NOTE [ Pairs of boxes ]
// The measures are torchvision's, operation by operation and without contraction, so that values
// agree to the last bit where no arctangent is involved:
//   iou          I / U, with U = A + B - I
//   iof, iof2    I / A, I / B (torchvision has none)
//   generalized  iou - (C - U) / C, C being the area of the smallest box around both
//   distance     iou - r / (d + eps), r the squared distance of the centres, d that box's diagonal
//   complete     distance - alpha v, v = (2 / pi)^2 (arctan(w / h) - arctan(w' / h'))^2,
//                alpha = v / (1 - iou + v + eps)
// A finite number over 0 is 0, and so is its gradient. NaN coordinates make the area, and so every
// measure, NaN. All measures are the same, to the last bit, with the boxes' roles swapped
// (swapped_roles()).
//
// Gradients are those of torch's autograd: alpha is a constant, equal arguments of a minimum or
// maximum get half of the gradient each, and a side of exactly 0 gets none. (The last is torch's
// rule since 2.15; before, the side got all of it.)

template <class Acc>
struct PairBox {
  Acc x1, y1, x2, y2, area, angle;
};

template <class Acc>
VISOPS_HOT_FN Acc lesser(Acc a, Acc b) {
  return a < b ? a : b;
}

template <class Acc>
VISOPS_HOT_FN Acc greater(Acc a, Acc b) {
  return a > b ? a : b;
}

// A divisor that makes the quotient 0 where `denominator` is 0. (Selecting the quotient would do
// too, but compilers turn several selects with one condition into branches, which don't
// vectorise.)
template <class Acc>
VISOPS_HOT_FN Acc divisor(Acc denominator) {
  return denominator == static_cast<Acc>(0) ? static_cast<Acc>(HUGE_VAL) : denominator;
}

// arctan(w / h): pi / 2 for flat boxes, 0 for points.
template <class Acc>
VISOPS_FN Acc angle_of(const Box<Acc>& box) {
  const Acc width = box.x2 - box.x1, height = box.y2 - box.y1;
  if (width == static_cast<Acc>(0) && height == static_cast<Acc>(0)) return static_cast<Acc>(0);
  return static_cast<Acc>(arctan_of(static_cast<double>(width / height)));
}

// NaN if a coordinate is, else 0.
template <class Acc>
VISOPS_FN Acc poison_of(const Box<Acc>& box) {
  const bool defined = box.x1 == box.x1 && box.y1 == box.y1 && box.x2 == box.x2 && box.y2 == box.y2;
  return defined ? static_cast<Acc>(0) : static_cast<Acc>(HUGE_VAL - HUGE_VAL);
}

// Columns are [kBoxColumns, count]. Only kComplete reads the angle; kIof and kIof2 find 0 there, or
// NaN for a box with a NaN.
template <class Acc>
VISOPS_HOT_FN PairBox<Acc> load_pair_box(const Acc* columns, int64_t count, int64_t i) {
  return {columns[i],
          columns[count + i],
          columns[2 * count + i],
          columns[3 * count + i],
          columns[4 * count + i],
          columns[5 * count + i]};
}

// Stores box i of the set as column i.
template <class Acc>
VISOPS_HOT_FN void make_box_column(const BoxSet& set, DType dtype, bool with_angle, int64_t i,
                                   Acc* columns) {
  const Box<Acc> box = load_box<Acc>(set.data, dtype, i * set.box_stride, set.coordinate_stride);
  const int64_t count = set.count;
  columns[i] = box.x1;
  columns[count + i] = box.y1;
  columns[2 * count + i] = box.x2;
  columns[3 * count + i] = box.y2;
  columns[4 * count + i] = box.area;
  columns[5 * count + i] = with_angle ? angle_of(box) : poison_of(box);
}

// The sides of two boxes' intersection, and of the smallest box around both (the hull).
template <class Acc>
struct PairSides {
  Acc width, height, hull_width, hull_height;  // not clamped
};

template <class Acc>
VISOPS_HOT_FN PairSides<Acc> sides_of(const PairBox<Acc>& a, const PairBox<Acc>& b) {
  return {lesser(a.x2, b.x2) - greater(a.x1, b.x1), lesser(a.y2, b.y2) - greater(a.y1, b.y1),
          greater(a.x2, b.x2) - lesser(a.x1, b.x1), greater(a.y2, b.y2) - lesser(a.y1, b.y1)};
}

template <class Acc>
VISOPS_HOT_FN Acc clamped(Acc side) {
  return greater(side, static_cast<Acc>(0));
}

// The terms v and alpha of `complete`, from the difference of the angles.
template <class Acc>
struct AspectTerm {
  Acc v, alpha;
};

template <class Acc>
VISOPS_HOT_FN AspectTerm<Acc> aspect_term(Acc difference, Acc iou, Acc eps) {
  const Acc v = static_cast<Acc>(0.4052847345693511) * (difference * difference);  // 4 / pi^2
  return {v, v / divisor(static_cast<Acc>(1) - iou + v + eps)};
}

// The distance of the centres along each axis.
template <class Acc>
VISOPS_HOT_FN Acc distance_x(const PairBox<Acc>& a, const PairBox<Acc>& b) {
  const Acc half = static_cast<Acc>(0.5);
  return (a.x1 + a.x2) * half - (b.x1 + b.x2) * half;
}
template <class Acc>
VISOPS_HOT_FN Acc distance_y(const PairBox<Acc>& a, const PairBox<Acc>& b) {
  const Acc half = static_cast<Acc>(0.5);
  return (a.y1 + a.y2) * half - (b.y1 + b.y2) * half;
}

// What the intersection of `own` with `other` is divided by: own's area, or NaN if other has one.
template <class Acc>
VISOPS_HOT_FN Acc own_area(const PairBox<Acc>& own, const PairBox<Acc>& other) {
  return own.area + other.angle;
}

template <BoxOverlap kind, class Acc>
VISOPS_HOT_FN Acc pair_overlap(const PairBox<Acc>& a, const PairBox<Acc>& b, Acc eps) {
  const PairSides<Acc> sides = sides_of(a, b);
  const Acc inter = clamped(sides.width) * clamped(sides.height);
  if constexpr (kind == BoxOverlap::kIof) return inter / divisor(own_area(a, b));
  if constexpr (kind == BoxOverlap::kIof2) return inter / divisor(own_area(b, a));
  const Acc both = a.area + b.area - inter;
  const Acc iou = inter / divisor(both);
  if constexpr (kind == BoxOverlap::kIou) return iou;
  const Acc hull_width = clamped(sides.hull_width), hull_height = clamped(sides.hull_height);
  if constexpr (kind == BoxOverlap::kGeneralized) {
    const Acc hull = hull_width * hull_height;
    return iou - (hull - both) / divisor(hull);
  }
  const Acc diagonal = divisor(hull_width * hull_width + hull_height * hull_height + eps);
  const Acc x = distance_x(a, b), y = distance_y(a, b);
  const Acc distance = iou - (x * x + y * y) / diagonal;
  if constexpr (kind == BoxOverlap::kDistance) return distance;
  const AspectTerm<Acc> aspect = aspect_term(a.angle - b.angle, iou, eps);
  return distance - aspect.alpha * aspect.v;
}

// Gradients by box a: by its corners (directly), its area and its angle.
template <class Acc>
struct PairGradient {
  Acc x1, y1, x2, y2, area, angle;
};

// The part of the gradient of max(argument, other) that the argument gets; the same for
// min(-argument, -other).
template <class Acc>
VISOPS_HOT_FN Acc share(Acc argument, Acc other) {
  const Acc tied = argument == other ? static_cast<Acc>(0.5) : static_cast<Acc>(0);
  return argument > other ? static_cast<Acc>(1) : tied;
}

// `grad` is the gradient of pair_overlap<kind>(a, b, eps).
template <BoxOverlap kind, class Acc>
VISOPS_HOT_FN PairGradient<Acc> pair_gradient(const PairBox<Acc>& a, const PairBox<Acc>& b, Acc eps,
                                              Acc grad) {
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1), two = static_cast<Acc>(2);
  const PairSides<Acc> sides = sides_of(a, b);
  const Acc width = clamped(sides.width), height = clamped(sides.height);
  const Acc hull_width = clamped(sides.hull_width), hull_height = clamped(sides.hull_height);
  const Acc inter = width * height;
  const Acc both = a.area + b.area - inter;
  const Acc iou = inter / divisor(both);

  PairGradient<Acc> sum = {};
  Acc by_inter;
  if constexpr (kind == BoxOverlap::kIof) {
    const Acc own = divisor(own_area(a, b));
    by_inter = grad / own;
    sum.area = -(by_inter * (inter / own));
  } else if constexpr (kind == BoxOverlap::kIof2) {
    by_inter = grad / divisor(own_area(b, a));
  } else {
    const Acc scaled = grad / divisor(both);
    sum.area = -(scaled * iou);
    by_inter = scaled - sum.area;
  }
  Acc by_hull_width = zero, by_hull_height = zero;
  if constexpr (kind == BoxOverlap::kGeneralized) {
    const Acc hull = divisor(hull_width * hull_height);
    const Acc shrunk = grad / hull;
    by_inter -= shrunk;
    sum.area += shrunk;
    const Acc by_hull = -(shrunk * (both / hull));
    by_hull_width = sides.hull_width > zero ? by_hull * hull_height : zero;
    by_hull_height = sides.hull_height > zero ? by_hull * hull_width : zero;
  }
  if constexpr (kind == BoxOverlap::kDistance || kind == BoxOverlap::kComplete) {
    const Acc diagonal = divisor(hull_width * hull_width + hull_height * hull_height + eps);
    const Acc x = distance_x(a, b), y = distance_y(a, b);
    const Acc nearer = grad / diagonal;
    const Acc by_diagonal = nearer * ((x * x + y * y) / diagonal) * two;
    by_hull_width = by_diagonal * hull_width;
    by_hull_height = by_diagonal * hull_height;
    sum.x1 = sum.x2 = -(nearer * x);
    sum.y1 = sum.y2 = -(nearer * y);
  }
  if constexpr (kind == BoxOverlap::kComplete) {
    const Acc difference = a.angle - b.angle;
    const Acc alpha = aspect_term(difference, iou, eps).alpha;
    sum.angle = -(grad * alpha) * (static_cast<Acc>(0.8105694691387022) * difference);  // 8 / pi^2
  }
  const Acc by_width = sides.width > zero ? by_inter * height : zero;
  const Acc by_height = sides.height > zero ? by_inter * width : zero;
  const Acc left = share(a.x1, b.x1), top = share(a.y1, b.y1);
  const Acc right = share(b.x2, a.x2), bottom = share(b.y2, a.y2);
  sum.x1 -= by_width * left;
  sum.y1 -= by_height * top;
  sum.x2 += by_width * right;
  sum.y2 += by_height * bottom;
  constexpr bool has_hull =
      kind != BoxOverlap::kIou && kind != BoxOverlap::kIof && kind != BoxOverlap::kIof2;
  if constexpr (has_hull) {
    sum.x1 -= by_hull_width * (one - left);
    sum.y1 -= by_hull_height * (one - top);
    sum.x2 += by_hull_width * (one - right);
    sum.y2 += by_hull_height * (one - bottom);
  }
  return sum;
}

// Passes the gradients by area and angle on to the corners. (The second sum has no difference:
// GCC 12 would pair it with the first in a vector of fused operations, whatever -ffp-contract
// says.)
template <class Acc>
VISOPS_FN void finish_gradient(const PairBox<Acc>& a, const PairGradient<Acc>& sum, Acc out[4]) {
  const Acc width = a.x2 - a.x1, height = a.y2 - a.y1;
  const Acc around = divisor(width * width + height * height);
  const Acc by_width = sum.area * height + sum.angle * (height / around);
  const Acc by_height = sum.area * width + sum.angle * ((a.x1 - a.x2) / around);
  out[0] = sum.x1 - by_width;
  out[1] = sum.y1 - by_height;
  out[2] = sum.x2 + by_width;
  out[3] = sum.y2 + by_height;
}

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
