// Steps that resize the image, or a random part of it.
#include <algorithm>
#include <cmath>

#include "core/chain/steps/families.h"
#include "core/check.h"

namespace visops {
namespace {

using Numbers = std::vector<double>;

class ResizedCrop : public ChainStep {
 public:
  explicit ResizedCrop(FieldReader& fields) {
    size_ = fields.size("size");
    range_.read(fields);
    fields.numbers("ratio", ratio_);
    uniforms(2 * kAttempts + 2);
    for (const char* name : {"top", "left", "height", "width"}) param(name);
  }

  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    const Canvas& canvas = sample.canvas;
    Sides sides = range_.draw(uniforms, canvas.width, canvas.height, false);
    if (!sides.fits) {
      sides.first = std::min(canvas.width, std::nearbyint(canvas.height * ratio_[1]));
      sides.second = std::min(canvas.height, std::nearbyint(canvas.width / ratio_[0]));
    }
    const double rows = canvas.height - sides.second, columns = canvas.width - sides.first;
    params[0] = std::floor(rows * 0.5);
    params[1] = std::floor(columns * 0.5);
    if (sides.fits) {
      params[0] = std::floor(uniforms[2 * kAttempts] * (rows + 1.0));
      params[1] = std::floor(uniforms[2 * kAttempts + 1] * (columns + 1.0));
    }
    params[2] = sides.second;
    params[3] = sides.first;
  }
  void extend(const double* p, PlanBuilder& plan) const override {
    const double x_scale = size_.width / p[3], y_scale = size_.height / p[2];
    plan.scale(x_scale, y_scale, p[1] * -x_scale, p[0] * -y_scale, size_);
  }

 private:
  Canvas size_;
  RectangleRange range_;
  double ratio_[2];
};

// What resizes the whole image to a drawn height and width.
class ResizeStep : public ChainStep {
 public:
  ResizeStep() {
    param("height");
    param("width");
  }

  void extend(const double* params, PlanBuilder& plan) const override {
    const Canvas& old = plan.canvas();
    plan.scale(params[1] / old.width, params[0] / old.height, 0.0, 0.0, {params[0], params[1]});
  }

 protected:
  static void put_sides(const Canvas& canvas, double longer, double shorter, double* params) {
    const bool upright = canvas.width <= canvas.height;
    params[0] = upright ? longer : shorter;
    params[1] = upright ? shorter : longer;
  }
  // Rounded down, as in torchvision; a row and a column are always left.
  static void put_scaled(const Canvas& canvas, double factor, double* params) {
    params[0] = std::max(std::floor(canvas.height * factor), 1.0);
    params[1] = std::max(std::floor(canvas.width * factor), 1.0);
  }
};

class Resize : public ResizeStep {
 public:
  explicit Resize(FieldReader& fields) : size_(fields.size("size")) {}

  void draw(const Draws&, const Sample&, double* params) const override {
    params[0] = size_.height;
    params[1] = size_.width;
  }

 private:
  Canvas size_;
};

// At least one of `size` and `max_size`
class ResizeSide : public ResizeStep {
 public:
  explicit ResizeSide(FieldReader& fields)
      : size_(fields.has("size") ? fields.number("size") : -1.0),
        limit_(fields.has("max_size") ? fields.number("max_size") : -1.0) {}

  void draw(const Draws&, const Sample& sample, double* params) const override {
    const Canvas& canvas = sample.canvas;
    const double shorter = std::min(canvas.height, canvas.width);
    const double longer = std::max(canvas.height, canvas.width);
    double new_short = size_, new_long = limit_;
    if (size_ < 0.0) {
      new_short = std::floor(new_long * shorter / longer);
    } else {
      new_long = std::floor(new_short * longer / shorter);
      if (limit_ > 0.0 && new_long > limit_) {
        new_short = std::floor(limit_ * new_short / new_long);
        new_long = limit_;
      }
    }
    if (!(new_short > 0.0)) {
      fail("transforms.Resize", "max_size is ", static_cast<int64_t>(limit_), ", ",
           sample.describe(), "; must leave a row and a column");
    }
    put_sides(canvas, new_long, new_short, params);
  }

 private:
  double size_, limit_;
};

// The target's width comes first; it may turn with the image.
class ScaleJitter : public ResizeStep {
 public:
  explicit ScaleJitter(FieldReader& fields) {
    fields.numbers("target_size", target_);
    fields.numbers("scale", scale_);
    turns_ = fields.flag("turn");
    uniforms(1);
  }

  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    const Canvas& canvas = sample.canvas;
    const double scale = uniforms.between(0, scale_[0], scale_[1]);
    double width = target_[0], height = target_[1];
    if (turns_ && (height > width) != (canvas.height > canvas.width)) std::swap(height, width);
    const double fit = std::min(height / canvas.height, width / canvas.width);
    // 80 columns by 0.5 * 0.7 are 28, though the product is 27.999999999999996.
    put_scaled(canvas, fit * scale * (1.0 + 1e-9), params);
  }

 private:
  double target_[2], scale_[2];
  bool turns_;
};

class ShortestSize : public ResizeStep {
 public:
  explicit ShortestSize(FieldReader& fields)
      : limit_(fields.has("max_size") ? fields.number("max_size") : -1.0),
        sizes_(fields.list("min_size")) {
    if (sizes_.empty()) fields.refuse("needs one 'min_size' or more");
    uniforms(1);
  }

  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    const Canvas& canvas = sample.canvas;
    const double size =
        sizes_[static_cast<size_t>(uniforms[0] * static_cast<double>(sizes_.size()))];
    double factor = size / std::min(canvas.height, canvas.width);
    if (limit_ > 0.0) factor = std::min(factor, limit_ / std::max(canvas.height, canvas.width));
    put_scaled(canvas, factor, params);
  }

 private:
  double limit_;
  Numbers sizes_;
};

class RandomResize : public ResizeStep {
 public:
  explicit RandomResize(FieldReader& fields)
      : low_(fields.number("min_size")), high_(fields.number("max_size")) {
    uniforms(1);
  }

  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    const Canvas& canvas = sample.canvas;
    const double shorter = low_ + std::floor(uniforms[0] * (high_ - low_));
    const double longer = std::floor(shorter * std::max(canvas.height, canvas.width) /
                                     std::min(canvas.height, canvas.width));
    put_sides(canvas, longer, shorter, params);
  }

 private:
  double low_, high_;
};

class Letterbox : public ChainStep {
 public:
  explicit Letterbox(FieldReader& fields) {
    size_ = fields.size("size");
    share_ = fields.flag("center") ? 0.5 : 0.0;
    scaleup_ = fields.flag("scaleup");
    for (const char* name : {"height", "width", "top", "left"}) param(name);
  }

  void draw(const Draws&, const Sample& sample, double* params) const override {
    const Canvas& old = sample.canvas;
    double factor = std::min(size_.height / old.height, size_.width / old.width);
    if (!scaleup_) factor = std::min(factor, 1.0);
    params[0] = std::max(std::nearbyint(old.height * factor), 1.0);
    params[1] = std::max(std::nearbyint(old.width * factor), 1.0);
    params[2] = std::floor((size_.height - params[0]) * share_);
    params[3] = std::floor((size_.width - params[1]) * share_);
  }
  void extend(const double* p, PlanBuilder& plan) const override {
    const Canvas& old = plan.canvas();
    plan.scale(p[1] / old.width, p[0] / old.height, p[3], p[2], size_, false);
  }

 private:
  Canvas size_;
  double share_;
  bool scaleup_;
};

constexpr StepKind kKinds[] = {
    {"RandomResizedCrop", make_of<ResizedCrop>},
    {"Resize", make_of<Resize>},
    {"ResizeSide", make_of<ResizeSide>},
    {"ScaleJitter", make_of<ScaleJitter>},
    {"RandomShortestSize", make_of<ShortestSize>},
    {"RandomResize", make_of<RandomResize>},
    {"Letterbox", make_of<Letterbox>},
};

}  // namespace

StepPointer make_resize_step(const std::string& name, FieldReader& fields) {
  return find_step(kKinds, name, fields);
}

}  // namespace visops
