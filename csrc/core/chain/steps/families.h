// Each file of steps makes those that it defines; null: it has none of this name.
#pragma once

#include <string>
#include <vector>

#include "core/chain/plan.h"
#include "core/chain/step.h"
#include "core/chain/steps/numbers.h"

namespace visops {

StepPointer make_crop_step(const std::string& name, FieldReader& fields);
StepPointer make_resize_step(const std::string& name, FieldReader& fields);
StepPointer make_warp_step(const std::string& name, FieldReader& fields);
StepPointer make_color_step(const std::string& name, FieldReader& fields);
StepPointer make_pixel_step(const std::string& name, FieldReader& fields);
StepPointer make_policy_step(const std::string& name, FieldReader& fields);

// What a file of steps lists.
struct StepKind {
  const char* name;
  StepPointer (*make)(FieldReader& fields);
};

template <class Step>
StepPointer make_of(FieldReader& fields) {
  return std::make_shared<const Step>(fields);
}

// The step of a list that has this name, or null.
template <size_t kCount>
StepPointer find_step(const StepKind (&kinds)[kCount], const std::string& name,
                      FieldReader& fields) {
  for (const StepKind& kind : kinds) {
    if (name == kind.name) return kind.make(fields);
  }
  return nullptr;
}

// Random rectangles of a range of areas and aspect ratios, as torchvision's transforms draw them.
constexpr int64_t kAttempts = 10;

struct Sides {
  double first, second;
  bool fits;
};

struct RectangleRange {
  double scale[2];      // of the area, as a fraction of the canvas's
  double log_ratio[2];  // of log(first side / second side)

  void read(FieldReader& fields) {
    fields.numbers("scale", scale);
    fields.numbers("log_ratio", log_ratio);
  }
  // Draws area and log ratio until the rectangle fits, at most ten times, by 20 uniform numbers.
  // `strict`: which of torchvision's two transforms to follow. If strict, the sides must be smaller
  // than the limits; otherwise they may equal them. Sides are meaningless where no attempt fits.
  Sides draw(const Draws& uniforms, double first_limit, double second_limit, bool strict) const;
};

// Brightness and contrast (`scale`), saturation and hue, of images of one channel or three.
ColorMatrix jitter_matrix(double scale, const double* saturation, const double* hue,
                          int64_t channels);

struct Rotation {
  double c, s;  // cosine and sine
};

// Exact at multiples of 90 degrees.
Rotation rotation_of(double degrees);

struct AffineMap {
  double m[6];
};

// The affine map with linear part a, b, c, d that fixes (x, y) and then shifts.
AffineMap about(double a, double b, double c, double d, double x, double y, double x_shift = 0.0,
                double y_shift = 0.0);

}  // namespace visops
