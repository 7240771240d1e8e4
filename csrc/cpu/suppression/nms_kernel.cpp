// NOTE [ Suppression on the CPU ]
// A candidate is tested against kept boxes only (NOTE [ Greedy suppression ]): in short segments
// against all of them, sixteen at a time; in long ones against those that a grid leaves (NOTE
// [ Pruning ] in cpu/suppression/nms_grid.h). Segments are independent; a task has those that begin
// in its part of `order`, so tasks have about equally many boxes. Assumes what check_nms() and the
// fronts establish: every candidate's box exists, and equal numbers in `segment` are adjacent.
#include "core/suppression/scratch.h"
#include "cpu/suppression/nms_grid.h"
#include "cpu/suppression/nms_segments.h"

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

// What long segments need; each uses its own part.
template <class Acc>
struct GridScratch {
  Box<Acc>* boxes;  // in order
  Acc* kept;
  Cell* cells;
  int32_t* cell;  // of each box; -1: inert

  // A segment of n > kSweep boxes has room for KeptBoxes of n.
  static constexpr int64_t kKeptElements = 6;
  static_assert(KeptBoxes<Acc>::elements(kSweep + 1) <= kKeptElements * (kSweep + 1));

  GridScratch part(int64_t begin) const {
    return {boxes + begin, kept + begin * kKeptElements, cells + begin, cell + begin};
  }
};

template <class Acc>
GridScratch<Acc> allocate_grids(Workspace& workspace, int64_t count) {
  constexpr int64_t kElements = GridScratch<Acc>::kKeptElements;
  constexpr int64_t bytes =
      sizeof(Box<Acc>) + kElements * sizeof(Acc) + sizeof(Cell) + sizeof(int32_t);
  char* memory = allocate<char>(workspace, count * bytes);
  GridScratch<Acc> scratch;
  scratch.boxes = take_array<Box<Acc>>(&memory, count);
  scratch.kept = take_array<Acc>(&memory, count * kElements);
  scratch.cells = take_array<Cell>(&memory, count);
  scratch.cell = take_array<int32_t>(&memory, count);
  return scratch;
}

// Candidates prepared together: NOTE [ Looking ahead ]. Fewer boxes in all stay in near caches.
constexpr int kTogether = 16;
constexpr int64_t kManyBoxes = 16384;

inline void fetch_candidate(const NmsParams& p, int64_t candidate) {
  const int64_t size = element_size(p.dtype);
  fetch_soon(address_of(p.boxes) + box_offset(p, candidate) * size, 4 * size);
}

// Counts boxes by cell, and gives each cell room for its own.
template <class Acc>
void make_cells(const GridScratch<Acc>& scratch, int64_t count, Levels& levels) {
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

// The loop of suppress_long() over its candidates, for so many that their cells are in no near
// cache.
template <class Acc>
void suppress_many(const GridScratch<Acc> scratch, int64_t count, Grid<Acc>& grid,
                   SegmentOutput output) {
  CellRows rows[kTogether];
  int kept = 0;  // of the last sixteen
  for (int64_t first = 0; first < count; first += kTogether) {
    const int64_t end = first + kTogether < count ? first + kTogether : count;
    const bool looks = kept >= kTogether / 2;
    if (looks) {
      for (int64_t i = first; i < end; ++i) {
        CellRows& own = rows[i - first];
        own.count = 0;
        if (scratch.cell[i] >= 0) grid.look(scratch.boxes[i], &own);
      }
      for (int64_t i = first; i < end; ++i) grid.fetch_boxes(rows[i - first]);
    }
    kept = 0;
    for (int64_t i = first; i < end; ++i) {
      const Box<Acc>& box = scratch.boxes[i];
      const int32_t cell = scratch.cell[i];
      if (cell >= 0) {
        if (looks ? grid.meets(box, cell, rows[i - first]) : grid.meets(box, cell)) continue;
      }
      if (!output.keep(i)) return;
      if (cell >= 0) grid.keep(box, cell);
      ++kept;
    }
  }
}

// `scratch` by value is measurably faster than by reference.
template <class Acc>
void suppress_long(const NmsParams& p, int64_t begin, int64_t count, const GridScratch<Acc> scratch,
                   SegmentOutput output) {
  const KeptBoxes<Acc> kept(scratch.kept, count);
  const bool is_many = count >= kManyBoxes;
  double longest = 0.0;
  bool can_prune = count <= int64_t{1} << 31 && (p.iou_threshold >= kFar || count > kSweepFar);
  for (int64_t i = 0; i < count; ++i) {
    if (is_many && i + kTogether < count) fetch_candidate(p, p.order[begin + i + kTogether]);
    const Box<Acc> box = scratch.boxes[i] = candidate_box<Acc>(p, p.order[begin + i]);
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
  if (is_many) return suppress_many(scratch, count, grid, output);
  for (int64_t i = 0; i < count; ++i) {
    const Box<Acc>& box = scratch.boxes[i];
    const int32_t cell = scratch.cell[i];
    if (cell >= 0 && grid.meets(box, cell)) continue;
    if (!output.keep(i)) return;
    if (cell >= 0) grid.keep(box, cell);
  }
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
  for_each_segment(workspace, p.segment, p.count, kTask, [&](int64_t begin, int64_t count) {
    const SegmentOutput output(p, begin, count);
    if (count <= kSweep) {
      suppress_short<Acc>(p, begin, count, output);
    } else {
      suppress_long(p, begin, count, scratch.part(begin), output);
    }
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
