// The candidates of a segment in runs of boxes that lie near each other.
//
// NOTE [ Runs ]
// Sixteen candidates make a run, sixteen runs a block. A run has bounds, so that which runs a kept
// box can touch is found for a block at a time, and its best candidate, so that the best of all is
// found without a look at every candidate. Runs are filled from the cells of a grid, row by row,
// every other row backwards; boxes much longer than a cell come last, for not to widen the bounds
// of the others. Candidates that are kept or out have the score kSoftNmsOut.
#pragma once

#include <climits>
#include <cmath>
#include <type_traits>

#include "core/soft_nms.h"
#include "cpu/nms_kept.h"

namespace visops {
namespace {

// The cells of a grid, and a last one for what does not fit, in the order in which runs take them.
template <class Acc>
class RunCells {
 public:
  // A cell has about as many boxes as a run; there are at most most_cells(count).
  static constexpr int64_t most_cells(int64_t count) { return count / 8 + 2; }

  template <class BoxAt>
  RunCells(int64_t count, const BoxAt& box_at) {
    double right = 0.0, bottom = 0.0, sides = 0.0;
    int64_t boxes = 0;
    for (int64_t i = 0; i < count; ++i) {
      const Box<Acc> box = box_at(i);
      if (is_inert(box)) continue;
      const double x = middle(box.x1, box.x2), y = middle(box.y1, box.y2);
      left_ = boxes == 0 || x < left_ ? x : left_;
      right = boxes == 0 || x > right ? x : right;
      top_ = boxes == 0 || y < top_ ? y : top_;
      bottom = boxes == 0 || y > bottom ? y : bottom;
      sides += longer_side(box);
      ++boxes;
    }
    const double width = right - left_, height = bottom - top_;
    if (!(sides > 0.0 && sides < 1e300 && width < 1e300 && height < 1e300)) return;
    const double wanted = static_cast<double>(boxes) / 16.0, smallest = 0.5 * sides / boxes;
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
    if (is_inert(box) || longer_side(box) > most_) return rows_ * columns_;
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
class Runs {
 public:
  // What a segment of `count` candidates takes, of Acc and of int32_t.
  static constexpr int64_t elements(int64_t count) {
    return KeptBoxes<Acc>::elements(padded(count)) + padded(count) + 5 * runs_of(count);
  }
  static constexpr int64_t integers(int64_t count) {
    return 2 * padded(count) + runs_of(count) + count + RunCells<Acc>::most_cells(count);
  }

  // Candidate i has the box box_at(i), the number number_at(i) and scores[i].
  template <class BoxAt, class NumberAt>
  Runs(int64_t count, const BoxAt& box_at, const NumberAt& number_at, const Acc* scores,
       Acc* memory, int32_t* integers)
      : boxes_(memory, padded(count)), runs_(runs_of(count)) {
    score_ = memory + KeptBoxes<Acc>::elements(padded(count));
    left_ = score_ + padded(count);
    top_ = left_ + runs_;
    right_ = top_ + runs_;
    bottom_ = right_ + runs_;
    best_ = bottom_ + runs_;
    position_ = integers;
    number_ = position_ + padded(count);
    best_number_ = number_ + padded(count);
    sort_by_cell(count, box_at, best_number_ + runs_);
    for (int64_t i = 0; i < padded(count); ++i) {
      score_[i] = kOut;
      number_[i] = INT_MAX;
      if (i >= count) continue;
      const int32_t from = position_[i];
      const Box<Acc> box = box_at(from);
      score_[i] = scores[from] + static_cast<Acc>(0);  // no -0: its bits are not in order
      number_[i] = number_at(from);
      if (!is_inert(box)) boxes_.store(i, box);
    }
    for (int64_t r = 0; r < runs_; ++r) bind(r, r * kRun < count);
  }

  // The best candidate; -1 where none is left.
  int64_t best() const {
    const Best found = best_of(best_, best_number_, runs_);
    if (found.score == kOut) return -1;
    const int64_t run = place_of(found, best_, best_number_, runs_);
    return run * kRun + place_of(found, score_ + run * kRun, number_ + run * kRun, kRun);
  }

  int32_t position(int64_t i) const { return position_[i]; }
  Acc score(int64_t i) const { return score_[i]; }
  Box<Acc> box(int64_t i) const {
    return {boxes_.x1[i], boxes_.y1[i], boxes_.x2[i], boxes_.y2[i], boxes_.area[i]};
  }

  void take(int64_t i) {
    score_[i] = kOut;
    find_best(i / kRun);
  }

  // Scores of candidates that overlap `kept`.
  void lower(const SoftNmsParams& p, const OverlapTest<Acc>& test, const Box<Acc>& kept) {
    for (int64_t first = 0; first < runs_; first += kRun) {
      for (unsigned rest = touched(kept, first); rest != 0; rest &= rest - 1) {
        const int64_t run = first + __builtin_ctz(rest);
        if (test.may_meet_run(kept, boxes_, run * kRun)) lower_run(p, test, kept, run);
      }
    }
  }

 private:
  static constexpr Acc kOut = static_cast<Acc>(kSoftNmsOut);

  static constexpr int64_t padded(int64_t count) { return (count + kRun - 1) / kRun * kRun; }
  static constexpr int64_t runs_of(int64_t count) { return padded(padded(count) / kRun); }

  template <class BoxAt>
  void sort_by_cell(int64_t count, const BoxAt& box_at, int32_t* memory) {
    const RunCells<Acc> cells(count, box_at);
    int32_t *cell = memory, *place = memory + count;
    for (int64_t c = 0; c < cells.count(); ++c) place[c] = 0;
    for (int64_t i = 0; i < count; ++i) {
      cell[i] = static_cast<int32_t>(cells.of(box_at(i)));
      ++place[cell[i]];
    }
    int32_t first = 0;
    for (int64_t c = 0; c < cells.count(); ++c) {
      const int32_t boxes = place[c];
      place[c] = first;
      first += boxes;
    }
    for (int64_t i = 0; i < count; ++i) position_[place[cell[i]]++] = static_cast<int32_t>(i);
  }

  // Bounds and best of a run; of one without candidates, such that nothing touches it.
  void bind(int64_t r, bool exists) {
    left_[r] = top_[r] = right_[r] = bottom_[r] = static_cast<Acc>(0);
    best_[r] = kOut;
    best_number_[r] = INT_MAX;
    if (!exists) return;
    bool empty = true;
    for (int64_t i = r * kRun; i < (r + 1) * kRun; ++i) {
      const Box<Acc> b = box(i);
      if (!(b.area > static_cast<Acc>(0))) continue;  // inert, or no candidate
      left_[r] = empty || b.x1 < left_[r] ? b.x1 : left_[r];
      top_[r] = empty || b.y1 < top_[r] ? b.y1 : top_[r];
      right_[r] = empty || b.x2 > right_[r] ? b.x2 : right_[r];
      bottom_[r] = empty || b.y2 > bottom_[r] ? b.y2 : bottom_[r];
      empty = false;
    }
    find_best(r);
  }

  // The highest score and, of candidates that have it, the lowest number.
  struct Best {
    Acc score;
    int32_t number;
  };
  // All bits but the sign's, or none; in a form that compilers don't turn into jumps.
  VISOPS_ALWAYS_INLINE static int32_t unless(bool condition) {
    return (static_cast<int32_t>(condition) - 1) & INT_MAX;
  }
  VISOPS_ALWAYS_INLINE static Best best_of(const Acc* score, const int32_t* number, int64_t count) {
    // Compared as integers, which is the same for what is not negative and kOut, and for which
    // compilers know that order does not matter.
    using Bits = std::conditional_t<sizeof(Acc) == sizeof(float), int32_t, int64_t>;
    Bits highest = bit_cast<Bits>(kOut);
    for (int64_t i = 0; i < count; ++i) {
      const Bits bits = bit_cast<Bits>(score[i]);
      highest = bits > highest ? bits : highest;
    }
    int32_t lowest = INT_MAX;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t mine = number[i] | unless(bit_cast<Bits>(score[i]) == highest);
      lowest = mine < lowest ? mine : lowest;
    }
    return {bit_cast<Acc>(highest), lowest};
  }

  // Where it is; without a jump, which would be mispredicted at the end.
  VISOPS_ALWAYS_INLINE static int64_t place_of(const Best& best, const Acc* score,
                                               const int32_t* number, int64_t count) {
    int32_t place = INT_MAX;
    for (int32_t i = 0; i < static_cast<int32_t>(count); ++i) {
      const int32_t mine = i | unless(score[i] == best.score) | unless(number[i] == best.number);
      place = mine < place ? mine : place;
    }
    return place;
  }

  void find_best(int64_t r) {
    const Best found = best_of(score_ + r * kRun, number_ + r * kRun, kRun);
    best_[r] = found.score;
    best_number_[r] = found.number;
    if (found.score == kOut) right_[r] = left_[r];  // nothing overlaps what has no width
  }

  // Bits of the runs from `first` on whose bounds overlap the box.
  VISOPS_ALWAYS_INLINE unsigned touched(const Box<Acc>& box, int64_t first) const {
    const Acc *left = left_ + first, *top = top_ + first;
    const Acc *right = right_ + first, *bottom = bottom_ + first;
    int bits = 0;
    for (int l = 0; l < kRun; ++l) {
      const Acc x1 = left[l] < box.x1 ? box.x1 : left[l],
                x2 = box.x2 < right[l] ? box.x2 : right[l];
      const Acc y1 = top[l] < box.y1 ? box.y1 : top[l],
                y2 = box.y2 < bottom[l] ? box.y2 : bottom[l];
      bits |= (x1 < x2) & (y1 < y2) ? 1 << l : 0;
    }
    return static_cast<unsigned>(bits);
  }

  void lower_run(const SoftNmsParams& p, const OverlapTest<Acc>& test, const Box<Acc>& kept,
                 int64_t run) {
    Acc iou[kRun];
    Acc* score = score_ + run * kRun;
    for_each_of_run(kept, boxes_, run * kRun, [&](int l, bool meets, Acc inter, Acc all) {
      iou[l] = meets ? inter / all : static_cast<Acc>(0);
    });
    int hits = 0;
    for (int l = 0; l < kRun; ++l) {
      hits |= (iou[l] > test.threshold) & (score[l] != kOut) ? 1 << l : 0;
    }
    if (hits == 0) return;
    for (auto rest = static_cast<unsigned>(hits); rest != 0; rest &= rest - 1) {
      const int l = __builtin_ctz(rest);
      score[l] = decayed(p, score[l], iou[l]);
    }
    find_best(run);
  }

  KeptBoxes<Acc> boxes_;
  int64_t runs_;
  Acc *score_, *left_, *top_, *right_, *bottom_, *best_;
  int32_t *position_, *number_, *best_number_;
};

}  // namespace
}  // namespace visops
