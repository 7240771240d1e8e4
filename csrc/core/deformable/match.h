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
#include "core/numbers/log_polynomial.h"

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

// exp(x) for x <= 0; 0 below -87. Cephes' reduction and polynomial, branch-free.
VISOPS_HOT_FN float exp_below_zero(float x) {
  const float safe = x > -87.0f ? x : -87.0f;
  const float shifted = safe * 1.44269504f + 12582912.0f;  // rounds to an integer
  const float k = shifted - 12582912.0f;
  const float r = (safe - k * 0.693359375f) - k * -2.12194440e-4f;
  float sum = 1.9875691500e-4f;
  sum = sum * r + 1.3981999507e-3f;
  sum = sum * r + 8.3334519073e-3f;
  sum = sum * r + 4.1665795894e-2f;
  sum = sum * r + 1.6666665459e-1f;
  sum = sum * r + 5.0000001201e-1f;
  sum = (sum * (r * r) + r) + 1.0f;
  const int32_t power = bit_cast<int32_t>(shifted) - 0x4b400000 + 127;
  const float scaled = sum * bit_cast<float>(power << 23);
  const float found = x < -87.0f ? 0.0f : scaled;
  return x == x ? found : x;
}
VISOPS_HOT_FN double exp_below_zero(double x) { return exp_of(x); }

// log(x) for positive normal numbers. Cephes' reduction and polynomial, branch-free.
VISOPS_HOT_FN float log_above_zero(float x) {
  const int32_t bits = bit_cast<int32_t>(x);
  const int32_t power = (bits - 0x3f3504f3) >> 23;  // the mantissa is in [sqrt(1/2), sqrt(2))
  const float r = bit_cast<float>(bits - power * (1 << 23)) - 1.0f;
  const float k = static_cast<float>(power), squared = r * r;
  const float small = (log_polynomial(r) * r * squared + k * -2.12194440e-4f) - 0.5f * squared;
  const float found = (r + small) + k * 0.693359375f;
  return x == x ? found : x;
}
VISOPS_HOT_FN double log_above_zero(double x) { return x == x ? log2_of(x) * kLn2 : x; }

template <class Acc>
VISOPS_HOT_FN Acc size_of(Acc v) {
  return v < static_cast<Acc>(0) ? static_cast<Acc>(0) - v : v;
}

// p^gamma for p = exp(-size) / (1 + exp(-size)), or for 1 - p. gamma is finite and >= 0; is_square:
// it is 2. The smallest p are rounded to a few bits or to 0, which a small gamma would show: there
// the logarithm is -size itself, as 1 + exp(-size) is 1.
template <bool is_square, class Acc>
VISOPS_HOT_FN Acc power_of(Acc p, Acc size, Acc gamma) {
  if constexpr (is_square) return p * p;
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1);
  const Acc least = static_cast<Acc>(1e-37);
  const Acc logarithm = log_above_zero(p < least ? least : p);
  const Acc found = exp_below_zero(gamma * (p < least ? zero - size : logarithm));
  return gamma > zero ? found : one;
}

template <bool is_square, class Acc>
VISOPS_HOT_FN Acc focal_cost(Acc x, const MatchNumbers<Acc>& n) {
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1), tiny = static_cast<Acc>(1e-8);
  const Acc size = size_of(x), e = exp_below_zero(zero - size);
  const Acc high = one / (one + e), low = e * high;
  const Acc p = x < zero ? low : high, q = x < zero ? high : low;
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
