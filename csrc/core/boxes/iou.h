// Overlaps of all pairs of two sets of boxes, and their gradients: what fronts and kernels share.
//
// A call has two steps. The first, over both sets, converts boxes of any dtype and strides to
// columns of the computing type, and adds what belongs to one box alone (area, angle): an
// arctangent is per box, not per pair. The second is over pairs. Its arithmetic is in
// core/boxes/pair.h; for rotated boxes, in core/rotated_box.h and
// core/boxes/rotated_gradient.h.
//
// The operators return the gradient of boxes1, one lane sum for each box (NOTE [ Lane sums ] in
// core/numbers/lane_sum.h): the pair with box j of boxes2 is item j. The gradient of boxes2 is the
// same with the roles swapped (swapped_roles()) and the gradient of the result transposed, which
// only swaps its strides.
#pragma once

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/element.h"

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

}  // namespace visops
