// NOTE [ Soft suppression of rotated boxes on the CPU ]
// As NOTE [ Soft suppression on the CPU ], by the boxes' bounds parallel to the axes; where those
// meet, NOTE [ Rotated overlap ] in core/box.h gives the overlap. Segments are
// independent; a task has those that begin in its part of `order`. Assumes what check_nms(),
// check_soft_nms() and the front establish: numbers rise within a segment, and scores are double.
#include "cpu/suppression/box_runs.h"
#include "cpu/suppression/nms_kept.h"

namespace visops {
namespace {

using Runs = SoftRuns<double>;

constexpr int64_t kTask = 32;      // candidates that are worth a task
constexpr int64_t kOnStack = 192;  // segments of so many candidates need no scratch

// Enough for segments of more than kOnStack.
using Scratch = RotatedScratch<13, 4>;
static_assert(Scratch::holds(Runs::elements(kOnStack + 1), Runs::integers(kOnStack + 1),
                             kOnStack + 1));

void suppress_segment(const SoftNmsParams& p, int64_t begin, int64_t count,
                      const Scratch& scratch) {
  const int64_t* order = p.candidates.order + begin;
  double* scores = static_cast<double*>(p.scores) + begin;
  RotatedBox* boxes = scratch.boxes;
  for (int64_t i = 0; i < count; ++i) boxes[i] = rotated_candidate_box(p.candidates, order[i]);
  const auto bounds_at = [&](int64_t i) { return bounds_of(boxes[i]); };
  Runs runs(count, bounds_at, scores, scratch.elements, scratch.integers);
  const auto threshold = decay_threshold<double>(p);
  SegmentOutput output(p.candidates, begin, count);
  for (int64_t i; output.left > 0 && (i = runs.best()) >= 0;) {
    const int32_t position = runs.position(i);
    output.keep(position);
    scores[position] = runs.score(i);
    runs.take(i);
    runs.lower_by(p, threshold, runs.box(i),
                  [&](int32_t other) { return rotated_iou(boxes[position], boxes[other]); });
  }
}

void soft_nms_rotated_kernel(const SoftNmsParams& p, Workspace& workspace) {
  const NmsParams& c = p.candidates;
  Scratch scratch = {};
  if (c.count > kOnStack) scratch = Scratch::allocate(workspace, c.count);
  for_each_segment(workspace, c.segment, c.count, kTask, [&](int64_t begin, int64_t count) {
    if (count > kOnStack) return suppress_segment(p, begin, count, scratch.part(begin));
    RotatedBox boxes[kOnStack];
    alignas(64) double elements[Runs::elements(kOnStack)];
    int32_t integers[Runs::integers(kOnStack)];
    suppress_segment(p, begin, count, {boxes, elements, integers});
  });
}

const bool registered = soft_nms_rotated_stub.set(kIsaSlot, soft_nms_rotated_kernel);

}  // namespace
}  // namespace visops
