// Lanczos' window of three lobes, sinc(d) sinc(d / 3), as Pillow has it.
//
// NOTE [ Lanczos ]
// With s = sin(pi d / 3), sin(pi d) is s (3 - 4 s^2): one sine serves both factors. It is a
// polynomial, so that every processor finds the same bits and loops are vectorized: between 0 and
// 3/2 it rises, and beyond it is mirrored. Errors are a few units in the last place of 1.
#pragma once

#include "core/platform.h"

namespace visops {

// sin(pi v), v in [0, 1/2]: its Taylor series, as long as the type's precision takes.
template <class Acc>
VISOPS_HOT_FN Acc sine_of_half_turns(Acc v) {
  const Acc x = v * static_cast<Acc>(3.14159265358979323846);
  const Acc z = x * x;
  Acc sum = static_cast<Acc>(0);
  if constexpr (sizeof(Acc) == 8) {
    sum = (sum - static_cast<Acc>(8.22063524662433e-18)) * z;
    sum = (sum + static_cast<Acc>(2.8114572543455206e-15)) * z;
    sum = (sum - static_cast<Acc>(7.647163731819816e-13)) * z;
    sum = (sum + static_cast<Acc>(1.6059043836821613e-10)) * z;
  }
  sum = (sum - static_cast<Acc>(2.505210838544172e-08)) * z;
  sum = (sum + static_cast<Acc>(2.7557319223985893e-06)) * z;
  sum = (sum - static_cast<Acc>(0.0001984126984126984)) * z;
  sum = (sum + static_cast<Acc>(0.008333333333333333)) * z;
  sum = (sum - static_cast<Acc>(0.16666666666666666)) * z;
  return x + x * sum;
}

// sin(pi d / 3) and cos(pi d / 3), d in [0, 3).
template <class Acc>
VISOPS_HOT_FN Acc lanczos_sine(Acc d) {
  const Acc far = static_cast<Acc>(3) - d;
  return sine_of_half_turns((d < far ? d : far) * static_cast<Acc>(1.0 / 3.0));
}
template <class Acc>
VISOPS_HOT_FN Acc lanczos_cosine(Acc d) {
  const Acc before = static_cast<Acc>(1.5) - d;
  const Acc size = sine_of_half_turns((before < static_cast<Acc>(0) ? -before : before) *
                                      static_cast<Acc>(1.0 / 3.0));
  return before < static_cast<Acc>(0) ? -size : size;
}

constexpr double kThreeByPiSquared = 0.30396355092701331433;

// d >= 0.
template <class Acc>
VISOPS_HOT_FN Acc lanczos(Acc d) {
  const Acc three = static_cast<Acc>(3), zero = static_cast<Acc>(0);
  const Acc tiny = static_cast<Acc>(sizeof(Acc) == 8 ? 1e-8 : 1e-4);
  const Acc at = d > tiny ? (d < three ? d : three) : tiny;
  const Acc s = lanczos_sine(at), q = s / at;
  const Acc w = (q * q) * (three - static_cast<Acc>(4) * (s * s));
  return d < three ? w * static_cast<Acc>(kThreeByPiSquared) : zero;
}

// d lanczos / dd, d >= 0.
template <class Acc>
VISOPS_HOT_FN Acc lanczos_derivative(Acc d) {
  const Acc three = static_cast<Acc>(3), zero = static_cast<Acc>(0);
  // Near 0, terms of 1 / d cancel: there it is the derivative of the Taylor series.
  const Acc z = d * d;
  const Acc near = ((static_cast<Acc>(-2.13517) * z + static_cast<Acc>(4.4896438)) * z -
                    static_cast<Acc>(3.6554090)) *
                   d;
  const Acc least = static_cast<Acc>(0.1);
  const Acc at = d > least ? (d < three ? d : three) : least;
  const Acc s = lanczos_sine(at), c = lanczos_cosine(at), square = s * s;
  const Acc rise =
      static_cast<Acc>(2.09439510239319549231) * (s * c) * (three - static_cast<Acc>(8) * square);
  const Acc fall = static_cast<Acc>(2) * square * (three - static_cast<Acc>(4) * square) / at;
  const Acc slope = static_cast<Acc>(kThreeByPiSquared) * (rise - fall) / (at * at);
  return d < least ? near : (d < three ? slope : zero);
}

}  // namespace visops
