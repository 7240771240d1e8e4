// Suppression of a list of boxes by means of a grid.
#pragma once

#include "core/suppression/scratch.h"
#include "cpu/suppression/nms_grid.h"
#include "cpu/suppression/nms_segments.h"

namespace visops {
namespace {

// What lists that are suppressed at the same time need; each uses its own part.
template <class Acc>
struct GridScratch {
  Box<Acc>* boxes;  // in order
  Acc* kept;
  Cell* cells;
  int32_t* cell;  // of each box; -1: inert

  // A list of n >= kShortestList boxes has room for KeptBoxes of n.
  static constexpr int64_t kKeptElements = 6, kShortestList = 5 * kRun;
  static_assert(KeptBoxes<Acc>::elements(kShortestList) <= kKeptElements * kShortestList);

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

// The loop of suppress_by_grid() over its candidates, for so many that their cells are in no near
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

// Suppresses the `count` boxes of `scratch`, none with a longer side than `longest`, which is not
// 0; all are prunable. `scratch` by value is measurably faster than by reference.
template <class Acc>
void suppress_by_grid(const GridScratch<Acc> scratch, int64_t count, double iou_threshold,
                      double longest, SegmentOutput output) {
  Levels levels(longest);
  make_cells(scratch, count, levels);
  Grid<Acc> grid(levels, iou_threshold, KeptBoxes<Acc>(scratch.kept, count), scratch.cells);
  if (count >= kManyBoxes) return suppress_many(scratch, count, grid, output);
  for (int64_t i = 0; i < count; ++i) {
    const Box<Acc>& box = scratch.boxes[i];
    const int32_t cell = scratch.cell[i];
    if (cell >= 0 && grid.meets(box, cell)) continue;
    if (!output.keep(i)) return;
    if (cell >= 0) grid.keep(box, cell);
  }
}

}  // namespace
}  // namespace visops
