// NOTE [ Suppression on the CPU ]
// A candidate is tested against kept boxes only (NOTE [ Greedy suppression ]): in short segments
// against all of them, sixteen at a time; in long ones against those that a grid leaves (NOTE
// [ Pruning ] in cpu/suppression/nms_grid.h). Segments are independent; a task has those that begin
// in its part of `order`, so tasks have about equally many boxes. Very long segments are cut (NOTE
// [ Tiles ]), and come first, each on all threads. Assumes what
// check_nms() and the fronts establish: every candidate's box exists, and equal numbers in
// `segment` are adjacent.
#include "core/suppression/nms.h"
#include "cpu/suppression/nms_grid.h"
#include "cpu/suppression/nms_kept.h"

namespace visops {
namespace {

// Suppression of a list of boxes by means of a grid.

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

// Suppression of a very long list of boxes, tile by tile.
//
// NOTE [ Tiles ]
// The cells of a million boxes are in no near cache, and a segment alone keeps only one thread
// busy. So a very long segment is cut into tiles by the centres of its boxes. A tile has some
// thousand boxes, whose cells stay in a near cache, and tiles can be done in any order or at the
// same time.
//
// A box is inner if all boxes that might overlap it have their centres in its own tile. Within a
// tile, boxes come best first. One that a kept box overlaps is suppressed. Another one is kept if
// it is inner and overlaps no open box; else it is open. What is kept or suppressed is final, as
// nothing outside of the tile overlaps an inner box. An open box overlaps no kept box: an earlier
// one would have suppressed it, and a later one would be open. So open boxes decide among
// themselves, again best first. They are few, unless boxes are large compared with tiles; then the
// segment is not cut.

constexpr int64_t kTile = 8192;            // boxes in a tile, if they are spread evenly
constexpr int64_t kTiledFrom = 4 * kTile;  // in shorter segments, tiles gain little
constexpr int64_t kOpenShare = 4;          // at most a quarter may be open
constexpr int64_t kSample = 512;

// A segment cut into tiles.
template <class Acc>
class Tiles {
 public:
  // `scratch` has the boxes, best first. Those that aren't inert are prunable.
  Tiles(Workspace& workspace, const GridScratch<Acc>& scratch, int64_t count, double iou_threshold,
        double longest)
      : workspace_(workspace),
        scratch_(scratch),
        count_(count),
        iou_threshold_(iou_threshold),
        longest_(longest),
        reach_(iou_threshold) {}

  // Writes a result for each box. Returns false, without any, if too many boxes would be open.
  bool suppress(uint8_t* kept) {
    if (!lay_out() || !is_promising()) return false;
    parallel_for(workspace_, count_, kTile, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) scratch_.cell[i] = tile_of(scratch_.boxes[i]);
    });
    if (!count_by_tile()) return false;
    sort_by_tile(kept);
    parallel_for(workspace_, tiles_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) suppress_tile(tile, kept);
    });
    suppress_open(kept);
    return true;
  }

 private:
  enum State : uint8_t { kSuppressed = 0, kKept = 1, kOpen = 2 };
  static constexpr int32_t kInert = -2147483647 - 1;

  bool lay_out() {
    for (int64_t i = 0; i < count_; ++i) {
      if (!is_inert(scratch_.boxes[i])) layout_.add(centre_of(scratch_.boxes[i]));
    }
    const double width = layout_.right - layout_.left, height = layout_.bottom - layout_.top;
    const double share = static_cast<double>(kTile) / static_cast<double>(count_);
    const double even = std::sqrt(width * height * share);
    const double along = (width > height ? width : height) * share;  // if they lie on a line
    const double side = even > along ? even : along;
    if (!(side > 1e-300 && side < 1e300)) return false;
    layout_.columns = static_cast<int64_t>(width / side) + 1;
    layout_.rows = static_cast<int64_t>(height / side) + 1;
    layout_.cells_per_unit = 1.0 / side;
    layout_.first_cell = 0;
    tiles_ = layout_.columns * layout_.rows;
    first_ = allocate<int64_t>(workspace_, 2 * tiles_ + 1);
    next_ = first_ + tiles_ + 1;
    return true;
  }

  // Whether few enough boxes would be open, by a sample.
  bool is_promising() const {
    const int64_t step = count_ / kSample;
    int64_t open = 0;
    for (int64_t i = 0; i < kSample; ++i) open += tile_of(scratch_.boxes[i * step]) < 0;
    return open <= kSample / kOpenShare;
  }

  // The complement for a box that isn't inner.
  int32_t tile_of(const Box<Acc>& box) const {
    if (is_inert(box)) return kInert;
    const Centre c = centre_of(box);
    const double width = static_cast<double>(box.x2) - static_cast<double>(box.x1);
    const double height = static_cast<double>(box.y2) - static_cast<double>(box.y1);
    const double dx = reach_.of(width, 1e308, c.x), dy = reach_.of(height, 1e308, c.y);
    const bool is_inner = layout_.column(c.x - dx) == layout_.column(c.x + dx) &&
                          layout_.row(c.y - dy) == layout_.row(c.y + dy);
    const auto tile = static_cast<int32_t>(layout_.cell(c));
    return is_inner ? tile : ~tile;
  }
  static int32_t number(int32_t tile) { return tile < 0 ? ~tile : tile; }

  // A tile of so few boxes leaves them all open.
  static bool is_small(int64_t boxes) { return boxes < GridScratch<Acc>::kShortestList; }

  // Finds where each tile begins. Returns false if too many boxes are open from the outset.
  bool count_by_tile() {
    for (int64_t t = 0; t <= tiles_; ++t) first_[t] = 0;
    int64_t open = 0;
    for (int64_t i = 0; i < count_; ++i) {
      const int32_t tile = scratch_.cell[i];
      if (tile == kInert) continue;
      ++first_[number(tile) + 1];
      open += tile < 0;
    }
    for (int64_t t = 0; t < tiles_; ++t) {
      const int64_t boxes = first_[t + 1];
      if (is_small(boxes)) open += boxes;
      next_[t] = first_[t];
      first_[t + 1] += first_[t];
    }
    return open <= count_ / kOpenShare;
  }

  void sort_by_tile(uint8_t* kept) {
    constexpr int64_t bytes = sizeof(Box<Acc>) + sizeof(int32_t) + 2;
    char* memory = allocate<char>(workspace_, count_ * bytes);
    boxes_ = take_array<Box<Acc>>(&memory, count_);
    position_ = take_array<int32_t>(&memory, count_);
    is_inner_ = take_array<uint8_t>(&memory, count_);
    is_open_ = take_array<uint8_t>(&memory, count_);
    for (int64_t i = 0; i < count_; ++i) {
      const int32_t tile = scratch_.cell[i];
      kept[i] = kKept;
      if (tile == kInert) continue;
      const int64_t at = next_[number(tile)]++;
      boxes_[at] = scratch_.boxes[i];
      position_[at] = static_cast<int32_t>(i);
      is_inner_[at] = tile >= 0;
    }
  }

  void suppress_tile(int64_t tile, uint8_t* kept) {
    const int64_t begin = first_[tile], count = first_[tile + 1] - begin;
    const int32_t* position = position_ + begin;
    if (is_small(count)) {
      for (int64_t i = 0; i < count; ++i) kept[position[i]] = kOpen;
      return;
    }
    GridScratch<Acc> scratch = scratch_.part(begin);
    scratch.boxes = boxes_ + begin;
    Levels levels(longest_);
    make_cells(scratch, count, levels);
    Grid<Acc> grid(levels, iou_threshold_, KeptBoxes<Acc>(scratch.kept, count), scratch.cells);
    uint8_t* is_open = is_open_ + begin;
    for (int64_t i = 0; i < count; ++i) {
      const Box<Acc>& box = scratch.boxes[i];
      bool open = is_inner_[begin + i] == 0;
      if (grid.meets(box, scratch.cell[i], is_open, &open)) {
        kept[position[i]] = kSuppressed;
        continue;
      }
      is_open[grid.keep(box, scratch.cell[i])] = open;
      if (open) kept[position[i]] = kOpen;
    }
  }

  void suppress_open(uint8_t* kept) {
    int64_t count = 0;
    for (int64_t i = 0; i < count_; ++i) {
      if (kept[i] != kOpen) continue;
      scratch_.boxes[count] = scratch_.boxes[i];
      position_[count++] = static_cast<int32_t>(i);
    }
    if (count == 0) return;
    uint8_t* result = is_open_;
    suppress_by_grid(scratch_, count, iou_threshold_, longest_, SegmentOutput(result, count));
    for (int64_t i = 0; i < count; ++i) kept[position_[i]] = result[i];
  }

  Workspace& workspace_;
  GridScratch<Acc> scratch_;  // `cell` has tiles, until these are done
  int64_t count_;
  double iou_threshold_, longest_;
  Reach reach_;

  Level layout_ = {};  // a cell is a tile
  int64_t tiles_ = 0;
  int64_t *first_ = nullptr, *next_ = nullptr;

  // By tile, and within a tile best first.
  Box<Acc>* boxes_ = nullptr;
  int32_t* position_ = nullptr;  // in the segment
  uint8_t* is_inner_ = nullptr;

  uint8_t* is_open_ = nullptr;  // of the boxes that a tile's grid holds
};

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
