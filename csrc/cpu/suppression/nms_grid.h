// Which kept boxes a candidate has to look at.
//
// NOTE [ Pruning ]
// Two boxes that overlap by more than t are alike in size and near each other. Along each axis,
// with sides a and b and an intersection of length o, o > t max(a, b): the sides differ by less
// than a factor 1 / t, and the centres are at most (a + b) / 2 - o apart. So boxes go into levels
// by the exponent of their longer side, and within a level into the cells of a grid by their
// centres. A candidate of side a looks at the levels that a factor 1 / t reaches, and there at the
// cells within (a + b) / 2 - t max(a, b) of its centre, with the b of that level that makes this
// largest. This holds for every t, and for huge and tiny boxes mixed; no box is stored twice.
//
// A cell has room for as many boxes as it has candidates, counted beforehand, so the kept boxes of
// all cells share one array. What follows a cell's boxes there is a kept box or zero, and may be
// tested too; adjacent cells with room for few boxes are tested together. A grid has no more cells
// than its level has boxes. Bounds are computed in float64 and widened by far more than the
// rounding of the overlap, which is relative to the sides' lengths; boxes too small for that are
// not `prunable`.
//
// NOTE [ Looking ahead ]
// Candidates come by score, so each looks at cells somewhere else. With many boxes these are in no
// near cache, and nearly all time is spent waiting for them (a million boxes). Sixteen candidates
// are therefore prepared together: look() lists the cells that each has to look at and prefetches
// them, fetch_boxes() then the boxes in them, and only then are candidates tested. Where most
// candidates are suppressed by a box of their own cell, the others aren't worth looking for, so
// this is done only after sixteen candidates of which at least half were kept.
#pragma once

#include <cmath>

#include "cpu/prefetch.h"
#include "cpu/suppression/nms_kept.h"

namespace visops {
namespace {

constexpr int kLevels = 64;  // boxes smaller than 2^-63 of the largest share the lowest

// The exponent of a positive normal number.
VISOPS_ALWAYS_INLINE int exponent_of(double v) {
  return static_cast<int>((bit_cast<uint64_t>(v) >> 52) & 0x7ff) - 1023;
}
VISOPS_ALWAYS_INLINE double power_of_two(int exponent) {
  return bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// Whether the area is far from subnormal numbers, whose rounding is not relative.
template <class Acc>
bool prunable(const Box<Acc>& box) {
  return box.area >=
         (sizeof(Acc) == sizeof(float) ? static_cast<Acc>(1e-30) : static_cast<Acc>(1e-280));
}

constexpr double kCentreError = 1e-15;  // relative, of two centres

struct Centre {
  double x, y;
};

template <class Acc>
VISOPS_ALWAYS_INLINE double longer_side(const Box<Acc>& box) {
  const double width = static_cast<double>(box.x2) - static_cast<double>(box.x1);
  const double height = static_cast<double>(box.y2) - static_cast<double>(box.y1);
  return width > height ? width : height;
}

template <class Acc>
VISOPS_ALWAYS_INLINE Centre centre_of(const Box<Acc>& box) {
  return {0.5 * static_cast<double>(box.x1) + 0.5 * static_cast<double>(box.x2),
          0.5 * static_cast<double>(box.y1) + 0.5 * static_cast<double>(box.y2)};
}

struct Level {
  int64_t boxes;
  double left, top, right, bottom;  // bounds of the boxes' centres
  double most;                      // bound of the boxes' sides
  double cells_per_unit;
  int64_t columns, rows;
  int64_t first_cell;

  void add(const Centre& c) {
    if (boxes++ == 0) {
      left = right = c.x;
      top = bottom = c.y;
    }
    left = c.x < left ? c.x : left;
    right = c.x > right ? c.x : right;
    top = c.y < top ? c.y : top;
    bottom = c.y > bottom ? c.y : bottom;
  }

  VISOPS_ALWAYS_INLINE static int64_t index(double v, double origin, double scale, int64_t count) {
    const double at = (v - origin) * scale;
    const double last = static_cast<double>(count - 1);
    return at > 0.0 ? static_cast<int64_t>(at < last ? at : last) : 0;  // NaN: 0
  }
  VISOPS_ALWAYS_INLINE int64_t column(double x) const {
    return index(x, left, cells_per_unit, columns);
  }
  VISOPS_ALWAYS_INLINE int64_t row(double y) const { return index(y, top, cells_per_unit, rows); }
  VISOPS_ALWAYS_INLINE int64_t cell(const Centre& c) const {
    return first_cell + row(c.y) * columns + column(c.x);
  }
};

struct Cell {
  int32_t first, used;
};

// Runs of adjacent cells that one candidate looks at.
struct CellRows {
  static constexpr int kMost = 24;
  int count;  // greater than kMost: not all are listed
  int32_t first[kMost], last[kMost];
};

class Levels {
 public:
  explicit Levels(double longest) : base_(exponent_of(longest) - (kLevels - 1)) {
    for (int i = 0; i < kLevels; ++i) level_[i].boxes = 0;
  }

  int of(double side) const {
    const int level = exponent_of(side) - base_;
    return level > 0 ? (level < kLevels ? level : kLevels - 1) : 0;
  }
  const Level& operator[](int i) const { return level_[i]; }

  void add(int level, const Centre& c) { level_[level].add(c); }

  // Lays out the grids; returns the number of cells.
  int64_t lay_out() {
    int64_t cells = 0;
    for (int i = 0; i < kLevels; ++i) {
      Level& l = level_[i];
      if (l.boxes == 0) continue;
      const int exponent = base_ + i + 1;
      l.most = exponent < 1023 ? power_of_two(exponent < -1022 ? -1022 : exponent) : 1e308;
      const double width = l.right - l.left, height = l.bottom - l.top;
      double side = l.most;
      l.columns = l.rows = 1;
      l.cells_per_unit = 0.0;
      if (width < 1e300 && height < 1e300) {
        double columns = width / side + 1.0, rows = height / side + 1.0;
        while (columns * rows > static_cast<double>(l.boxes)) {
          side *= 2.0;
          columns = width / side + 1.0;
          rows = height / side + 1.0;
          if (columns < 2.0 && rows < 2.0) break;
        }
        l.columns = static_cast<int64_t>(columns);
        l.rows = static_cast<int64_t>(rows);
        l.cells_per_unit = 1.0 / side;
      }
      l.first_cell = cells;
      cells += l.columns * l.rows;
    }
    return cells;
  }

 private:
  int base_;
  Level level_[kLevels];
};

// How far away, along an axis, the centre of a box can be that overlaps a box of side `side` by
// more than the threshold.
struct Reach {
  double t, stretch;

  explicit Reach(double iou_threshold)
      : t(iou_threshold * (1.0 - 1e-5)), stretch(t > 0.0 ? 1.0 / t : 0.0) {}

  // `most` bounds the other box's side; `centre` is this one's.
  double of(double side, double most, double centre) const {
    double other = t >= 0.5 ? side : (t > 0.0 ? side * stretch : most);
    other = other < most ? other : most;
    const double longer = other > side ? other : side;
    return (0.5 * (side + other) - t * longer) * (1.0 + 1e-5) + kCentreError * std::fabs(centre);
  }
};

// The kept boxes of a segment.
template <class Acc>
class Grid {
 public:
  Grid(const Levels& levels, double iou_threshold, const KeptBoxes<Acc>& kept, Cell* cells)
      : levels_(levels),
        reach_(iou_threshold),
        test_(OverlapTest<Acc>::of(iou_threshold)),
        kept_(kept),
        cells_(cells) {}

  // Whether a kept box overlaps `box`, whose cell is `cell`. With `open`, an array with a flag for
  // each place of `kept`, boxes with a flag don't count; *open_met tells whether one was met. (It
  // tells only of the boxes looked at, which are all if none counts.)
  bool meets(const Box<Acc>& box, int64_t cell, const uint8_t* open = nullptr,
             bool* open_met = nullptr) const {
    const OpenBoxes skipped = {open, open_met};
    return meets_own(box, cell, skipped) || for_each_row(box, [&](int64_t first, int64_t last) {
             return meets_cells(box, first, last, cell, skipped);
           });
  }

  // The same, with the cells that look() listed.
  bool meets(const Box<Acc>& box, int64_t cell, const CellRows& rows) const {
    if (rows.count > CellRows::kMost) return meets(box, cell);
    if (meets_own(box, cell, {})) return true;
    for (int r = 0; r < rows.count; ++r) {
      if (meets_cells(box, rows.first[r], rows.last[r], cell, {})) return true;
    }
    return false;
  }

  // Lists the cells that a candidate has to look at, and prefetches them.
  void look(const Box<Acc>& box, CellRows* rows) const {
    int count = 0;
    for_each_row(box, [&](int64_t first, int64_t last) {
      if (count == CellRows::kMost) return ++count > 0;  // ends the search
      rows->first[count] = static_cast<int32_t>(first);
      rows->last[count++] = static_cast<int32_t>(last);
      prefetch(cells_ + first, last - first + 1);
      return false;
    });
    rows->count = count;
  }

  // Prefetches the first boxes of those cells.
  void fetch_boxes(const CellRows& rows) const {
    const int count = rows.count < CellRows::kMost ? rows.count : CellRows::kMost;
    for (int r = 0; r < count; ++r) {
      const Cell &first = cells_[rows.first[r]], &last = cells_[rows.last[r]];
      const int64_t begin = first.first, end = last.first + last.used;
      if (begin < end) kept_.fetch_run(begin, end);
    }
  }

  // Returns the place where it stores the box.
  int64_t keep(const Box<Acc>& box, int64_t cell) {
    Cell& c = cells_[cell];
    const int64_t position = c.first + c.used++;
    kept_.store(position, box);
    return position;
  }

 private:
  struct OpenBoxes {
    const uint8_t* flags;
    bool* met;
  };

  static double at_least_normal(double v) { return v > 1e-307 ? v : 1e-307; }
  static double finite(double v) { return v < 1e308 ? v : 1e308; }

  bool meets_run(const Box<Acc>& box, int64_t i, const OpenBoxes& skipped) const {
    if (!test_.meets_run(box, kept_, i)) return false;
    if (skipped.flags == nullptr) return true;
    for (unsigned met = test_.met_of_run(box, kept_, i); met != 0; met &= met - 1) {
      if (skipped.flags[i + lowest_bit(met)] == 0) return true;
    }
    *skipped.met = true;
    return false;
  }

  bool meets_positions(const Box<Acc>& box, int64_t begin, int64_t end,
                       const OpenBoxes& skipped) const {
    for (int64_t i = begin; i < end; i += kRun) {
      if (meets_run(box, i, skipped)) return true;
    }
    return false;
  }

  bool meets_own(const Box<Acc>& box, int64_t cell, const OpenBoxes& skipped) const {
    const Cell& own = cells_[cell];
    return meets_positions(box, own.first, own.first + own.used, skipped);
  }

  // use(first, last) for the rows of cells that the box has to look at, until one returns true;
  // returns whether one did.
  template <class Use>
  VISOPS_ALWAYS_INLINE bool for_each_row(const Box<Acc>& box, const Use& use) const {
    const Centre centre = centre_of(box);
    const double width = static_cast<double>(box.x2) - static_cast<double>(box.x1);
    const double height = static_cast<double>(box.y2) - static_cast<double>(box.y1);
    const double side = width > height ? width : height;
    const double t = reach_.t;
    const int low = t > 0.0 ? levels_.of(at_least_normal(side * t)) : 0;
    const int high = t > 0.0 ? levels_.of(finite(side * reach_.stretch)) : kLevels - 1;
    for (int i = high; i >= low; --i) {
      const Level& level = levels_[i];
      if (level.boxes == 0) continue;
      const double dx = reach_.of(width, level.most, centre.x);
      const double dy = reach_.of(height, level.most, centre.y);
      const int64_t left = level.column(centre.x - dx), right = level.column(centre.x + dx);
      const int64_t top = level.row(centre.y - dy), bottom = level.row(centre.y + dy);
      for (int64_t row = top; row <= bottom; ++row) {
        const int64_t first = level.first_cell + row * level.columns;
        if (use(first + left, first + right)) return true;
      }
    }
    return false;
  }

  // Whether a kept box overlaps it in the cells [first, last] of a row, whose boxes follow one
  // another.
  bool meets_cells(const Box<Acc>& box, int64_t first, int64_t last, int64_t own,
                   const OpenBoxes& skipped) const {
    const int64_t begin = cells_[first].first, end = cells_[last].first + cells_[last].used;
    if (end - begin <= kRun) return end > begin && meets_run(box, begin, skipped);
    for (int64_t c = first; c <= last; ++c) {
      const Cell& cell = cells_[c];
      if (cell.used > 0 && c != own &&
          meets_positions(box, cell.first, cell.first + cell.used, skipped)) {
        return true;
      }
    }
    return false;
  }

  const Levels& levels_;
  Reach reach_;
  OverlapTest<Acc> test_;
  KeptBoxes<Acc> kept_;
  Cell* cells_;
};

}  // namespace
}  // namespace visops
