// Greedy non-maximum suppression: what fronts and kernels share.
//
// NOTE [ Greedy suppression ]
// Candidates come segment by segment (an image, a class of an image: boxes of two segments never
// meet) and within a segment best first. One after another they are kept, unless a box that was
// kept before in the segment overlaps them by more than the threshold (NOTE [ Overlap ] in
// core/box.h). Testing against kept boxes only is the definition, lets max_output stop early,
// and is what makes pruning possible: kept boxes can't be dense.
#pragma once

#include "core/kernel_stub.h"
#include "core/rotated_box.h"

namespace visops {

struct NmsParams {
  const void* boxes;  // [images, per_image, 4] x1, y1, x2, y2; or 5: x, y, width, height, angle
  bool rotated;       // the latter
  DType dtype;
  int64_t image_stride, box_stride, coordinate_stride;  // elements
  int64_t per_image;                                    // boxes of an image
  int64_t classes;                                      // that have the boxes of an image in common

  // A candidate is a number (image * classes + class) * per_image + box.
  int64_t count;
  const int64_t* order;    // [count] candidates, segment by segment, best first
  const int64_t* segment;  // [count] of each in `order`: equal numbers lie together
  double iou_threshold;    // [0, 1]
  int64_t max_output;      // kept of a segment at most; negative: as many as there are

  // CUDA only (on the CPU, fronts leave such candidates out): only scores above score_threshold
  // take part, where `filtered`.
  bool filtered;
  const void* scores;  // [candidates] contiguous
  DType score_dtype;
  double score_threshold;

  uint8_t* kept;  // [count] 1 or 0 for each in `order`
  void* scratch;  // nms_cpu_scratch_bytes(), or nms_cuda_scratch_bytes() of
                  // core/suppression/nms_scratch.h
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

// On the CPU, work is cut by position in `order`; a task has the segments that begin in its part.
extern KernelStub<NmsParams> nms_stub, nms_rotated_stub;

// The CPU kernels' scratch: of a candidate, 11 elements and 3 indices
// (cpu/suppression/nms_kernel.cpp); a rotated box, its elements and indices
// (cpu/suppression/nms_rotated_kernel.cpp).
constexpr int64_t kRotatedNmsElements = 7, kRotatedNmsIntegers = 4;
VISOPS_FN int64_t nms_cpu_scratch_bytes(const NmsParams& p) {
  constexpr int64_t integer = sizeof(int32_t);
  if (p.rotated) {
    const int64_t elements = kRotatedNmsElements * static_cast<int64_t>(sizeof(double));
    const int64_t box = sizeof(RotatedBox);
    return p.count * (box + elements + kRotatedNmsIntegers * integer);
  }
  const int64_t element = computes_in_double(p.dtype) ? sizeof(double) : sizeof(float);
  return p.count * (11 * element + 3 * integer);
}

// iou_threshold within [0, 1].
void check_nms(const char* op, const NmsParams& p);

}  // namespace visops
