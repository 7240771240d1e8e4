// Steps of one pixel operation, and of none.
#include <algorithm>
#include <cmath>

#include "core/chain/families.h"
#include "core/chain/numbers.h"
#include "core/check.h"

namespace visops {
namespace {

using Numbers = std::vector<double>;

// kind, p, amount low, high
class RandomOperation : public ChainStep {
 public:
  explicit RandomOperation(const Numbers& numbers) {
    Reader n(numbers);
    kind_ = static_cast<PixelKind>(n.number());
    p_ = n.number();
    n.numbers(amount_);
    draws_amount_ = amount_[0] != amount_[1];
    uniforms(draws_amount_ ? 2 : 1);
    param("apply", ParamSpec::kFlag);
    if (draws_amount_) param("amount");
  }

  void draw(const Draws& uniforms, const Sample&, double* params) const override {
    params[0] = uniforms[0] < p_ ? 1.0 : 0.0;
    if (draws_amount_) params[1] = uniforms.between(1, amount_[0], amount_[1]);
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    const double amount = draws_amount_ ? params[1] : amount_[0];
    plan.pixels({params[0] != 0.0 ? kind_ : PixelKind::kIdentity, amount});
  }

 private:
  PixelKind kind_;
  double p_, amount_[2];
  bool draws_amount_;
};

// How a number is drawn from its range.
enum class Range { kReal, kWhole, kOdd };

// kind, p, and low, high, Range for the amount and for each further number
class RandomOperationOf : public ChainStep {
 public:
  explicit RandomOperationOf(const Numbers& numbers) {
    Reader n(numbers);
    kind_ = static_cast<PixelKind>(n.number());
    p_ = n.number();
    int64_t count = 1;
    for (Draw& draw : draws_) {
      draw.low = n.number();
      draw.high = n.number();
      draw.range = static_cast<Range>(n.number());
      draw.position = draw.low != draw.high ? count++ : 0;
    }
    uniforms(count);
    param("apply", ParamSpec::kFlag);
    param("amounts", ParamSpec::kNumber, 1 + kMoreNumbers);
  }

  void draw(const Draws& uniforms, const Sample&, double* params) const override {
    *params++ = uniforms[0] < p_ ? 1.0 : 0.0;
    for (const Draw& draw : draws_) *params++ = value_of(draw, uniforms);
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    PixelOperation operation = {params[0] != 0.0 ? kind_ : PixelKind::kIdentity, params[1]};
    std::copy_n(params + 2, kMoreNumbers, operation.more);
    plan.pixels(operation);
  }

 private:
  struct Draw {
    double low, high;
    Range range;
    int64_t position;  // of its uniform number; 0: it is not drawn
  };

  static double value_of(const Draw& draw, const Draws& uniforms) {
    if (draw.position == 0) return draw.low;
    const double u = uniforms[draw.position];
    switch (draw.range) {
      case Range::kWhole: return draw.low + std::floor(u * (draw.high - draw.low + 1.0));
      case Range::kOdd:
        return draw.low + 2.0 * std::floor(u * (std::floor((draw.high - draw.low) / 2.0) + 1.0));
      default: return draw.low + u * (draw.high - draw.low);
    }
  }

  PixelKind kind_;
  double p_;
  Draw draws_[1 + kMoreNumbers];
};

// kernel's width and height, sigma low, high
class GaussianBlur : public ChainStep {
 public:
  explicit GaussianBlur(const Numbers& numbers) {
    Reader n(numbers);
    n.numbers(kernel_);
    n.numbers(sigma_);
    uniforms(1);
    param("sigma");
  }

  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    const Canvas& canvas = sample.canvas;
    const bool fits =
        canvas.width > std::floor(kernel_[0] / 2.0) && canvas.height > std::floor(kernel_[1] / 2.0);
    require(fits || canvas.width * canvas.height == 0.0, "transforms.GaussianBlur",
            "kernel_size is (", kernel_[0], ", ", kernel_[1], "), ", sample.describe(),
            "; must be less than twice as large");
    params[0] = uniforms.between(0, sigma_[0], sigma_[1]);
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    PixelOperation operation = {PixelKind::kGaussianBlur, params[0]};
    std::copy_n(kernel_, 2, operation.more);
    plan.pixels(operation);
  }

 private:
  double kernel_[2], sigma_[2];
};

// What neither draws nor moves a pixel.
class Identity : public ChainStep {
 public:
  explicit Identity(const Numbers&) {}

  void extend(const double*, PlanBuilder&) const override {}
};

constexpr StepKind kKinds[] = {
    {"GaussianBlur", 4, make_of<GaussianBlur>},
    {"Identity", 0, make_of<Identity>},
    {"RandomOperation", 4, make_of<RandomOperation>},
    {"RandomOperationOf", 2 + 3 * (1 + kMoreNumbers), make_of<RandomOperationOf>},
};

}  // namespace

StepPointer make_pixel_step(const std::string& name, const Numbers& numbers) {
  return find_step(kKinds, name, numbers);
}

}  // namespace visops
