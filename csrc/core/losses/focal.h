// The sigmoid focal loss of T.-Y. Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017.
//
// NOTE [ Focal loss ]
// With x a logit, t its target, p = 1 / (1 + exp(-x)) and q = 1 - p, which is computed for itself,
//
//     entropy = t softplus(-x) + (1 - t) softplus(x)
//     wrong = (1 - t) p + t q
//     loss = (alpha t + (1 - alpha) (1 - t)) entropy wrong^gamma
//
// softplus(|x|) is |x| + log(1 + exp(-|x|)), and softplus(-|x|) the logarithm alone, so nothing
// cancels. The derivative of wrong^gamma by x is gamma wrong^gamma r with r = p q (1 - 2 t) /
// wrong, which is -p for t = 1 and q for t = 0: no quotient of two numbers that are 0. A product
// with a factor of 0 is 0, so infinite logits have the losses and gradients that large ones tend
// to; a NaN stays.
//
// Targets are numbers, or the class of each row of logits: its target is 1, the others' are 0. A
// class that isn't there is background. Everything is float32 (float64 for float64).
#pragma once

#include <type_traits>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/element.h"
#include "core/numbers/elementary.h"

namespace visops {

struct FocalParams {
  const void* logits;     // [rows, classes]
  const void* targets;    // of the same shape and dtype; or null, and then
  const int64_t* labels;  // [rows]
  const void* grad;       // as logits, for the backward
  DType dtype;            // of logits, targets, grad and output
  int64_t rows, classes;
  double present, absent, gamma;  // weights of targets 1 and 0, and the exponent
  void* output;
};

extern KernelStub<FocalParams> focal_loss_stub, focal_loss_backward_stub;

template <class Acc>
struct FocalNumbers {
  Acc present, absent, gamma;
};

template <class Acc>
VISOPS_FN FocalNumbers<Acc> focal_numbers(const FocalParams& p) {
  return {static_cast<Acc>(p.present), static_cast<Acc>(p.absent), static_cast<Acc>(p.gamma)};
}

// a * b, of which b may be infinite where a is 0.
template <class Acc>
VISOPS_HOT_FN Acc product_or_zero(Acc a, Acc b) {
  return a != static_cast<Acc>(0) ? a * b : static_cast<Acc>(0);
}

// The loss, or its derivative by x. `is_square`: gamma is 2.
template <bool is_backward, bool is_square, class Acc>
VISOPS_HOT_FN Acc focal_value(Acc x, Acc t, const FocalNumbers<Acc>& n) {
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1);
  const auto [size, e, p, q] = logistic_of(x);
  const Acc rest = one - t, over = x > zero ? x : zero, under = x < zero ? zero - x : zero;
  const Acc entropy = log_one_plus(e) + (product_or_zero(t, under) + product_or_zero(rest, over));
  const Acc wrong = rest * p + t * q, weight = n.present * t + n.absent * rest;
  const Acc power = power_of<is_square>(wrong, size, n.gamma);
  if constexpr (!is_backward) return weight * product_or_zero(power, entropy);
  const Acc soft = p * q * (rest - t) / (wrong != zero ? wrong : one);
  const Acc ratio = t == one ? zero - p : t == zero ? q : soft;
  return weight * power * ((rest * p - t * q) + product_or_zero(n.gamma * ratio, entropy));
}

// f(pointer to an element's type, is_square as a constant).
template <class F>
static void with_focal_form(const FocalParams& p, const F& f) {
  with_floating_type(p.dtype, [&](auto* type) {
    if (p.gamma == 2.0) return f(type, std::true_type{});
    f(type, std::false_type{});
  });
}

}  // namespace visops
