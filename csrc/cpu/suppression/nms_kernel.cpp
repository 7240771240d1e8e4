// NOTE [ Suppression on the CPU ]
// A candidate is tested against kept boxes only (NOTE [ Greedy suppression ]): in short segments
// against all of them, sixteen at a time, in long ones against those that a grid leaves (NOTE
// [ Pruning ] in cpu/suppression/nms_grid.h). Segments are independent; a task has those that begin
// in its part of `order`, so that tasks are alike in boxes. Assumes what check_nms() and the fronts
// establish: every candidate's box exists, and equal numbers in `segment` lie together.
#include "cpu/suppression/nms_grid.h"
#include "cpu/suppression/nms_segments.h"

namespace visops {
namespace {

// Below this, building a grid costs more than it saves. With a small threshold a candidate has to
// look far and at boxes of all sizes, but few are kept.
constexpr int64_t kSweep = 384, kSweepFar = 4096;
constexpr double kFar = 0.1;

// One box after another against all kept before.
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

template <class Acc>
struct SegmentScratch {
  Box<Acc>* boxes;  // in order
  Acc* kept;
  int32_t* cell;  // of each box; -1: inert
  Cell* cells;

  SegmentScratch(void* scratch, int64_t total, int64_t begin) {
    char* at = static_cast<char*>(scratch);
    boxes = reinterpret_cast<Box<Acc>*>(at) + begin;
    at += total * static_cast<int64_t>(sizeof(Box<Acc>));
    kept = reinterpret_cast<Acc*>(at) + begin * kKeptElements;
    at += total * kKeptElements * static_cast<int64_t>(sizeof(Acc));
    cells = reinterpret_cast<Cell*>(at) + begin;
    at += total * static_cast<int64_t>(sizeof(Cell));
    cell = reinterpret_cast<int32_t*>(at) + begin;
  }

  // A segment of n > kSweep boxes has room for KeptBoxes of n.
  static constexpr int64_t kKeptElements = 6;
  static_assert(KeptBoxes<Acc>::elements(kSweep + 1) <= kKeptElements * (kSweep + 1));
};

// Counts boxes by cell, and gives every cell room for them.
template <class Acc>
void make_cells(const SegmentScratch<Acc>& scratch, int64_t count, Levels& levels) {
  for (int64_t i = 0; i < count; ++i) {
    const Box<Acc>& box = scratch.boxes[i];
    if (!is_inert(box)) levels.add(levels.of(longer_side(box)), centre_of(box));
  }
  const int64_t cells = levels.lay_out();
  for (int64_t c = 0; c < cells; ++c) scratch.cells[c] = {0, 0};
  for (int64_t i = 0; i < count; ++i) {
    const Box<Acc>& box = scratch.boxes[i];
    scratch.cell[i] = -1;
    if (is_inert(box)) continue;
    const int64_t cell = levels[levels.of(longer_side(box))].cell(centre_of(box));
    scratch.cell[i] = static_cast<int32_t>(cell);
    ++scratch.cells[cell].used;
  }
  int32_t first = 0;
  for (int64_t c = 0; c < cells; ++c) {
    const int32_t room = scratch.cells[c].used;
    scratch.cells[c] = {first, 0};
    first += room;
  }
}

template <class Acc>
void suppress(const NmsParams& p, int64_t begin, int64_t count) {
  SegmentOutput output(p, begin, count);
  const int64_t* order = p.order + begin;
  const auto load = [&](int64_t i) { return candidate_box<Acc>(p, order[i]); };
  if (count <= kSweep) {
    alignas(64) Acc memory[KeptBoxes<Acc>::elements(kSweep)];
    return sweep(load, count, p.iou_threshold, KeptBoxes<Acc>(memory, count), output);
  }
  const SegmentScratch<Acc> scratch(p.scratch, p.count, begin);
  const KeptBoxes<Acc> kept(scratch.kept, count);
  double longest = 0.0;
  bool can_prune = count <= int64_t{1} << 31 && (p.iou_threshold >= kFar || count > kSweepFar);
  for (int64_t i = 0; i < count; ++i) {
    const Box<Acc> box = scratch.boxes[i] = load(i);
    if (is_inert(box)) continue;
    can_prune = can_prune && prunable(box);
    const double side = longer_side(box);
    longest = side > longest ? side : longest;
  }
  if (!can_prune || !(longest > 0.0)) {
    const auto loaded = [&](int64_t i) { return scratch.boxes[i]; };
    return sweep(loaded, count, p.iou_threshold, kept, output);
  }
  Levels levels(longest);
  make_cells(scratch, count, levels);
  Grid<Acc> grid(levels, p.iou_threshold, kept, scratch.cells);
  for (int64_t i = 0; i < count; ++i) {
    const Box<Acc>& box = scratch.boxes[i];
    const int32_t cell = scratch.cell[i];
    if (cell >= 0 && grid.meets(box, cell)) continue;
    if (!output.keep(i)) return;
    if (cell >= 0) grid.keep(box, cell);
  }
}

void nms_kernel(const NmsParams& p, int64_t begin, int64_t end) {
  for_each_segment(p.segment, p.count, begin, end, [&](int64_t first, int64_t count) {
    if (computes_in_double(p.dtype)) {
      suppress<double>(p, first, count);
    } else {
      suppress<float>(p, first, count);
    }
  });
}

const bool registered = nms_stub.set(kIsaSlot, nms_kernel);

}  // namespace
}  // namespace visops
