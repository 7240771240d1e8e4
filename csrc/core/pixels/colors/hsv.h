// Gains and shifts in HSV: what fronts and kernels share.
//
// NOTE [ HSV ]
// For uint8 as YOLO has it with OpenCV: hue in 180 steps, saturation and value in 255, each changed
// as YOLO's tables do, which are in float64; where float32 gives the same for all levels, as it
// nearly always does, kernels compute in that; and back. The way there is in OpenCV's fixed point,
// the way back in float32. float32 images take the same formulas without steps. Saturation and
// value may be shifted too, in levels, which are rounded; grey stays grey.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/element.h"

namespace visops {

// A shift of the hue in turns, gains minus 1, and shifts in levels of 255.
struct HsvChange {
  double hue, saturation, value, saturation_shift, value_shift;
};

// A level becomes gain * level + shift, cut off.
template <class Real>
struct LevelChange {
  Real gain, shift;
};

struct HsvParams {
  void* data;   // [3, pixels], red first; in place
  DType dtype;  // uint8 or float32
  int64_t pixels;
  HsvChange change;
  // uint8 images take a shift in [-180, 180] steps, and what levels become.
  double hue_shift;
  LevelChange<double> saturation, value;
  bool in_float;  // whether float32 gives all their levels
};

// The change that an operation's numbers say.
VISOPS_FN HsvChange hsv_change(double amount, const double* more) {
  return {amount, more[0], more[1], more[2], more[3]};
}

HsvParams make_hsv(void* data, DType dtype, int64_t pixels, const HsvChange& change);

extern KernelStub<HsvParams> hsv_stub;

// One pixel of a gain in HSV, or of lightness: the arithmetic that all backends share. NOTE [ HSV ]
//
// Which channel is the largest, and which sixth of the circle a hue is in, are choices between
// values, without jumps, so that compilers vectorize loops over them.

template <class T>
VISOPS_HOT_FN T larger(T a, T b) {
  return a > b ? a : b;
}

template <class T>
VISOPS_HOT_FN T smaller(T a, T b) {
  return a < b ? a : b;
}

template <class T>
VISOPS_HOT_FN T limited(T value, T low, T high) {
  return smaller(larger(value, low), high);
}

struct Rgb {
  float r, g, b;
};

// hue: in sixths of a turn, [0, 6). A channel is at `value` in two sixths of the circle, at its
// least in two others, and goes straight from one to the other between them.
VISOPS_HOT_FN Rgb from_hsv(float hue, float saturation, float value) {
  const auto channel = [&](float way) {
    return value * (1.0f - saturation * limited(way, 0.0f, 1.0f));
  };
  return {channel(smaller(hue - 1.0f, 5.0f - hue)), channel(larger(1.0f - hue, hue - 3.0f)),
          channel(larger(3.0f - hue, hue - 5.0f))};
}

// Levels are cut off as by NumPy's conversion to uint8, but rounded where they are shifted.
template <class Real>
VISOPS_FN LevelChange<Real> level_change(double gain, double shift) {
  return {static_cast<Real>(gain + 1.0), static_cast<Real>(shift == 0.0 ? 0.0 : shift + 0.5)};
}

template <class To, class From>
VISOPS_HOT_FN LevelChange<To> in_real(const LevelChange<From>& change) {
  return {static_cast<To>(change.gain), static_cast<To>(change.shift)};
}

template <class Real>
VISOPS_HOT_FN int32_t changed_level(int32_t level, const LevelChange<Real>& change) {
  const Real changed = static_cast<Real>(level) * change.gain + change.shift;
  return static_cast<int32_t>(limited(changed, Real{0}, Real{255}));
}

// A saturation's level: grey stays grey.
template <class Real>
VISOPS_HOT_FN int32_t changed_saturation(int32_t level, const LevelChange<Real>& change) {
  return level == 0 ? 0 : changed_level(level, change);
}

// A hue in 180 steps, after a shift.
template <class Real>
VISOPS_HOT_FN int32_t turned_hue(int32_t hue, Real shift) {
  const Real moved = static_cast<Real>(hue) + shift;
  const Real below = moved - (moved >= Real{180} ? Real{180} : Real{0});
  return static_cast<int32_t>(below + (below < Real{0} ? Real{180} : Real{0}));
}

// A shift in turns as one in [-180, 180] steps.
VISOPS_FN double hue_shift(double hue) {
  const double steps = hue * 180.0;
  return fabs(steps) > 180.0 ? fmod(steps, 180.0) : steps;
}

// Entry `i` of the tables for uint8.
VISOPS_FN int32_t hue_entry(int i, double hue) { return turned_hue(i, hue_shift(hue)); }
VISOPS_FN int32_t value_entry(int i, double gain, double shift) {
  return changed_level(i, level_change<double>(gain, shift));
}
VISOPS_FN int32_t saturation_entry(int i, double gain, double shift) {
  return changed_saturation(i, level_change<double>(gain, shift));
}
VISOPS_FN int32_t ratio_entry(int i, double full) {
  return i == 0 ? 0 : static_cast<int32_t>(rint(full * 4096.0 / i));
}
VISOPS_FN int32_t saturation_ratio(int i) { return ratio_entry(i, 255.0); }
VISOPS_FN int32_t hue_ratio(int i) { return ratio_entry(i, 30.0); }

// What a pixel of uint8 is in HSV, before ratios: `span` is its saturation times `value`, `sixths`
// its hue times `span`.
struct HsvBytes {
  int32_t value, span, sixths;
};

VISOPS_HOT_FN HsvBytes hsv_of_bytes(int32_t r, int32_t g, int32_t b) {
  const int32_t value = larger(r, larger(g, b)), span = value - smaller(r, smaller(g, b));
  const int32_t of_red = g - b, of_green = b - r + 2 * span, of_blue = r - g + 4 * span;
  return {value, span, value == r ? of_red : value == g ? of_green : of_blue};
}

// A number times a ratio of 2^12, rounded.
VISOPS_HOT_FN int32_t by_ratio(int32_t number, int32_t ratio) {
  return (number * ratio + 2048) >> 12;
}

// The index of a hue's entry, of by_ratio().
VISOPS_HOT_FN int32_t hue_index(int32_t turned) { return turned < 0 ? turned + 180 : turned; }

// The colour of steps, with white at 1.
VISOPS_HOT_FN Rgb from_hsv_steps(int32_t hue, int32_t saturation, int32_t value) {
  return from_hsv(static_cast<float>(hue) * (6.0f / 180.0f),
                  static_cast<float>(saturation) * (1.0f / 255.0f),
                  static_cast<float>(value) * (1.0f / 255.0f));
}

// The levels of entries.
struct RgbLevels {
  int32_t r, g, b;
};

VISOPS_HOT_FN RgbLevels levels_of_hsv(int32_t hue, int32_t saturation, int32_t value) {
  const Rgb out = from_hsv_steps(hue, saturation, value);
  return {round_saturate(out.r * 255.0f, 0.0f, 255.0f),
          round_saturate(out.g * 255.0f, 0.0f, 255.0f),
          round_saturate(out.b * 255.0f, 0.0f, 255.0f)};
}

// What float32 pixels are changed by.
struct HsvGains {
  float shift, saturation, value;  // in sixths of a turn; factors
  float saturation_shift, value_shift;
};

VISOPS_FN HsvGains hsv_gains(const HsvChange& change) {
  return {static_cast<float>(change.hue) * 6.0f, static_cast<float>(change.saturation) + 1.0f,
          static_cast<float>(change.value) + 1.0f,
          static_cast<float>(change.saturation_shift / 255.0),
          static_cast<float>(change.value_shift / 255.0)};
}

VISOPS_HOT_FN Rgb with_hsv(const HsvGains& gains, float r, float g, float b) {
  const float value = larger(r, larger(g, b)), span = value - smaller(r, smaller(g, b));
  const float share = span > 0.0f ? 1.0f / span : 0.0f;
  const float of_red = (g - b) * share, of_green = (b - r) * share + 2.0f;
  const float of_blue = (r - g) * share + 4.0f;
  float hue = (value == r ? of_red : value == g ? of_green : of_blue) + gains.shift;
  hue -= 6.0f * static_cast<float>(static_cast<int32_t>(hue * (1.0f / 6.0f) + 64.0f) - 64);
  hue = hue < 0.0f ? 0.0f : hue >= 6.0f ? hue - 6.0f : hue;
  const bool grey = !(value > 0.0f && span > 0.0f);
  const float saturation = grey ? 0.0f : span / value * gains.saturation + gains.saturation_shift;
  const Rgb out = from_hsv(hue, limited(saturation, 0.0f, 1.0f),
                           limited(value * gains.value + gains.value_shift, 0.0f, 1.0f));
  return {r == r ? out.r : r, g == g ? out.g : g, b == b ? out.b : b};  // NaN stays
}

// Multiplies the lightness of HLS where it is below `dark`, both with `white` as they are; hue and
// saturation stay: a channel is the lightness, and a share of what it is away from black or white.
VISOPS_HOT_FN Rgb with_lightness(float factor, float dark, float white, float r, float g, float b) {
  const float most = larger(r, larger(g, b)), least = smaller(r, smaller(g, b));
  const float lightness = (most + least) * 0.5f, lighter = smaller(lightness * factor, white);
  const float room = smaller(lightness, white - lightness);
  const bool changes = lightness < dark;
  const float share = room > 0.0f ? smaller(lighter, white - lighter) / room : 0.0f;
  const auto changed = [=](float own) {
    const float moved = lighter + (own - lightness) * share;
    return own == own ? limited(changes ? moved : own, 0.0f, white) : own;  // NaN stays
  };
  return {changed(r), changed(g), changed(b)};
}

// Three channels of a pixel, lighter where they are dark; `dark` in their units.
template <class T>
VISOPS_HOT_FN void bleach(T& r, T& g, T& b, float factor, float dark) {
  const Rgb out =
      with_lightness(factor, dark, sizeof(T) == 1 ? 255.0f : 1.0f, static_cast<float>(r),
                     static_cast<float>(g), static_cast<float>(b));
  store_element(&r, out.r);
  store_element(&g, out.g);
  store_element(&b, out.b);
}

}  // namespace visops
