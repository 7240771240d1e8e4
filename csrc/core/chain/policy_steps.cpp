// Policies of linear operations, and groups of transforms of which each sample takes some.
#include <algorithm>
#include <cmath>

#include "core/chain/colors.h"
#include "core/chain/families.h"
#include "core/chain/numbers.h"
#include "core/chain/warps.h"

namespace visops {
namespace {

using Numbers = std::vector<double>;

// OPERATIONS of ops/transforms/policies.py.
enum Operation {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kCount
};

// How many operations one after another; magnitude or -1, which draws it; bins; whether shifts are
// fractions of the image's sides; whether names end with the operation's place; the largest
// magnitude of each operation
class LinearPolicy : public ChainStep {
 public:
  explicit LinearPolicy(const Numbers& numbers) {
    Reader n(numbers);
    repeats_ = static_cast<int>(n.number());
    magnitude_ = n.number();
    bins_ = n.number();
    relative_ = n.flag();
    const bool numbered = n.flag();
    n.numbers(reach_);
    uniforms(3 * repeats_);
    for (int i = 0; i < repeats_; ++i) {
      const std::string end = numbered ? "_" + std::to_string(i) : "";
      param("operation" + end, ParamSpec::kWhole);
      param("magnitude" + end);
    }
  }

  void draw(const Draws& all, const Sample& sample, double* params) const override {
    for (int i = 0; i < repeats_; ++i, params += 2) {
      const Draws uniforms = all.from(3 * i);
      const int operation = static_cast<int>(uniforms[0] * static_cast<double>(kCount));
      const double level = magnitude_ < 0.0 ? std::floor(uniforms[1] * bins_) : magnitude_;
      double magnitude = reach_[operation] * (level / (bins_ - 1.0));
      if (relative_ && operation == kTranslateX) magnitude *= sample.canvas.width;
      if (relative_ && operation == kTranslateY) magnitude *= sample.canvas.height;
      params[0] = operation;
      params[1] = uniforms[2] <= 0.5 ? -magnitude : magnitude;
    }
  }

  void extend(const double* params, PlanBuilder& plan) const override {
    for (int i = 0; i < repeats_; ++i, params += 2) {
      add_operation(static_cast<int>(params[0]), params[1], plan);
    }
  }

 private:
  // An operation's geometry and its colour step, of which at most one is not the identity. Shears
  // fix the upper left corner, as in AutoAugment's policies.
  static void add_operation(int operation, double magnitude, PlanBuilder& plan) {
    const auto of = [&](int own) { return operation == own ? magnitude : 0.0; };
    const Canvas canvas = plan.canvas();
    const Rotation turn = rotation_of(of(kRotate));
    const double turns = operation == kRotate ? 1.0 : 0.0;
    plan.affine(about(turn.c, turn.s - of(kShearX), -turn.s - of(kShearY), turn.c,
                      turns * canvas.width * 0.5, turns * canvas.height * 0.5,
                      std::trunc(of(kTranslateX)), std::trunc(of(kTranslateY)))
                    .m,
                canvas);
    const double contrast = of(kContrast), saturation = 1.0 + of(kColor);
    const double scale = 1.0 + of(kBrightness) + contrast;
    plan.color(jitter_matrix(scale, &saturation, nullptr, plan.channels()), -contrast);
  }

  int repeats_;
  double magnitude_, bins_, reach_[kCount];
  bool relative_;
};

class Choice : public ChainStep {
 public:
  Choice(const std::string& name, std::vector<double> ends,
         std::vector<std::vector<StepPointer>> groups)
      : ends_(std::move(ends)), groups_(std::move(groups)), is_flag_(name == "apply") {
    param(name, is_flag_ ? ParamSpec::kFlag : ParamSpec::kWhole);
    int64_t count = 1, place = 0;
    for (const auto& group : groups_) {
      for (const StepPointer& step : group) {
        for (const ParamSpec& spec : step->params()) {
          param(std::to_string(place) + "_" + spec.name, spec.type, spec.width);
        }
        count += step->num_uniforms();
        ++place;
      }
    }
    uniforms(count);
  }

  // A group that isn't chosen draws for the image as the chosen ones before have left it.
  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    params[0] = chosen(uniforms[0]);
    const int64_t size[2] = {static_cast<int64_t>(sample.canvas.height),
                             static_cast<int64_t>(sample.canvas.width)};
    ChainPlan scratch(size, 1, sample.channels, false);
    PlanBuilder plan(scratch, 0, 0, 0);
    int64_t first = 1;
    const double choice = *params++;
    for (size_t group = 0; group < groups_.size(); ++group) {
      for (const StepPointer& step : groups_[group]) {
        const Sample own = {plan.canvas(), sample.channels, sample.index, sample.batch};
        step->draw(uniforms.from(first), own, params);
        plan.add_if(takes(choice, group), [&] { step->extend(params, plan); });
        first += step->num_uniforms();
        params += step->num_params();
      }
    }
  }

  void extend(const double* params, PlanBuilder& plan) const override {
    const double choice = *params++;
    for (size_t group = 0; group < groups_.size(); ++group) {
      for (const StepPointer& step : groups_[group]) {
        plan.add_if(takes(choice, group), [&] { step->extend(params, plan); });
        params += step->num_params();
      }
    }
  }

 private:
  double chosen(double uniform) const {
    if (is_flag_) return uniform < ends_[0] ? 1.0 : 0.0;
    return static_cast<double>(std::upper_bound(ends_.begin(), ends_.end(), uniform) -
                               ends_.begin());
  }
  bool takes(double choice, size_t group) const {
    return is_flag_ ? choice != 0.0 : choice == static_cast<double>(group);
  }

  std::vector<double> ends_;
  std::vector<std::vector<StepPointer>> groups_;
  bool is_flag_;
};

// What neither draws nor moves a pixel.
class Identity : public ChainStep {
 public:
  explicit Identity(const Numbers&) {}

  void extend(const double*, PlanBuilder&) const override {}
};

constexpr StepKind kKinds[] = {{"Identity", 0, make_of<Identity>},
                               {"LinearPolicy", 5 + kCount, make_of<LinearPolicy>}};

}  // namespace

StepPointer make_policy_step(const std::string& name, const Numbers& numbers) {
  return find_step(kKinds, name, numbers);
}

StepPointer make_choice(const std::string& param, std::vector<double> ends,
                        std::vector<std::vector<StepPointer>> groups) {
  return std::make_shared<const Choice>(param, std::move(ends), std::move(groups));
}

}  // namespace visops
