// Which kept box each box belongs to: what fronts and kernels share.
//
// NOTE [ Matching ]
// After suppression, every box that was dropped overlaps a kept one; it belongs to the best of
// them by score. Other dropped boxes have no say, so boxes are matched independently.
#pragma once

#include "core/box.h"
#include "core/dispatch/kernel_stub.h"

namespace visops {

struct NmsMatchParams {
  const void* boxes;  // [count, 4] x1, y1, x2, y2
  DType dtype;
  int64_t box_stride, coordinate_stride;  // elements
  int64_t count;
  double iou_threshold;  // [0, 1]
  const int64_t* kept;   // [kept_count] indices of kept boxes, by falling score
  int64_t kept_count;
  int64_t* matched;  // [count] in: a kept box's own index, -1 for others, which the kernel replaces
};

template <class Acc>
VISOPS_FN Box<Acc> box_at(const NmsMatchParams& p, int64_t i) {
  return load_box<Acc>(p.boxes, p.dtype, i * p.box_stride, p.coordinate_stride);
}

inline KernelStub<NmsMatchParams> nms_match_stub{"nms_match"};

}  // namespace visops
