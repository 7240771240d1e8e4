// exp, log2, sine, cosine and arctangent in float64, with the same bits everywhere. C libraries and
// CUDA differ in the last place, which would show in results. Errors are a few units in the last
// place.
//
// Method: arguments are reduced by multiples of a constant held in parts. The first part has so few
// bits that its products with small integers are exact (Cody and Waite, "Software Manual for the
// Elementary Functions", 1980; the parts of pi / 2 are fdlibm's). Then comes a Taylor series.
#pragma once

#include <cmath>

#include "core/numbers/element.h"
#include "core/platform.h"

namespace visops {

constexpr double kLn2 = 0.6931471805599453;

// Rounds half to even; for |x| below 2^51.
VISOPS_FN double nearest_integer(double x) {
  const double magic = 6755399441055744.0;  // 1.5 * 2^52
  return (x + magic) - magic;
}

// c[0] + c[1] x + c[2] x^2 + ...
template <int N>
VISOPS_FN double polynomial(const double (&c)[N], double x) {
  double sum = c[N - 1];
  for (int i = N - 2; i >= 0; --i) sum = sum * x + c[i];
  return sum;
}

// exp of x in [-746, 709.782712893384]; below that, the result is 0. Without jumps and conversions
// to integers, so that compilers can vectorize it.
VISOPS_FN double exp_in_range(double x) {
  const double magic = 6755399441055744.0;                // 1.5 * 2^52: nearest_integer() in parts
  const double shifted = x * 1.4426950408889634 + magic;  // x / ln 2
  const double k = shifted - magic;
  const double r = (x - k * 0.6931471804855391) - k * 7.440617110012397e-11;
  const double inverse_factorials[] = {1.0,
                                       1.0,
                                       0.5,
                                       0.16666666666666666,
                                       0.041666666666666664,
                                       0.008333333333333333,
                                       0.001388888888888889,
                                       0.0001984126984126984,
                                       2.48015873015873e-05,
                                       2.7557319223985893e-06,
                                       2.755731922398589e-07,
                                       2.505210838544172e-08,
                                       2.08767569878681e-09,
                                       1.6059043836821613e-10};
  // In two steps: 2^k may not be normal.
  const uint64_t whole = bit_cast<uint64_t>(shifted) - bit_cast<uint64_t>(magic);  // k
  const uint64_t half = ((whole + 2048) >> 1) - 1024;
  return polynomial(inverse_factorials, r) * bit_cast<double>((half + 1023) << 52) *
         bit_cast<double>((whole - half + 1023) << 52);
}

VISOPS_FN double exp_of(double x) {
  if (!(x <= 709.782712893384)) return x * 1.7976931348623157e+308;  // infinity, NaN
  return x < -746.0 ? 0.0 : exp_in_range(x);
}

// log2(m 2^exponent), m near 1.
VISOPS_HOT_FN double log2_of_parts(double m, double exponent) {
  // ln m = 2 artanh z
  const double z = (m - 1.0) / (m + 1.0);
  const double series[] = {1.0,
                           0.3333333333333333,
                           0.2,
                           0.14285714285714285,
                           0.1111111111111111,
                           0.09090909090909091,
                           0.07692307692307693,
                           0.06666666666666667,
                           0.058823529411764705,
                           0.05263157894736842,
                           0.047619047619047616};
  return exponent + z * polynomial(series, z * z) * 2.8853900817779268;
}

// x is a positive normal number; exact for powers of two.
VISOPS_FN double log2_of(double x) {
  const auto bits = bit_cast<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m = bit_cast<double>((bits & 0xfffffffffffff) | 0x3ff0000000000000);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  return log2_of_parts(m, static_cast<double>(exponent));
}

struct SinCos {
  double sine, cosine;
};

// The angle is in radians; NaN if it is not finite.
VISOPS_FN SinCos sin_cos(double angle) {
  // Beyond 1e5, k would have too many bits. fmod is exact, but its divisor is not exactly 2 pi.
  const double reduced = fabs(angle) < 1e5 ? angle : fmod(angle, 6.283185307179586);
  if (!(fabs(reduced) < 1e5)) return {reduced - reduced, reduced - reduced};
  const double k = nearest_integer(reduced * 0.6366197723675814);  // 2 / pi
  const double r =
      ((reduced - k * 1.5707963267341256) - k * 6.077100506303966e-11) - k * 2.0222662487959506e-21;
  const double z = r * r;
  const double sine_series[] = {1.0,
                                -0.16666666666666666,
                                0.008333333333333333,
                                -0.0001984126984126984,
                                2.7557319223985893e-06,
                                -2.505210838544172e-08,
                                1.6059043836821613e-10,
                                -7.647163731819816e-13,
                                2.8114572543455206e-15};
  const double cosine_series[] = {1.0,
                                  -0.5,
                                  0.041666666666666664,
                                  -0.001388888888888889,
                                  2.48015873015873e-05,
                                  -2.755731922398589e-07,
                                  2.08767569878681e-09,
                                  -1.1470745597729725e-11,
                                  4.779477332387385e-14,
                                  -1.5619206968586225e-16};
  const double sine = r * polynomial(sine_series, z), cosine = polynomial(cosine_series, z);
  switch (static_cast<int64_t>(k) & 3) {
    case 0: return {sine, cosine};
    case 1: return {cosine, -sine};
    case 2: return {-sine, -cosine};
    default: return {-cosine, sine};
  }
}

VISOPS_FN double arctan_of(double x) {
  const double size = fabs(x);
  const bool steep = size > 1.0;
  const double t = steep ? 1.0 / size : size;
  // arctan t = arctan c + arctan((t - c) / (1 + c t)), with c the nearest multiple of 1/4.
  const double fourth = t == t ? nearest_integer(t * 4.0) : 0.0;
  const double c = fourth * 0.25;
  const double of_fourths[] = {0.0, 0.24497866312686414, 0.4636476090008061, 0.6435011087932844,
                               0.7853981633974483};
  const double z = (t - c) / (1.0 + c * t);
  const double series[] = {1.0,
                           -0.3333333333333333,
                           0.2,
                           -0.14285714285714285,
                           0.1111111111111111,
                           -0.09090909090909091,
                           0.07692307692307693,
                           -0.06666666666666667,
                           0.058823529411764705};
  const double shallow = of_fourths[static_cast<int>(fourth)] + z * polynomial(series, z * z);
  const double result = steep ? 1.5707963267948966 - shallow : shallow;
  return x < 0.0 ? -result : result;
}

// The polynomial of Cephes' logf, https://www.netlib.org/cephes.

// (ln(1 + r) - r + r^2 / 2) / r^3, of 1 + r in [sqrt(1/2), sqrt(2)).
VISOPS_HOT_FN float log_polynomial(float r) {
  float sum = 7.0376836292e-2f;
  sum = sum * r - 1.1514610310e-1f;
  sum = sum * r + 1.1676998740e-1f;
  sum = sum * r - 1.2420140846e-1f;
  sum = sum * r + 1.4249322787e-1f;
  sum = sum * r - 1.6668057665e-1f;
  sum = sum * r + 2.0000714765e-1f;
  sum = sum * r - 2.4999993993e-1f;
  return sum * r + 3.3333331174e-1f;
}

// The logistic function and what losses make of it, with the same bits everywhere. C libraries and
// CUDA differ in the last place of exp and log.

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
