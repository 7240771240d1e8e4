// Steps that shift by whole pixels, mirror or erase: crops, padding, flips, rectangles.
#include <algorithm>
#include <cmath>

#include "core/chain/steps/families.h"
#include "core/check.h"

namespace visops {

Sides RectangleRange::draw(const Draws& uniforms, double first_limit, double second_limit,
                           bool strict) const {
  const double area = first_limit * second_limit;
  const double span = scale[1] - scale[0], log_span = log_ratio[1] - log_ratio[0];
  Sides sides = {0.0, 0.0, false};
  for (int64_t attempt = 0; attempt < kAttempts && !sides.fits; ++attempt) {
    const double wanted = area * (scale[0] + uniforms[attempt] * span);
    const double aspect = exponential(log_ratio[0] + uniforms[kAttempts + attempt] * log_span);
    sides.first = std::nearbyint(std::sqrt(wanted * aspect));
    sides.second = std::nearbyint(std::sqrt(wanted / aspect));
    sides.fits = strict ? sides.first < first_limit && sides.second < second_limit
                        : sides.first <= first_limit && sides.second <= second_limit &&
                              sides.first > 0.0 && sides.second > 0.0;
  }
  return sides;
}

namespace {

class CenterCrop : public ChainStep {
 public:
  explicit CenterCrop(FieldReader& fields) {
    size_ = fields.size("size");
    param("top");
    param("left");
  }

  void draw(const Draws&, const Sample& sample, double* params) const override {
    params[0] = offset(sample.canvas.height, size_.height);
    params[1] = offset(sample.canvas.width, size_.width);
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    plan.shift(-params[1], -params[0], size_);
  }

 private:
  // As in torchvision: round a crop's position half to even, and padding down.
  static double offset(double length, double wanted) {
    const double free = (length - wanted) * 0.5;
    return free < 0.0 ? -std::floor(-free) : std::nearbyint(free);
  }

  Canvas size_;
};

class RandomCrop : public ChainStep {
 public:
  explicit RandomCrop(FieldReader& fields) {
    size_ = fields.size("size");
    fields.numbers("padding", padding_);
    padded_sides_ = fields.number("padded_sides");
    cuts_ = fields.flag("cuts");
    uniforms(2);
    param("top");
    param("left");
  }

  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    const double lengths[2] = {sample.canvas.height, sample.canvas.width};
    const double wanted[2] = {size_.height, size_.width};
    for (int axis = 0; axis < 2; ++axis) {
      const double before = padding_[1 - axis], after = padding_[3 - axis];
      double padded = lengths[axis] + (before + after), first = -before;
      const double missing = std::max(wanted[axis] - padded, 0.0);
      padded += padded_sides_ * missing;
      if (padded_sides_ == 2.0) first -= missing;
      if (padded < wanted[axis]) refuse(sample);
      params[axis] = first + std::floor(uniforms[axis] * (padded - wanted[axis] + 1.0));
    }
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    plan.shift(-params[1], -params[0], size_, cuts_);
  }

 private:
  [[noreturn]] void refuse(const Sample& sample) const {
    std::ostringstream padded;
    if (std::any_of(padding_, padding_ + 4, [](double side) { return side != 0.0; })) {
      const char* separator = ", padded by (";
      for (double side : padding_) {
        padded << separator << static_cast<int64_t>(side);
        separator = ", ";
      }
      padded << ")";
    }
    fail("transforms.RandomCrop", "size is (", static_cast<int64_t>(size_.height), ", ",
         static_cast<int64_t>(size_.width), "), ", sample.describe(), padded.str(),
         "; must not be larger, unless pad_if_needed");
  }

  Canvas size_;
  double padding_[4];    // left, top, right, bottom
  double padded_sides_;  // where a crop doesn't fit: none, the right and the bottom, or both
  bool cuts_;            // whether what is beside the crop must not show again
};

class Pad : public ChainStep {
 public:
  explicit Pad(FieldReader& fields) { fields.numbers("padding", padding_); }

  void extend(const double*, PlanBuilder& plan) const override {
    const Canvas& old = plan.canvas();
    plan.shift(padding_[0], padding_[1],
               {old.height + (padding_[1] + padding_[3]), old.width + (padding_[0] + padding_[2])},
               false);
  }

 private:
  double padding_[4];  // left, top, right, bottom
};

// How a window is placed, and by which numbers; classes/windows.py has the same order.
enum class Placing {
  kFixed,    // top, left, height, width
  kPadded,   // of rows, then columns: least, or else what divides them; share of what is before
  kBorders,  // greatest shares that are cut off: top, bottom, left, right
  kSized,    // least and greatest height; width / height
  kAdded,    // ranges at the top, bottom, left, right; whether in pixels; whether drawn once
};
constexpr const char* kWindows[] = {"transforms.Crop", "transforms.PadIfNeeded",
                                    "transforms.RandomCropFromBorders",
                                    "transforms.RandomSizedCrop", "transforms.CropAndPad"};
constexpr double kMiddle = -1.0, kAnywhere = -2.0;  // for a share

// Shows a rectangle of the image with probability `p`; it may reach beyond the image if it `pads`.
class Window : public ChainStep {
 public:
  explicit Window(FieldReader& fields) : numbers_(fields.list("numbers")) {
    placing_ = static_cast<Placing>(fields.whole("placing"));
    p_ = fields.number("p");
    pads_ = fields.flag("pads");
    resizes_ = fields.flag("resizes");
    if (fields.has("size")) size_ = fields.size("size");
    uniforms(5);
    param("apply", ParamSpec::kFlag);
    for (const char* name : {"top", "left", "height", "width"}) param(name);
  }

  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    double *const first = params + 1, *const size = params + 3;
    const bool applies = uniforms[0] < p_;
    bool fits = true;
    for (int axis = 0; axis < 2; ++axis) {
      const double side = axis == 0 ? sample.canvas.height : sample.canvas.width;
      first[axis] = 0.0;
      size[axis] = side;
      if (applies) place(axis, side, uniforms.from(1), first[axis], size[axis]);
      const bool inside = first[axis] >= 0.0 && first[axis] + size[axis] <= side;
      fits &= size[axis] >= 1.0 && (pads_ || inside);
    }
    const auto whole = [](double number) { return static_cast<int64_t>(number); };
    require(fits, kWindows[static_cast<int>(placing_)], sample.describe(), ", its part is rows ",
            whole(first[0]), " to ", whole(first[0] + size[0]), " and columns ", whole(first[1]),
            " to ", whole(first[1] + size[1]), pads_ ? "; must have a pixel" : "; must lie in it");
    params[0] = applies ? 1.0 : 0.0;
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    const bool applies = params[0] != 0.0;
    const Canvas old = plan.canvas(), part = applies ? Canvas{params[3], params[4]} : old;
    plan.shift(applies ? -params[2] : 0.0, applies ? -params[1] : 0.0, part);
    const Canvas& to = applies && size_.height > 0.0 ? size_ : old;
    if (resizes_) plan.scale(to.width / part.width, to.height / part.height, 0.0, 0.0, to);
  }

 private:
  static double whole_between(double uniform, double low, double high) {
    return low + std::floor(uniform * (high - low + 1.0));
  }

  // Places it along one axis, `side` long.
  void place(int axis, double side, const Draws& u, double& first, double& size) const {
    const double* const n = numbers_.data();
    switch (placing_) {
      case Placing::kFixed: first = n[axis], size = n[2 + axis]; return;
      case Placing::kPadded: {
        const double *const own = n + 3 * axis, share = own[2];
        size = own[1] > 0.0 ? std::ceil(side / own[1]) * own[1] : std::max(side, own[0]);
        const double missing = size - side;
        first = -(share == kMiddle     ? std::floor(missing / 2.0)
                  : share == kAnywhere ? whole_between(u[axis], 0.0, missing)
                                       : missing * share);
        return;
      }
      case Placing::kBorders: {
        const double before = n[2 * axis], after = n[2 * axis + 1];
        first = std::min(whole_between(u[2 * axis], 0.0, std::floor(before * side)), side - 1.0);
        const double least = std::max(first + 1.0, std::floor((1.0 - after) * side));
        size = whole_between(u[2 * axis + 1], least, side) - first;
        return;
      }
      case Placing::kSized: {
        const double rows = whole_between(u[0], n[0], n[1]);
        size = std::min(axis == 0 ? rows : std::max(std::floor(rows * n[2]), 1.0), side);
        first = whole_between(u[1 + axis], 0.0, side - size);
        return;
      }
      case Placing::kAdded:
        first = -added(2 * axis, side, u);
        size = side - first + added(2 * axis + 1, side, u);
    }
  }
  double added(int border, double side, const Draws& u) const {
    const double low = numbers_[2 * border], high = numbers_[2 * border + 1];
    const double uniform = u[numbers_[9] != 0.0 ? 0 : border];
    if (numbers_[8] != 0.0) return whole_between(uniform, low, high);
    return std::trunc((low + uniform * (high - low)) * side);
  }

  const std::vector<double> numbers_;
  Placing placing_;
  double p_;
  bool pads_, resizes_;
  Canvas size_ = {};  // of the result, if it isn't the image's
};

template <bool kAcross>
class Flip : public ChainStep {
 public:
  explicit Flip(FieldReader& fields) : p_(fields.number("p")) {
    uniforms(1);
    param("apply", ParamSpec::kFlag);
  }

  void draw(const Draws& uniforms, const Sample&, double* params) const override {
    params[0] = uniforms[0] < p_ ? 1.0 : 0.0;
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    const Canvas canvas = plan.canvas();
    const double x = kAcross ? params[0] : 0.0, y = kAcross ? 0.0 : params[0];
    plan.scale(1.0 - 2.0 * x, 1.0 - 2.0 * y, x * canvas.width, y * canvas.height, canvas, false);
  }

 private:
  double p_;
};

class ZoomOut : public ChainStep {
 public:
  explicit ZoomOut(FieldReader& fields) {
    p_ = fields.number("p");
    fields.numbers("side_range", range_);
    uniforms(4);
    for (const char* name : {"left", "top", "height", "width"}) param(name);
  }

  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    const Canvas& old = sample.canvas;
    const double factor = uniforms[0] < p_ ? uniforms.between(1, range_[0], range_[1]) : 1.0;
    params[2] = std::floor(old.height * factor);
    params[3] = std::floor(old.width * factor);
    params[0] = std::floor((params[3] - old.width) * uniforms[2]);
    params[1] = std::floor((params[2] - old.height) * uniforms[3]);
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    plan.shift(params[0], params[1], {params[2], params[3]}, false);
  }

 private:
  double p_, range_[2];
};

class Erasing : public ChainStep {
 public:
  explicit Erasing(FieldReader& fields) {
    p_ = fields.number("p");
    range_.read(fields);
    noise_ = fields.flag("noise");
    uniforms(2 * kAttempts + 4);
    param("apply", ParamSpec::kFlag);
    for (const char* name : {"top", "left", "height", "width"}) param(name);
    if (noise_) param("noise");
  }

  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    const Canvas& canvas = sample.canvas;
    const Sides sides = range_.draw(uniforms.from(1), canvas.height, canvas.width, true);
    params[0] = uniforms[0] < p_ && sides.fits ? 1.0 : 0.0;
    params[1] = std::floor(uniforms[2 * kAttempts + 1] * (canvas.height - sides.first + 1.0));
    params[2] = std::floor(uniforms[2 * kAttempts + 2] * (canvas.width - sides.second + 1.0));
    params[3] = sides.first;
    params[4] = sides.second;
    if (noise_) params[5] = uniforms[2 * kAttempts + 3];
  }
  // Random values never reach a plan.
  void extend(const double* p, PlanBuilder& plan) const override {
    if (p[0] == 0.0) return plan.erase(0.0, 0.0, 0.0, 0.0);
    plan.erase(p[2], p[1], p[2] + p[4], p[1] + p[3]);
  }

 private:
  double p_;
  RectangleRange range_;
  bool noise_;  // whether values are random
};

constexpr StepKind kKinds[] = {
    {"CenterCrop", make_of<CenterCrop>},
    {"RandomCrop", make_of<RandomCrop>},
    {"Pad", make_of<Pad>},
    {"Window", make_of<Window>},
    {"RandomHorizontalFlip", make_of<Flip<true>>},
    {"RandomVerticalFlip", make_of<Flip<false>>},
    {"RandomZoomOut", make_of<ZoomOut>},
    {"RandomErasing", make_of<Erasing>},
};

}  // namespace

StepPointer make_crop_step(const std::string& name, FieldReader& fields) {
  return find_step(kKinds, name, fields);
}

}  // namespace visops
