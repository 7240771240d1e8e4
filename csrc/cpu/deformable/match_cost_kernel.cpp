// NOTE [ Matching costs on the CPU ]
// Targets are laid out by coordinate, and for every kTargetsAtOnce of an image the distinct labels
// are listed. A query then costs its distinct labels once each, and its pairs in vectors of
// targets; nothing is computed across images, and no matrix but the result is stored. Work is split
// by query.
//
// Rounding: NOTE [ Matching costs ] (core/deformable/match.h), without contraction. Assumes what
// the front checks, labels included.
#include <cstring>

#include "core/deformable/match.h"
#include "core/dispatch/threads.h"

namespace visops {
namespace {

constexpr int64_t kTargetsAtOnce = 128;

template <class Acc>
struct Targets {
  Acc *cx, *cy, *w, *h, *x1, *y1, *x2, *y2, *area;
  int32_t* slot;    // of each target: its label among the distinct ones of its block
  int64_t* label;   // the distinct labels of a block, from its first target's place on
  int64_t* labels;  // how many, at its first target's place
};

template <class Acc>
Targets<Acc> lay_out(const MatchParams& p, Workspace& workspace) {
  const int64_t count = p.begin[p.images];
  Targets<Acc> t;
  Acc** const columns[] = {&t.cx, &t.cy, &t.w, &t.h, &t.x1, &t.y1, &t.x2, &t.y2, &t.area};
  for (Acc** column : columns) *column = allocate<Acc>(workspace, count);
  t.slot = allocate<int32_t>(workspace, count);
  t.label = allocate<int64_t>(workspace, count);
  t.labels = allocate<int64_t>(workspace, count);
  const Acc* boxes = static_cast<const Acc*>(p.target_boxes);
  for (int64_t i = 0; i < count; ++i) {
    const Acc* at = boxes + 4 * i;
    const MatchBox<Acc> box = match_box(at[0], at[1], at[2], at[3]);
    t.cx[i] = box.cx, t.cy[i] = box.cy, t.w[i] = box.w, t.h[i] = box.h;
    t.x1[i] = box.x1, t.y1[i] = box.y1, t.x2[i] = box.x2, t.y2[i] = box.y2;
    t.area[i] = box.area;
  }
  return t;
}

// f(image, first, last) for all blocks of targets, of one image each.
template <class F>
void for_blocks(const MatchParams& p, int64_t image, const F& f) {
  const int64_t end = p.begin[image + 1];
  for (int64_t first = p.begin[image]; first < end; first += kTargetsAtOnce) {
    f(first, end - first < kTargetsAtOnce ? end : first + kTargetsAtOnce);
  }
}

template <class Acc>
void list_labels(const MatchParams& p, Workspace& workspace, const Targets<Acc>& t) {
  // The target that a class was listed for last; in another block if it is before `first`.
  int64_t* seen = allocate<int64_t>(workspace, p.classes);
  for (int64_t k = 0; k < p.classes; ++k) seen[k] = -1;
  for (int64_t image = 0; image < p.images; ++image) {
    for_blocks(p, image, [&](int64_t first, int64_t last) {
      int64_t found = 0;
      for (int64_t i = first; i < last; ++i) {
        const int64_t label = p.labels[i];
        if (seen[label] < first) {
          seen[label] = i;
          t.slot[i] = static_cast<int32_t>(found);
          t.label[first + found++] = label;
        } else {
          t.slot[i] = t.slot[seen[label]];
        }
      }
      t.labels[first] = found;
    });
  }
}

// In lanes, which fill vectors: one comparison after another would wait for the one before. Where a
// logit is NaN all costs of the query are, whatever this returns.
template <class Acc>
Acc greatest_of(const Acc* VISOPS_RESTRICT logits, int64_t classes) {
  Acc lanes[kSumLanes];
  for (int64_t l = 0; l < kSumLanes; ++l) lanes[l] = logits[0];
  int64_t k = 0;
  for (; k + kSumLanes <= classes; k += kSumLanes) {
    for (int64_t l = 0; l < kSumLanes; ++l) {
      lanes[l] = lanes[l] < logits[k + l] ? logits[k + l] : lanes[l];
    }
  }
  for (int64_t l = 0; k + l < classes; ++l) {
    lanes[l] = lanes[l] < logits[k + l] ? logits[k + l] : lanes[l];
  }
  for (int64_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (int64_t l = 0; l < half; ++l) {
      lanes[l] = lanes[l] < lanes[l + half] ? lanes[l + half] : lanes[l];
    }
  }
  return lanes[0];
}

// The greatest logit, and the sum of exp(logit - greatest).
template <class Acc>
struct RowSum {
  Acc greatest, sum;
};

template <class Acc>
RowSum<Acc> sum_row(const Acc* VISOPS_RESTRICT logits, int64_t classes) {
  RowSum<Acc> row;
  row.greatest = greatest_of(logits, classes);
  Acc lanes[kSumLanes] = {};
  int64_t k = 0;
  for (; k + kSumLanes <= classes; k += kSumLanes) {
    for (int64_t l = 0; l < kSumLanes; ++l) {
      lanes[l] += exp_below_zero(logits[k + l] - row.greatest);
    }
  }
  for (int64_t l = 0; k + l < classes; ++l) {
    lanes[l] += exp_below_zero(logits[k + l] - row.greatest);
  }
  for (int64_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  row.sum = lanes[0];
  return row;
}

template <class Acc, MatchKind kind, bool is_square>
void cost_labels(const MatchNumbers<Acc>& numbers, const RowSum<Acc>& row, int64_t count,
                 const Acc* VISOPS_RESTRICT logits, Acc* VISOPS_RESTRICT costs) {
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (kind == MatchKind::kFocal) {
      costs[i] = focal_cost<is_square>(logits[i], numbers);
    } else {
      costs[i] = static_cast<Acc>(0) - exp_below_zero(logits[i] - row.greatest) / row.sum;
    }
  }
}

template <class Acc>
void cost_pairs(const MatchBox<Acc>& box, const MatchNumbers<Acc>& numbers, const Targets<Acc>& t,
                int64_t first, int64_t count, const Acc* VISOPS_RESTRICT of_class,
                Acc* VISOPS_RESTRICT costs) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + i;
    const MatchBox<Acc> target = {t.cx[at], t.cy[at], t.w[at],  t.h[at],   t.x1[at],
                                  t.y1[at], t.x2[at], t.y2[at], t.area[at]};
    costs[i] = pair_cost(box, target, of_class[i], numbers);
  }
}

template <class Acc, MatchKind kind, bool is_square>
void match(const MatchParams& p, Workspace& workspace) {
  const Targets<Acc> targets = lay_out<Acc>(p, workspace);
  list_labels(p, workspace, targets);
  const MatchNumbers<Acc>& numbers = numbers_of(p, static_cast<Acc>(0));
  const auto cost_query = [&](int64_t image, int64_t query) {
    const int64_t row = image * p.queries + query, begin = p.begin[image];
    const int64_t count = p.begin[image + 1] - begin;
    if (count == 0) return;
    const Acc* logits = static_cast<const Acc*>(p.logits) + row * p.classes;
    const Acc* at = static_cast<const Acc*>(p.boxes) + 4 * row;
    const MatchBox<Acc> box = match_box(at[0], at[1], at[2], at[3]);
    Acc* out = static_cast<Acc*>(p.costs) + begin * p.queries + query * count;
    RowSum<Acc> sums = {};
    if (kind == MatchKind::kSoftmax) sums = sum_row(logits, p.classes);
    for_blocks(p, image, [&](int64_t first, int64_t last) {
      Acc read[kTargetsAtOnce], of_label[kTargetsAtOnce], of_class[kTargetsAtOnce];
      const int64_t labels = targets.labels[first];
      for (int64_t i = 0; i < labels; ++i) read[i] = logits[targets.label[first + i]];
      cost_labels<Acc, kind, is_square>(numbers, sums, labels, read, of_label);
      for (int64_t i = first; i < last; ++i) of_class[i - first] = of_label[targets.slot[i]];
      cost_pairs(box, numbers, targets, first, last - first, of_class, out + (first - begin));
    });
  };
  const int64_t cost = 16 * p.begin[p.images] / p.images + 8 * p.classes;
  parallel_for(workspace, p.images * p.queries, grain_of(cost), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) cost_query(i / p.queries, i % p.queries);
  });
}

void match_cost_kernel(const MatchParams& p, Workspace& workspace) {
  with_match_form(p, [&](auto acc, auto kind, auto is_square) {
    match<decltype(acc), kind.value, is_square.value>(p, workspace);
  });
}

const bool registered = match_cost_stub.set(kIsaSlot, match_cost_kernel);

}  // namespace
}  // namespace visops
