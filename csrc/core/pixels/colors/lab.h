// CIE Lab of 8 bits, there and back: what fronts and kernels share.
//
// NOTE [ Lab ]
// sRGB with D65's white and OpenCV's scales, in float32, where OpenCV has fixed point. The cube
// root and the display's curve come from tables of kLabSteps steps. Tables and pixels are the
// same on all devices.
#pragma once

#include <cstdint>

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/element.h"
#include "core/numbers/elementary.h"

namespace visops {

struct LabParams {
  uint8_t *first, *second, *third;  // red, green, blue and L, a, b: in place
  int64_t pixels;
  bool back;
  const float* linear;   // tables of lab_linear_entry(),
  const float* root;     // lab_root_entry(),
  const float* display;  // lab_display_entry()
};

extern KernelStub<LabParams> lab_stub;

// CIE Lab of 8 bits, of one pixel: the arithmetic that all backends share. NOTE [ Lab ].

constexpr int kLabSteps = 16384;  // of tables of functions on [0, 1]

// base^exponent, base > 0.
VISOPS_FN double lab_power(double base, double exponent) {
  return exp_of(log2_of(base) * exponent * kLn2);
}

// Entries of tables: a byte in linear light, [256]; Lab's root of a share, and a share of linear
// light as the display's level, [kLabSteps + 1].
VISOPS_FN float lab_linear_entry(int i) {
  const double v = i / 255.0;
  return static_cast<float>(v <= 0.04045 ? v / 12.92 : lab_power((v + 0.055) / 1.055, 2.4));
}
VISOPS_FN float lab_root_entry(int i) {
  const double v = static_cast<double>(i) / kLabSteps;
  return static_cast<float>(v > 216.0 / 24389.0 ? lab_power(v, 1.0 / 3.0)
                                                : (24389.0 / 27.0 * v + 16.0) / 116.0);
}
VISOPS_FN float lab_display_entry(int i) {
  const double v = static_cast<double>(i) / kLabSteps;
  return static_cast<float>(255.0 *
                            (v <= 0.0031308 ? 12.92 * v : 1.055 * lab_power(v, 1.0 / 2.4) - 0.055));
}

// Where a table of kLabSteps has a value.
VISOPS_HOT_FN int32_t lab_step(float value) {
  const float positive = value > 0.0f ? value : 0.0f;
  const float share = positive < 1.0f ? positive : 1.0f;
  return static_cast<int32_t>(share * static_cast<float>(kLabSteps) + 0.5f);
}

// XYZ of linear light, with white at 1.
VISOPS_HOT_FN float lab_x(float r, float g, float b) {
  return (0.412453f * r + 0.357580f * g + 0.180423f * b) / 0.950456f;
}
VISOPS_HOT_FN float lab_y(float r, float g, float b) {
  return 0.212671f * r + 0.715160f * g + 0.072169f * b;
}
VISOPS_HOT_FN float lab_z(float r, float g, float b) {
  return (0.019334f * r + 0.119193f * g + 0.950227f * b) / 1.088754f;
}

// L, a, b of the roots of XYZ, as bytes.
VISOPS_HOT_FN void store_lab(float x, float y, float z, uint8_t* l, uint8_t* a, uint8_t* b) {
  store_element(l, (116.0f * y - 16.0f) * 2.55f);
  store_element(a, 500.0f * (x - y) + 128.0f);
  store_element(b, 200.0f * (y - z) + 128.0f);
}

struct LinearColor {
  float r, g, b;
};

VISOPS_HOT_FN float lab_cubed(float f) {
  const float low = (116.0f * f - 16.0f) * (27.0f / 24389.0f);
  return f > 6.0f / 29.0f ? f * f * f : low;
}

VISOPS_HOT_FN LinearColor linear_of_lab(uint8_t l, uint8_t a, uint8_t b) {
  const float fy = (static_cast<float>(l) * (1.0f / 2.55f) + 16.0f) * (1.0f / 116.0f);
  const float fx = fy + (static_cast<float>(a) - 128.0f) * (1.0f / 500.0f);
  const float fz = fy - (static_cast<float>(b) - 128.0f) * (1.0f / 200.0f);
  const float x = lab_cubed(fx) * 0.950456f, y = lab_cubed(fy), z = lab_cubed(fz) * 1.088754f;
  return {3.240479f * x - 1.53715f * y - 0.498535f * z,
          -0.969256f * x + 1.875991f * y + 0.041556f * z,
          0.055648f * x - 0.204043f * y + 1.057311f * z};
}

}  // namespace visops
