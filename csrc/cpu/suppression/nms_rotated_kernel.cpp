// NOTE [ Suppression of rotated boxes on the CPU ]
// Each candidate in turn is kept, unless it is out, and puts out those that it overlaps. They are
// found by their bounds, parallel to the axes, in runs of neighbours (NOTE [ Runs ] in
// cpu/suppression/box_runs.h); NOTE [ Rotated overlap ] decides. Segments are independent; a task
// has those that begin in its part of `order`. Assumes what check_nms() and the fronts establish.
#include "cpu/suppression/box_runs.h"
#include "cpu/suppression/nms_kept.h"

namespace visops {
namespace {

using Boxes = BoxRuns<double>;

constexpr int64_t kTask = 512;     // candidates that are worth a task
constexpr int64_t kOnStack = 256;  // segments of so many candidates need no scratch

// False if the areas and the intersection of the bounds rule out an overlap of more than the
// threshold; `t` is a little less than it. An overlap of t takes t / (1 + t) of both areas.
bool can_overlap(const RotatedBox& a, const RotatedBox& b, double t, const Box<double>& bounds_a,
                 const Box<double>& bounds_b) {
  const double left = bounds_a.x1 < bounds_b.x1 ? bounds_b.x1 : bounds_a.x1;
  const double right = bounds_b.x2 < bounds_a.x2 ? bounds_b.x2 : bounds_a.x2;
  const double top = bounds_a.y1 < bounds_b.y1 ? bounds_b.y1 : bounds_a.y1;
  const double bottom = bounds_b.y2 < bounds_a.y2 ? bounds_b.y2 : bounds_a.y2;
  return (right - left) * (bottom - top) * (1.0 + t) >= t * (a.area + b.area);
}

constexpr int64_t integers_of(int64_t count) { return Boxes::integers(count) + count; }

// Enough for segments of more than kOnStack.
using Scratch = RotatedScratch<12, 4>;
static_assert(Scratch::holds(Boxes::elements(kOnStack + 1), integers_of(kOnStack + 1),
                             kOnStack + 1));

void suppress_segment(const NmsParams& p, int64_t begin, int64_t count, const Scratch& scratch) {
  RotatedBox* boxes = scratch.boxes;
  for (int64_t i = 0; i < count; ++i) boxes[i] = rotated_candidate_box(p, p.order[begin + i]);
  Boxes runs(
      count, [&](int64_t i) { return bounds_of(boxes[i]); }, scratch.elements, scratch.integers);
  int32_t* slot = scratch.integers + Boxes::integers(count);  // in runs; -1: out
  for (int64_t i = 0; i < count; ++i) slot[runs.position(i)] = static_cast<int32_t>(i);
  // By far more than rotated_iou() rounds.
  const double little_less = p.iou_threshold > 1e-9 ? p.iou_threshold - 1e-9 : 0.0;
  SegmentOutput output(p, begin, count);
  for (int64_t i = 0; i < count; ++i) {
    if (slot[i] < 0) continue;
    if (!output.keep(i)) return;
    const Box<double> box = runs.box(slot[i]);
    runs.remove(slot[i]);
    runs.for_each_touched(box, [&](int64_t run) {
      for (unsigned rest = runs.overlapping_of(box, run); rest != 0; rest &= rest - 1) {
        const int64_t at = run * kRun + lowest_bit(rest);
        const int32_t other = runs.position(at);
        if (!can_overlap(boxes[i], boxes[other], little_less, box, runs.box(at)) ||
            !overlaps(boxes[i], boxes[other], p.iou_threshold)) {
          continue;
        }
        slot[other] = -1;
        runs.remove(at);
      }
    });
  }
}

void nms_rotated_kernel(const NmsParams& p, Workspace& workspace) {
  Scratch scratch = {};
  if (p.count > kOnStack) scratch = Scratch::allocate(workspace, p.count);
  for_each_segment(workspace, p.segment, p.count, kTask, [&](int64_t begin, int64_t count) {
    if (count > kOnStack) return suppress_segment(p, begin, count, scratch.part(begin));
    RotatedBox boxes[kOnStack];
    alignas(64) double elements[Boxes::elements(kOnStack)];
    int32_t integers[integers_of(kOnStack)];
    suppress_segment(p, begin, count, {boxes, elements, integers});
  });
}

const bool registered = nms_rotated_stub.set(kIsaSlot, nms_rotated_kernel);

}  // namespace
}  // namespace visops
