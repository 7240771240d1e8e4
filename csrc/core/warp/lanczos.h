// Lanczos' window of three lobes, sinc(d) sinc(d / 3), as Pillow has it.
//
// NOTE [ Lanczos ]
// With x = pi d / 3 and q = sin(x) / x, the second factor is q, and the first one, by the sine of
// the triple angle, q (1 - (4/3) x^2 q^2). So the window is a polynomial in x^2 and q; and q is its
// Taylor series in z = x^2, which up to x = pi converges in a few terms. That is the same on every
// processor, without a division or a jump, and loops are vectorized. Errors are a few units in the
// last place of 1.
#pragma once

#include "core/platform.h"

namespace visops {

// q, and dq / dz.
template <class Acc>
struct LanczosSine {
  Acc value, slope;
};

// Horner's scheme, for the value and, if it is used, its derivative.
template <class Acc>
VISOPS_HOT_FN LanczosSine<Acc> lanczos_sine(Acc z) {
  LanczosSine<Acc> q = {static_cast<Acc>(0), static_cast<Acc>(0)};
  const auto add = [&](double coefficient) {  // 1 / (2 k + 1)!
    q.slope = q.slope * z + q.value;
    q.value = q.value * z + static_cast<Acc>(coefficient);
  };
  if constexpr (sizeof(Acc) == 8) {
    add(-1.2161250415535181e-34);
    add(1.1309962886447716e-31);
    add(-9.183689863795546e-29);
    add(6.446950284384474e-26);
    add(-3.868170170630684e-23);
    add(1.9572941063391263e-20);
  }
  add(-8.22063524662433e-18);
  add(2.8114572543455206e-15);
  add(-7.647163731819816e-13);
  add(1.6059043836821613e-10);
  add(-2.505210838544172e-08);
  add(2.7557319223985893e-06);
  add(-0.0001984126984126984);
  add(0.008333333333333333);
  add(-0.16666666666666666);
  add(1.0);
  return q;
}

constexpr double kLanczosTurn = 1.0471975511965977462;  // pi / 3: x by d

// d >= 0.
template <class Acc>
VISOPS_HOT_FN Acc lanczos(Acc d) {
  const Acc three = static_cast<Acc>(3);
  const Acc x = (d < three ? d : three) * static_cast<Acc>(kLanczosTurn);
  const Acc z = x * x;
  const Acc q = lanczos_sine(z).value, square = q * q;
  const Acc w = square * (static_cast<Acc>(1) - static_cast<Acc>(4.0 / 3.0) * (z * square));
  return d < three ? w : static_cast<Acc>(0);
}

// d lanczos / dd, d >= 0: of p - (4/3) z p^2, where p is the square of q.
template <class Acc>
VISOPS_HOT_FN Acc lanczos_derivative(Acc d) {
  const Acc three = static_cast<Acc>(3), two = static_cast<Acc>(2);
  const Acc x = (d < three ? d : three) * static_cast<Acc>(kLanczosTurn);
  const Acc z = x * x;
  const LanczosSine<Acc> q = lanczos_sine(z);
  const Acc p = q.value * q.value, rise = two * (q.value * q.slope);  // dp / dz
  const Acc slope =
      rise - static_cast<Acc>(4.0 / 3.0) * (p * p + two * (z * (p * rise)));  // dw / dz
  return d < three ? slope * (x * static_cast<Acc>(2.0 * kLanczosTurn)) : static_cast<Acc>(0);
}

}  // namespace visops
