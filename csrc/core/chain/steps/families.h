// Each file of steps makes those that it defines; null: it has none of this name.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/chain/plan.h"
#include "core/chain/step.h"

namespace visops {

// What the files of a chain's steps share.

constexpr double kPi = 3.14159265358979323846;

// Those of the C library that Python's math module calls. A compiler that sees both cos(x) and
// sin(x) would call sincos(x) instead, which need not round alike.
using ElementaryFunction = double (*)(double);
static const volatile ElementaryFunction cosine = std::cos, sine = std::sin, exponential = std::exp;

// Reads fields of what `owner` says. Throws std::invalid_argument for one that is missing or has
// another count of numbers, and in finish() for one that it doesn't have.
class FieldReader {
 public:
  FieldReader(std::string owner, const StepFields& fields)
      : owner_(std::move(owner)), fields_(fields) {}

  bool has(const std::string& name) const { return fields_.count(name) > 0; }
  const std::vector<double>& list(const std::string& name) {
    const auto found = fields_.find(name);
    if (found == fields_.end()) refuse("has no '" + name + "'");
    read_.insert(name);
    return found->second;
  }
  const std::vector<double>& list(const std::string& name, size_t count) {
    const std::vector<double>& found = list(name);
    if (found.size() != count) {
      refuse("has " + std::to_string(found.size()) + " numbers as '" + name + "', must have " +
             std::to_string(count));
    }
    return found;
  }
  double number(const std::string& name) { return list(name, 1)[0]; }
  bool flag(const std::string& name) { return number(name) != 0.0; }
  int64_t whole(const std::string& name) { return static_cast<int64_t>(number(name)); }
  template <int kCount>
  void numbers(const std::string& name, double (&out)[kCount]) {
    std::copy_n(list(name, kCount).begin(), kCount, out);
  }
  Canvas size(const std::string& name) {
    const std::vector<double>& found = list(name, 2);
    return {found[0], found[1]};
  }
  void finish() const {
    for (const auto& [name, values] : fields_) {
      if (read_.count(name) == 0) refuse("takes no '" + name + "'");
    }
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw std::invalid_argument("visops.transforms: " + owner_ + " " + why);
  }

 private:
  std::string owner_;
  const StepFields& fields_;
  std::set<std::string> read_;
};

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
