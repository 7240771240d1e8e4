// The candidates of soft suppression and their scores, in runs of boxes that lie near each other.
//
// Candidates that are kept or out have the score kSoftNmsOut. Every run knows its best candidate,
// so the best of all is found without a look at every candidate.
#pragma once

#include <climits>
#include <type_traits>

#include "core/suppression/soft_nms.h"
#include "cpu/suppression/box_runs.h"

namespace visops {
namespace {

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
