// Boxes in runs of neighbours.
//
// NOTE [ Runs ]
// Sixteen boxes make a run, sixteen runs a block. A run has bounds: a block's runs are tested
// against a box at once, and few boxes are looked at one by one. Runs are filled from the cells of
// a grid, row by row, every other row backwards. Boxes much longer than a cell come last, so that
// they don't widen the bounds of the others.
#pragma once

#include <cmath>
#include <limits>

#include "cpu/suppression/nms_kept.h"

namespace visops {
namespace {

// False for inert boxes, which are kept as Box{}.
template <class Acc>
bool is_used(const Box<Acc>& box) {
  return box.area > static_cast<Acc>(0);
}

// The cells of a grid, in the order in which runs take them, and a last one for long and inert
// boxes.
template <class Acc>
class RunCells {
 public:
  // A cell has about as many boxes as a run; there are at most most_cells(count).
  static constexpr int64_t most_cells(int64_t count) { return count / 8 + 2; }

  RunCells(const Box<Acc>* boxes, int64_t count) {
    double right = 0.0, bottom = 0.0, sides = 0.0;
    int64_t used = 0;
    for (int64_t i = 0; i < count; ++i) {
      const Box<Acc>& box = boxes[i];
      if (!is_used(box)) continue;
      const double x = middle(box.x1, box.x2), y = middle(box.y1, box.y2);
      left_ = used == 0 || x < left_ ? x : left_;
      right = used == 0 || x > right ? x : right;
      top_ = used == 0 || y < top_ ? y : top_;
      bottom = used == 0 || y > bottom ? y : bottom;
      sides += longer_side(box);
      ++used;
    }
    const double width = right - left_, height = bottom - top_;
    if (!(sides > 0.0 && sides < 1e300 && width < 1e300 && height < 1e300)) return;
    const double wanted = static_cast<double>(used) / 16.0, smallest = 0.5 * sides / used;
    double side = std::sqrt(width / wanted * height);
    side = side > smallest ? side : smallest;
    while ((width / side + 1.0) * (height / side + 1.0) > 2.0 * wanted + 1.0) side *= 1.25;
    columns_ = static_cast<int64_t>(width / side) + 1;
    rows_ = static_cast<int64_t>(height / side) + 1;
    scale_ = 1.0 / side;
    most_ = 4.0 * side;
  }

  int64_t count() const { return rows_ * columns_ + 1; }

  int64_t of(const Box<Acc>& box) const {
    if (!is_used(box) || longer_side(box) > most_) return rows_ * columns_;
    const int64_t row = index((middle(box.y1, box.y2) - top_) * scale_, rows_);
    const int64_t column = index((middle(box.x1, box.x2) - left_) * scale_, columns_);
    return row * columns_ + (row % 2 == 0 ? column : columns_ - 1 - column);
  }

 private:
  static double middle(Acc a, Acc b) {
    return 0.5 * static_cast<double>(a) + 0.5 * static_cast<double>(b);
  }
  static double longer_side(const Box<Acc>& box) {
    const double width = static_cast<double>(box.x2) - static_cast<double>(box.x1);
    const double height = static_cast<double>(box.y2) - static_cast<double>(box.y1);
    return width > height ? width : height;
  }
  static int64_t index(double at, int64_t count) {
    const auto whole = static_cast<int64_t>(at);
    return whole < count ? whole : count - 1;
  }

  double left_ = 0.0, top_ = 0.0, scale_ = 0.0, most_ = 1e308;
  int64_t rows_ = 1, columns_ = 1;
};

template <class Acc>
class BoxRuns {
 public:
  static constexpr int64_t padded(int64_t count) { return (count + kRun - 1) / kRun * kRun; }
  static constexpr int64_t runs_of(int64_t count) { return padded(padded(count) / kRun); }

  // The memory that `count` boxes take, in Acc and in int32_t.
  static constexpr int64_t elements(int64_t count) {
    return KeptBoxes<Acc>::elements(padded(count)) + 4 * runs_of(count) + 5 * count;
  }
  static constexpr int64_t integers(int64_t count) {
    return padded(count) + count + RunCells<Acc>::most_cells(count);
  }

  // Box i is box_at(i). Inert boxes, and those that pad the last run, touch nothing.
  template <class BoxAt>
  BoxRuns(int64_t count, const BoxAt& box_at, Acc* memory, int32_t* integers)
      : boxes_(memory, padded(count)), runs_(runs_of(count)), position_(integers) {
    left_ = memory + KeptBoxes<Acc>::elements(padded(count));
    top_ = left_ + runs_;
    right_ = top_ + runs_;
    bottom_ = right_ + runs_;
    auto* boxes = reinterpret_cast<Box<Acc>*>(bottom_ + runs_);  // in the order of box_at
    for (int64_t i = 0; i < count; ++i) {
      const Box<Acc> box = box_at(i);
      boxes[i] = is_inert(box) ? Box<Acc>{} : box;
    }
    sort_by_cell(boxes, count, position_ + padded(count));
    for (int64_t i = count; i < padded(count); ++i) position_[i] = 0;  // padding
    for (int64_t i = 0; i < count; ++i) boxes_.store(i, boxes[position_[i]]);
    for (int64_t run = 0; run < runs_; ++run) bind(run, run * kRun < count);
  }

  int64_t runs() const { return runs_; }  // whole blocks
  const KeptBoxes<Acc>& boxes() const { return boxes_; }
  Box<Acc> box(int64_t i) const { return boxes_.box(i); }
  const int32_t* positions() const { return position_; }      // [padded()]
  int32_t position(int64_t i) const { return position_[i]; }  // the box's index in box_at

  // From now on, nothing touches the box, or any of the run.
  void remove(int64_t i) { boxes_.store(i, Box<Acc>{}); }
  void close(int64_t run) { right_[run] = left_[run]; }

  // use(run) for each run whose bounds overlap the box.
  template <class Use>
  VISOPS_ALWAYS_INLINE void for_each_touched(const Box<Acc>& box, const Use& use) const {
    for (int64_t first = 0; first < runs_; first += kRun) {
      const unsigned bits =
          overlapping(box, left_ + first, top_ + first, right_ + first, bottom_ + first);
      for (unsigned rest = bits; rest != 0; rest &= rest - 1) use(first + lowest_bit(rest));
    }
  }

  // Which of the run's boxes overlap the box, as bits.
  VISOPS_ALWAYS_INLINE unsigned overlapping_of(const Box<Acc>& box, int64_t run) const {
    const int64_t i = run * kRun;
    return overlapping(box, boxes_.x1 + i, boxes_.y1 + i, boxes_.x2 + i, boxes_.y2 + i);
  }

 private:
  VISOPS_ALWAYS_INLINE static unsigned overlapping(const Box<Acc>& box, const Acc* left,
                                                   const Acc* top, const Acc* right,
                                                   const Acc* bottom) {
    int bits = 0;
    for (int l = 0; l < kRun; ++l) {
      const Acc x1 = left[l] < box.x1 ? box.x1 : left[l],
                x2 = box.x2 < right[l] ? box.x2 : right[l];
      const Acc y1 = top[l] < box.y1 ? box.y1 : top[l],
                y2 = box.y2 < bottom[l] ? box.y2 : bottom[l];
      bits |= ((x1 < x2) & (y1 < y2)) ? 1 << l : 0;
    }
    return static_cast<unsigned>(bits);
  }

  void sort_by_cell(const Box<Acc>* boxes, int64_t count, int32_t* memory) {
    const RunCells<Acc> cells(boxes, count);
    int32_t *cell = memory, *slot = memory + count;
    for (int64_t c = 0; c < cells.count(); ++c) slot[c] = 0;
    for (int64_t i = 0; i < count; ++i) {
      cell[i] = static_cast<int32_t>(cells.of(boxes[i]));
      ++slot[cell[i]];
    }
    int32_t first = 0;
    for (int64_t c = 0; c < cells.count(); ++c) {
      const int32_t boxes = slot[c];
      slot[c] = first;
      first += boxes;
    }
    for (int64_t i = 0; i < count; ++i) position_[slot[cell[i]]++] = static_cast<int32_t>(i);
  }

  void bind(int64_t run, bool exists) {
    constexpr Acc infinity = std::numeric_limits<Acc>::infinity();
    Acc left = infinity, top = infinity, right = -infinity, bottom = -infinity;
    const int64_t begin = run * kRun, end = exists ? begin + kRun : begin;
    for (int64_t i = begin; i < end; ++i) {
      const Box<Acc> b = box(i);
      const bool used = is_used(b);
      left = (used & (b.x1 < left)) ? b.x1 : left;
      top = (used & (b.y1 < top)) ? b.y1 : top;
      right = (used & (b.x2 > right)) ? b.x2 : right;
      bottom = (used & (b.y2 > bottom)) ? b.y2 : bottom;
    }
    left_[run] = left;
    top_[run] = top;
    right_[run] = right;
    bottom_[run] = bottom;
  }

  KeptBoxes<Acc> boxes_;
  int64_t runs_;
  int32_t* position_;
  Acc *left_, *top_, *right_, *bottom_;
};

}  // namespace
}  // namespace visops
