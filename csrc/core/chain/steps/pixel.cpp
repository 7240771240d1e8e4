// Steps of one pixel operation, and of none.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/chain/steps/families.h"
#include "core/check.h"

namespace visops {
namespace {

// `kind`, a PixelKind, with `p`, and perhaps a range of its `amount`
class RandomOperation : public ChainStep {
 public:
  explicit RandomOperation(FieldReader& fields) {
    kind_ = static_cast<PixelKind>(fields.whole("kind"));
    p_ = fields.number("p");
    if (fields.has("amount")) fields.numbers("amount", amount_);
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
  double p_, amount_[2] = {};
  bool draws_amount_;
};

// How a number is drawn from its range.
enum class Range { kReal, kWhole, kOdd };

// `kind`, `p`, and in `ranges` low, high, Range for the amount and for each further number; those
// that are missing are 0
class RandomOperationOf : public ChainStep {
 public:
  explicit RandomOperationOf(FieldReader& fields) {
    kind_ = static_cast<PixelKind>(fields.whole("kind"));
    p_ = fields.number("p");
    const std::vector<double>& ranges = fields.list("ranges");
    if (ranges.size() > 3 * std::size(draws_) || ranges.size() % 3 != 0) {
      fields.refuse("has another count of 'ranges'");
    }
    int64_t count = 1;
    for (size_t i = 0; i < ranges.size() / 3; ++i) {
      Draw& draw = draws_[i];
      draw.low = ranges[3 * i];
      draw.high = ranges[3 * i + 1];
      draw.range = static_cast<Range>(ranges[3 * i + 2]);
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
    double low = 0.0, high = 0.0;
    Range range = Range::kReal;
    int64_t position = 0;  // of its uniform number; 0: it is not drawn
  };

  static double value_of(const Draw& draw, const Draws& uniforms) {
    if (draw.position == 0) return draw.low;
    const double u = uniforms[draw.position], length = draw.high - draw.low;
    if (draw.range == Range::kReal) return draw.low + u * length;
    const double step = draw.range == Range::kOdd ? 2.0 : 1.0;
    return draw.low + step * std::floor(u * (std::floor(length / step) + 1.0));
  }

  PixelKind kind_;
  double p_;
  Draw draws_[1 + kMoreNumbers];
};

class GaussianBlur : public ChainStep {
 public:
  explicit GaussianBlur(FieldReader& fields) {
    fields.numbers("kernel_size", kernel_);
    fields.numbers("sigma", sigma_);
    uniforms(1);
    param("sigma");
  }

  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    const Canvas& canvas = sample.canvas;
    const bool fits = 2.0 * canvas.width > kernel_[0] && 2.0 * canvas.height > kernel_[1];
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
  double kernel_[2], sigma_[2];  // width and height
};

// What neither draws nor moves a pixel.
class Identity : public ChainStep {
 public:
  explicit Identity(FieldReader&) {}

  void extend(const double*, PlanBuilder&) const override {}
};

constexpr StepKind kKinds[] = {
    {"GaussianBlur", make_of<GaussianBlur>},
    {"Identity", make_of<Identity>},
    {"RandomOperation", make_of<RandomOperation>},
    {"RandomOperationOf", make_of<RandomOperationOf>},
};

}  // namespace

StepPointer make_pixel_step(const std::string& name, FieldReader& fields) {
  return find_step(kKinds, name, fields);
}

}  // namespace visops
