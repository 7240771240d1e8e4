// Steps of one pixel operation, and of none.
#include "core/chain/families.h"
#include "core/chain/numbers.h"

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

// What neither draws nor moves a pixel.
class Identity : public ChainStep {
 public:
  explicit Identity(const Numbers&) {}

  void extend(const double*, PlanBuilder&) const override {}
};

constexpr StepKind kKinds[] = {
    {"Identity", 0, make_of<Identity>},
    {"RandomOperation", 4, make_of<RandomOperation>},
};

}  // namespace

StepPointer make_pixel_step(const std::string& name, const Numbers& numbers) {
  return find_step(kKinds, name, numbers);
}

}  // namespace visops
