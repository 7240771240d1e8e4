// The logistic function and what losses make of it, with the same bits everywhere. C libraries and
// CUDA differ in the last place of exp and log.
#pragma once

#include "core/numbers/elementary.h"
#include "core/numbers/log_polynomial.h"

namespace visops {

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

template <class Acc>
struct Logistic {
  Acc size, e;  // |x| and exp(-|x|)
  Acc p, q;     // 1 / (1 + exp(-x)) and 1 - p, neither of them rounded to 1 - the other
};

template <class Acc>
VISOPS_HOT_FN Logistic<Acc> logistic_of(Acc x) {
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1);
  const Acc size = size_of(x), e = exp_below_zero(zero - size);
  const Acc high = one / (one + e), low = e * high;
  return {size, e, x < zero ? low : high, x < zero ? high : low};
}

// log(1 + e) for e in [0, 1]: what rounding 1 + e loses of a small e is made good.
template <class Acc>
VISOPS_HOT_FN Acc log_one_plus(Acc e) {
  const Acc one = static_cast<Acc>(1), sum = one + e, kept = sum - one;
  const Acc found = log_above_zero(sum) * (e / (kept != static_cast<Acc>(0) ? kept : one));
  return kept != static_cast<Acc>(0) ? found : e;
}

}  // namespace visops
