// Greedy non-maximum suppression: what fronts and kernels share.
//
// NOTE [ Greedy suppression ]
// Candidates come segment by segment and, within a segment, best first. A segment is an image, or a
// class of an image: boxes of different segments never meet. A candidate is kept unless a kept box
// of its segment overlaps it by more than the threshold (NOTE [ Overlap ] in core/box.h).
// Testing against kept boxes only is the definition. It also lets max_output stop early and makes
// pruning possible: kept boxes can't be dense.
#pragma once

#include "core/dispatch/kernel_stub.h"
#include "core/rotated_box.h"

namespace visops {

// Candidates with a score of `threshold` or less take no part.
struct ScoreFilter {
  const void* scores;  // [candidates] contiguous; null: all take part
  DType dtype;
  double threshold;
};

struct NmsParams {
  const void* boxes;  // [images, per_image, 4] x1, y1, x2, y2; or 5: x, y, width, height, angle
  DType dtype;
  int64_t image_stride, box_stride, coordinate_stride;  // elements
  int64_t per_image;                                    // boxes of an image
  int64_t classes;                                      // sharing each image's boxes

  // A candidate is a number (image * classes + class) * per_image + box.
  int64_t count;
  const int64_t* order;  // [count] candidates, segment by segment, best first
  // [count] for each in `order`: equal numbers are adjacent. CUDA only: null if images are the
  // segments, and numbers in `order` begin with 0 in each.
  const int64_t* segment;
  double iou_threshold;  // [0, 1]
  int64_t max_output;    // most to keep of a segment; negative: no limit. CUDA: see nms_limit.h
  ScoreFilter filter;    // CUDA only: on the CPU the front leaves such candidates out

  // CUDA only, without `segment`: positions in `order`, from 0 on in each image, by these codes.
  const int64_t* by_place;  // [count] or null
  int32_t* codes;           // [count] result by position. If set, the kernel computes this only

  uint8_t* kept;  // [count] result: 1 or 0 for each in `order`
};

// First element of a candidate's box.
VISOPS_FN int64_t box_offset(const NmsParams& p, int64_t candidate) {
  if (candidate < p.per_image) return candidate * p.box_stride;  // no slow divisions
  const int64_t group = candidate / p.per_image;
  return group / p.classes * p.image_stride + (candidate - group * p.per_image) * p.box_stride;
}

template <class Acc>
VISOPS_FN Box<Acc> candidate_box(const NmsParams& p, int64_t candidate) {
  return load_box<Acc>(p.boxes, p.dtype, box_offset(p, candidate), p.coordinate_stride);
}

VISOPS_FN RotatedBox rotated_candidate_box(const NmsParams& p, int64_t candidate) {
  return load_rotated_box(p.boxes, p.dtype, box_offset(p, candidate), p.coordinate_stride);
}

extern KernelStub<NmsParams> nms_stub, nms_rotated_stub;

// The dtype, and iou_threshold within [0, 1].
void check_nms(const char* op, const NmsParams& p);

}  // namespace visops
