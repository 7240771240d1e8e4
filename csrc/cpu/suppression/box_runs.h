// Boxes in runs of neighbours.
//
// NOTE [ Runs ]
// Sixteen boxes make a run, sixteen runs a block. A run has bounds: a block's runs are tested
// against a box at once, and few boxes are looked at one by one. Runs are filled from the cells of
// a grid, row by row, every other row backwards. Boxes much longer than a cell come last, so that
// they don't widen the bounds of the others.
#pragma once

#include <climits>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/suppression/soft_nms.h"
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

// The candidates of soft suppression and their scores, in runs of boxes that lie near each other.
//
// Candidates that are kept or out have the score kSoftNmsOut. Every run knows its best candidate,
// so the best of all is found without a look at every candidate.

template <class Acc>
class SoftRuns {
  using Boxes = BoxRuns<Acc>;

 public:
  // The memory that a segment of `count` candidates takes, in Acc and in int32_t.
  static constexpr int64_t elements(int64_t count) {
    return Boxes::elements(count) + Boxes::padded(count) + Boxes::runs_of(count);
  }
  static constexpr int64_t integers(int64_t count) {
    return Boxes::integers(count) + Boxes::runs_of(count);
  }

  // Candidate i has the box box_at(i) and scores[i].
  template <class BoxAt>
  SoftRuns(int64_t count, const BoxAt& box_at, const Acc* scores, Acc* memory, int32_t* integers)
      : boxes_(count, box_at, memory, integers) {
    score_ = memory + Boxes::elements(count);
    best_ = score_ + Boxes::padded(count);
    best_position_ = integers + Boxes::integers(count);
    for (int64_t i = 0; i < Boxes::padded(count); ++i) {
      const int32_t from = i < count ? boxes_.position(i) : 0;
      score_[i] = i < count ? scores[from] + static_cast<Acc>(0) : kOut;  // no -0: see best_of()
    }
    for (int64_t run = 0; run < boxes_.runs(); ++run) {
      best_[run] = kOut;
      best_position_[run] = INT_MAX;
      if (run * kRun < count) find_best(run);
    }
  }

  // The best candidate; -1 if none is left.
  int64_t best() const {
    const Best found = best_of(best_, best_position_, boxes_.runs());
    if (found.score == kOut) return -1;
    const int64_t run = index_of(found, best_, best_position_, boxes_.runs());
    return run * kRun + index_of(found, score_ + run * kRun, boxes_.positions() + run * kRun, kRun);
  }

  int32_t position(int64_t i) const { return boxes_.position(i); }
  Acc score(int64_t i) const { return score_[i]; }
  Box<Acc> box(int64_t i) const { return boxes_.box(i); }

  void take(int64_t i) {
    score_[i] = kOut;
    find_best(i / kRun);
  }

  // Lowers the scores of candidates whose boxes meet `kept` and whose overlap(position) is more
  // than `threshold`.
  template <class Overlap>
  void lower_by(const SoftNmsParams& p, Acc threshold, const Box<Acc>& kept,
                const Overlap& overlap) {
    boxes_.for_each_touched(kept, [&](int64_t run) {
      bool changed = false;
      for (unsigned rest = boxes_.overlapping_of(kept, run); rest != 0; rest &= rest - 1) {
        const int64_t i = run * kRun + lowest_bit(rest);
        if (score_[i] == kOut) continue;
        const Acc iou = overlap(position(i));
        if (!(iou > threshold)) continue;
        score_[i] = decayed(p, score_[i], iou);
        changed = true;
      }
      if (changed) find_best(run);
    });
  }

  // Lowers the scores of candidates that overlap `kept`.
  void lower(const SoftNmsParams& p, const OverlapTest<Acc>& test, const Box<Acc>& kept) {
    boxes_.for_each_touched(kept, [&](int64_t run) {
      if (test.may_meet_run(kept, boxes_.boxes(), run * kRun)) lower_run(p, test, kept, run);
    });
  }

 private:
  static constexpr Acc kOut = static_cast<Acc>(kSoftNmsOut);

  // The highest score and the first position that has it.
  struct Best {
    Acc score;
    int32_t position;
  };
  // 0 if the condition holds, else INT_MAX; in a form that compilers don't turn into jumps.
  VISOPS_ALWAYS_INLINE static int32_t unless(bool condition) {
    return (static_cast<int32_t>(condition) - 1) & INT_MAX;
  }
  VISOPS_ALWAYS_INLINE static Best best_of(const Acc* score, const int32_t* position,
                                           int64_t count) {
    // Compared as integers: the same for kOut and numbers that aren't negative, and compilers know
    // that the order of integer maxima doesn't matter.
    using Bits = std::conditional_t<sizeof(Acc) == sizeof(float), int32_t, int64_t>;
    Bits highest = bit_cast<Bits>(kOut);
    VISOPS_NO_UNROLL
    for (int64_t i = 0; i < count; ++i) {
      const Bits bits = bit_cast<Bits>(score[i]);
      highest = bits > highest ? bits : highest;
    }
    int32_t lowest = INT_MAX;
    VISOPS_NO_UNROLL
    for (int64_t i = 0; i < count; ++i) {
      const int32_t mine = position[i] | unless(bit_cast<Bits>(score[i]) == highest);
      lowest = mine < lowest ? mine : lowest;
    }
    return {bit_cast<Acc>(highest), lowest};
  }

  // Its index; without a jump, which would be mispredicted at the end.
  VISOPS_ALWAYS_INLINE static int64_t index_of(const Best& best, const Acc* score,
                                               const int32_t* position, int64_t count) {
    int32_t index = INT_MAX;
    VISOPS_NO_UNROLL
    for (int32_t i = 0; i < static_cast<int32_t>(count); ++i) {
      const int32_t mine =
          i | unless(score[i] == best.score) | unless(position[i] == best.position);
      index = mine < index ? mine : index;
    }
    return index;
  }

  void find_best(int64_t run) {
    const Best found = best_of(score_ + run * kRun, boxes_.positions() + run * kRun, kRun);
    best_[run] = found.score;
    best_position_[run] = found.position;
    if (found.score == kOut) boxes_.close(run);
  }

  void lower_run(const SoftNmsParams& p, const OverlapTest<Acc>& test, const Box<Acc>& kept,
                 int64_t run) {
    bool changed = false;
    switch (p.decay) {
      case Decay::kLinear: changed = decay_run<Decay::kLinear>(p, test, kept, run); break;
      case Decay::kGaussian: changed = decay_run<Decay::kGaussian>(p, test, kept, run); break;
      case Decay::kHard: changed = decay_run<Decay::kHard>(p, test, kept, run); break;
    }
    if (changed) find_best(run);
  }

  // Lowers the scores of a run; false if all stay.
  template <Decay decay>
  bool decay_run(const SoftNmsParams& p, const OverlapTest<Acc>& test, const Box<Acc>& kept,
                 int64_t run) {
    Acc* score = score_ + run * kRun;
    Acc lower[kRun];  // apart: stores to `score` might change what the loop reads
    int found = 0;
    for_each_of_run(kept, boxes_.boxes(), run * kRun, [&](int l, bool meets, Acc inter, Acc all) {
      const Acc iou = meets ? inter / all : static_cast<Acc>(0);
      const bool falls = (iou > test.threshold) & (score[l] != kOut);
      const Acc fallen = decayed_by<decay>(p, score[l], iou);
      lower[l] = falls ? fallen : score[l];
      found |= falls;
    });
    if (found == 0) return false;
    memcpy(score, lower, sizeof(lower));
    return true;
  }

  Boxes boxes_;
  Acc *score_, *best_;
  int32_t* best_position_;
};

}  // namespace
}  // namespace visops
