// NOTE [ Suppression of rotated boxes on the CPU ]
// One candidate after another is kept, unless it is out, and takes out those that overlap it. They
// are found through the boxes parallel to the axes around them, in runs of neighbours (NOTE [ Runs
// ] in cpu/suppression/box_runs.h); NOTE [ Rotated overlap ] decides. Segments are independent; a
// task has those that begin in its part of `order`. Assumes what check_nms() and the fronts
// establish.
#include "cpu/suppression/box_runs.h"
#include "cpu/suppression/nms_segments.h"

namespace visops {
namespace {

using Boxes = BoxRuns<double>;

constexpr int64_t kOnStack = 256;  // candidates of a segment

// Around the rotated box, rounding included; inert if it is. BoxRuns wants some area.
Box<double> around(const RotatedBox& box) {
  if (is_inert(box)) return {};
  const double c = std::fabs(box.cosine), s = std::fabs(box.sine);
  const double dx = c * box.half_width + s * box.half_height;
  const double dy = s * box.half_width + c * box.half_height;
  const double margin = 1e-14 * (std::fabs(box.x) + std::fabs(box.y) + dx + dy);
  return {box.x - dx - margin, box.y - dy - margin, box.x + dx + margin, box.y + dy + margin, 1.0};
}

// Whether boxes with these areas, in boxes that have so much in common, can overlap by more than a
// threshold of which `t` is a little less: an overlap of t takes t / (1 + t) of both areas.
bool can_overlap(const RotatedBox& a, const RotatedBox& b, double t, const Box<double>& around_a,
                 const Box<double>& around_b) {
  const double left = around_a.x1 < around_b.x1 ? around_b.x1 : around_a.x1;
  const double right = around_b.x2 < around_a.x2 ? around_b.x2 : around_a.x2;
  const double top = around_a.y1 < around_b.y1 ? around_b.y1 : around_a.y1;
  const double bottom = around_b.y2 < around_a.y2 ? around_b.y2 : around_a.y2;
  return (right - left) * (bottom - top) * (1.0 + t) >= t * (a.area + b.area);
}

// Of `count` candidates.
constexpr int64_t integers(int64_t count) { return Boxes::integers(count) + count; }

void suppress(const NmsParams& p, int64_t begin, int64_t count, RotatedBox* boxes, double* memory,
              int32_t* integers) {
  for (int64_t i = 0; i < count; ++i) boxes[i] = rotated_candidate_box(p, p.order[begin + i]);
  Boxes runs(count, [&](int64_t i) { return around(boxes[i]); }, memory, integers);
  int32_t* place = integers + Boxes::integers(count);  // in runs; -1: out
  for (int64_t i = 0; i < count; ++i) place[runs.position(i)] = static_cast<int32_t>(i);
  // Less by far more than rotated_iou() rounds.
  const double little_less = p.iou_threshold > 1e-9 ? p.iou_threshold - 1e-9 : 0.0;
  SegmentOutput output(p, begin, count);
  for (int64_t i = 0; i < count; ++i) {
    if (place[i] < 0) continue;
    if (!output.keep(i)) return;
    const Box<double> box = runs.box(place[i]);
    runs.remove(place[i]);
    runs.for_each_touched(box, [&](int64_t run) {
      for (unsigned rest = runs.overlapping_of(box, run); rest != 0; rest &= rest - 1) {
        const int64_t at = run * kRun + lowest_bit(rest);
        const int32_t other = runs.position(at);
        if (!can_overlap(boxes[i], boxes[other], little_less, box, runs.box(at)) ||
            !overlaps(boxes[i], boxes[other], p.iou_threshold)) {
          continue;
        }
        place[other] = -1;
        runs.remove(at);
      }
    });
  }
}

void nms_rotated_kernel(const NmsParams& p, int64_t begin, int64_t end) {
  for_each_segment(p.segment, p.count, begin, end, [&](int64_t first, int64_t count) {
    if (count <= kOnStack) {
      RotatedBox boxes[kOnStack];
      alignas(64) double memory[Boxes::elements(kOnStack)];
      int32_t places[integers(kOnStack)];
      return suppress(p, first, count, boxes, memory, places);
    }
    constexpr int64_t kElements = kRotatedNmsElements, kIntegers = kRotatedNmsIntegers;
    static_assert(Boxes::elements(kOnStack + 1) <= kElements * (kOnStack + 1));
    static_assert(integers(kOnStack + 1) <= kIntegers * (kOnStack + 1));
    auto* boxes = static_cast<RotatedBox*>(p.scratch);
    auto* memory = reinterpret_cast<double*>(boxes + p.count);
    auto* places = reinterpret_cast<int32_t*>(memory + p.count * kElements);
    suppress(p, first, count, boxes + first, memory + first * kElements,
             places + first * kIntegers);
  });
}

const bool registered = nms_rotated_stub.set(kIsaSlot, nms_rotated_kernel);

}  // namespace
}  // namespace visops
