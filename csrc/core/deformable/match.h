// Costs of matching predictions with targets, as DETR and Deformable DETR define them.
//
// NOTE [ Matching costs ]
// For each query and each target of its image,
//
//     cost = (w_box l1 + w_class c) + w_giou (-giou)
//
// l1 is |dcx| + |dcy| + |dw| + |dh| of boxes (cx, cy, w, h), added from left to right. giou is the
// generalized intersection over union of their corners cx -+ w / 2, cy -+ h / 2; a quotient whose
// divisor is 0 counts as 0. With x the logit of the target's label, "softmax" takes
// c = -exp(x - m) / s, where m is the greatest of the query's logits and s the sum of
// exp(logit - m) (NOTE [ Lane sums ]), and "focal", with p = 1 / (1 + exp(-x)) and q = 1 - p, both
// computed from exp(-|x|),
//
//     c = alpha q^gamma (-log(p + 1e-8)) - (1 - alpha) p^gamma (-log(q + 1e-8))
//
// Everything is float32 (float64 for float64). exp and log are ours: C libraries and CUDA differ in
// the last place. A logit or box that is NaN makes its costs NaN.
#pragma once

#include <string>
#include <type_traits>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/element.h"
#include "core/numbers/elementary.h"
#include "core/numbers/lane_sum.h"

namespace visops {

enum class MatchKind : int { kFocal, kSoftmax };

constexpr int kMostImages = 64;  // of one run of a kernel

template <class Acc>
struct MatchNumbers {
  Acc of_class, of_box, of_giou, alpha, gamma;
};

struct MatchParams {
  const void* logits;        // [images, queries, classes]
  const void* boxes;         // [images, queries, 4] as cx, cy, w, h
  const int64_t* labels;     // [targets]
  const void* target_boxes;  // [targets, 4]
  bool is_double;            // all of them float64, otherwise float32
  int64_t images, queries, classes;
  int64_t begin[kMostImages + 1];  // an image's first target; begin[images] targets altogether
  MatchKind kind;
  MatchNumbers<float> single;
  MatchNumbers<double> wide;
  void* costs;  // an image's [queries, targets], one image after another
};

extern KernelStub<MatchParams> match_cost_stub;

MatchKind parse_match_kind(const char* op, const std::string& name);

VISOPS_FN const MatchNumbers<float>& numbers_of(const MatchParams& p, float) { return p.single; }
VISOPS_FN const MatchNumbers<double>& numbers_of(const MatchParams& p, double) { return p.wide; }

// f(acc, kind, is_square): a number of the type to compute in, the kind, and whether gamma is 2,
// which only "focal" asks; the last two are constants.
template <class Acc, class F>
static void with_match_form(const MatchParams& p, Acc acc, const F& f) {
  using Focal = std::integral_constant<MatchKind, MatchKind::kFocal>;
  using Softmax = std::integral_constant<MatchKind, MatchKind::kSoftmax>;
  if (p.kind == MatchKind::kSoftmax) return f(acc, Softmax{}, std::true_type{});
  if (numbers_of(p, acc).gamma == static_cast<Acc>(2)) return f(acc, Focal{}, std::true_type{});
  f(acc, Focal{}, std::false_type{});
}
template <class F>
static void with_match_form(const MatchParams& p, const F& f) {
  if (p.is_double) return with_match_form(p, 0.0, f);
  with_match_form(p, 0.0f, f);
}

template <bool is_square, class Acc>
VISOPS_HOT_FN Acc focal_cost(Acc x, const MatchNumbers<Acc>& n) {
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1), tiny = static_cast<Acc>(1e-8);
  const auto [size, e, p, q] = logistic_of(x);
  const Acc found =
      n.alpha * power_of<is_square>(q, size, n.gamma) * (zero - log_above_zero(p + tiny));
  const Acc absent =
      (one - n.alpha) * power_of<is_square>(p, size, n.gamma) * (zero - log_above_zero(q + tiny));
  return found - absent;
}

template <class Acc>
struct MatchBox {
  Acc cx, cy, w, h, x1, y1, x2, y2, area;
};

template <class Acc>
VISOPS_HOT_FN MatchBox<Acc> match_box(Acc cx, Acc cy, Acc w, Acc h) {
  const Acc half = static_cast<Acc>(0.5);
  MatchBox<Acc> box = {cx,
                       cy,
                       w,
                       h,
                       cx - half * w,
                       cy - half * h,
                       cx + half * w,
                       cy + half * h,
                       static_cast<Acc>(0)};
  box.area = (box.x2 - box.x1) * (box.y2 - box.y1);
  return box;
}

// The cost of a pair whose class costs `of_class`.
template <class Acc>
VISOPS_HOT_FN Acc pair_cost(const MatchBox<Acc>& a, const MatchBox<Acc>& b, Acc of_class,
                            const MatchNumbers<Acc>& n) {
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1);
  const Acc l1 =
      ((size_of(a.cx - b.cx) + size_of(a.cy - b.cy)) + size_of(a.w - b.w)) + size_of(a.h - b.h);
  const Acc left = a.x1 < b.x1 ? b.x1 : a.x1, right = b.x2 < a.x2 ? b.x2 : a.x2;
  const Acc top = a.y1 < b.y1 ? b.y1 : a.y1, bottom = b.y2 < a.y2 ? b.y2 : a.y2;
  const Acc width = right - left, height = bottom - top;
  const Acc inter = (width > zero ? width : zero) * (height > zero ? height : zero);
  const Acc joint = (a.area + b.area) - inter;
  const Acc across = (a.x2 < b.x2 ? b.x2 : a.x2) - (b.x1 < a.x1 ? b.x1 : a.x1);
  const Acc along = (a.y2 < b.y2 ? b.y2 : a.y2) - (b.y1 < a.y1 ? b.y1 : a.y1);
  const Acc hull = (across > zero ? across : zero) * (along > zero ? along : zero);
  const Acc ratio = inter / (joint != zero ? joint : one);
  const Acc iou = joint != zero ? ratio : zero;
  const Acc waste = (hull - joint) / (hull != zero ? hull : one);
  const Acc giou = iou - (hull != zero ? waste : zero);
  return (n.of_box * l1 + n.of_class * of_class) + n.of_giou * (zero - giou);
}

}  // namespace visops
