// NOTE [ Suppression on the CPU ]
// A candidate is tested against kept boxes only (NOTE [ Greedy suppression ]): in short segments
// against all of them, sixteen at a time; in long ones against those that a grid leaves (NOTE
// [ Pruning ] in cpu/suppression/nms_grid.h). Segments are independent; a task has those that begin
// in its part of `order`, so tasks have about equally many boxes. Very long segments are cut (NOTE
// [ Tiles ] in cpu/suppression/nms_tiles.h), and come first, each on all threads. Assumes what
// check_nms() and the fronts establish: every candidate's box exists, and equal numbers in
// `segment` are adjacent.
#include "cpu/suppression/nms_tiles.h"

namespace visops {
namespace {

constexpr int64_t kTask = 512;  // candidates that are worth a task

// In shorter segments, building a grid costs more than it saves. With a small threshold (below
// kFar) a candidate has to look far and at boxes of all sizes, but few are kept.
constexpr int64_t kSweep = 384, kSweepFar = 4096;
constexpr double kFar = 0.1;

// Tests each box against all those kept before it.
template <class Acc, class Boxes>
void sweep(const Boxes& box_at, int64_t count, double iou_threshold, KeptBoxes<Acc> kept,
           SegmentOutput output) {
  const auto test = OverlapTest<Acc>::of(iou_threshold);
  int64_t used = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Box<Acc> box = box_at(i);
    const bool inert = is_inert(box);
    if (!inert && test.meets(box, kept, 0, used)) continue;
    if (!output.keep(i)) return;
    if (!inert) kept.store(used++, box);
  }
}

inline void fetch_candidate(const NmsParams& p, int64_t candidate) {
  const int64_t size = element_size(p.dtype);
  prefetch(address_of(p.boxes) + box_offset(p, candidate) * size, 4 * size);
}

template <class Acc>
void load_boxes(const NmsParams& p, int64_t begin, int64_t count, Box<Acc>* boxes) {
  const int64_t* order = p.order + begin;
  const bool fetches = p.count >= kManyBoxes;
  for (int64_t i = 0; i < count; ++i) {
    if (fetches && i + kTogether < count) fetch_candidate(p, order[i + kTogether]);
    boxes[i] = candidate_box<Acc>(p, order[i]);
  }
}

// Returns the longest side of a box, or 0 if a grid can't serve for these.
template <class Acc>
double longest_prunable(const Box<Acc>* boxes, int64_t count, double iou_threshold) {
  if (count > int64_t{1} << 31 || (iou_threshold < kFar && count <= kSweepFar)) return 0.0;
  double longest = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    if (is_inert(boxes[i])) continue;
    if (!prunable(boxes[i])) return 0.0;
    const double side = longer_side(boxes[i]);
    longest = side > longest ? side : longest;
  }
  return longest;
}

template <class Acc>
bool suppress_in_tiles(const NmsParams& p, Workspace& workspace, int64_t begin, int64_t count,
                       const GridScratch<Acc>& scratch) {
  parallel_for(workspace, count, kTile, [&](int64_t from, int64_t end) {
    load_boxes(p, begin + from, end - from, scratch.boxes + from);
  });
  const double longest = longest_prunable(scratch.boxes, count, p.iou_threshold);
  return longest > 0.0 &&
         Tiles<Acc>(workspace, scratch, count, p.iou_threshold, longest).suppress(p.kept + begin);
}

// `scratch` has the boxes.
template <class Acc>
void suppress_long(const NmsParams& p, int64_t count, const GridScratch<Acc>& scratch,
                   SegmentOutput output) {
  const double longest = longest_prunable(scratch.boxes, count, p.iou_threshold);
  if (longest > 0.0) return suppress_by_grid(scratch, count, p.iou_threshold, longest, output);
  const auto loaded = [&](int64_t i) { return scratch.boxes[i]; };
  sweep(loaded, count, p.iou_threshold, KeptBoxes<Acc>(scratch.kept, count), output);
}

template <class Acc>
void suppress_short(const NmsParams& p, int64_t begin, int64_t count, SegmentOutput output) {
  const int64_t* order = p.order + begin;
  const auto load = [&](int64_t i) { return candidate_box<Acc>(p, order[i]); };
  alignas(64) Acc memory[KeptBoxes<Acc>::elements(kSweep)];
  sweep(load, count, p.iou_threshold, KeptBoxes<Acc>(memory, count), output);
}

template <class Acc>
void nms_as(const NmsParams& p, Workspace& workspace) {
  GridScratch<Acc> scratch = {};
  if (p.count > kSweep) scratch = allocate_grids<Acc>(workspace, p.count);
  const auto is_very_long = [&](int64_t count) { return count >= kTiledFrom && p.max_output < 0; };
  if (is_very_long(p.count)) {
    for_each_segment(workspace, p.segment, p.count, p.count, [&](int64_t begin, int64_t count) {
      if (!is_very_long(count)) return;
      p.kept[begin] = suppress_in_tiles(p, workspace, begin, count, scratch.part(begin));
    });
  }
  for_each_segment(workspace, p.segment, p.count, kTask, [&](int64_t begin, int64_t count) {
    // The best box is always kept: where it is already, tiles have done this segment.
    if (is_very_long(count) && p.kept[begin] != 0) return;
    const SegmentOutput output(p, begin, count);
    if (count <= kSweep) return suppress_short<Acc>(p, begin, count, output);
    const GridScratch<Acc> part = scratch.part(begin);
    if (!is_very_long(count)) load_boxes(p, begin, count, part.boxes);  // else they are there
    suppress_long(p, count, part, output);
  });
}

void nms_kernel(const NmsParams& p, Workspace& workspace) {
  if (computes_in_double(p.dtype)) {
    nms_as<double>(p, workspace);
  } else {
    nms_as<float>(p, workspace);
  }
}

const bool registered = nms_stub.set(kIsaSlot, nms_kernel);

}  // namespace
}  // namespace visops
