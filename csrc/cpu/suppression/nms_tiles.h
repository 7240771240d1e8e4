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
#pragma once

#include "cpu/suppression/nms_long.h"

namespace visops {
namespace {

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

}  // namespace
}  // namespace visops
