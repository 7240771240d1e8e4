// Groups of transforms of which each sample takes some, and interpolations of which it takes one.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/chain/steps/families.h"

namespace visops {
namespace {

class Choice : public ChainStep {
 public:
  Choice(const std::string& name, std::vector<double> ends,
         std::vector<std::vector<StepPointer>> groups)
      : ends_(std::move(ends)), groups_(std::move(groups)), is_flag_(name == "apply") {
    param(name, is_flag_ ? ParamSpec::kFlag : ParamSpec::kWhole);
    int64_t count = 1, position = 0;
    for (const auto& group : groups_) {
      for (const StepPointer& step : group) {
        for (const ParamSpec& spec : step->params()) {
          param(std::to_string(position) + "_" + spec.name, spec.type, spec.width);
        }
        count += step->num_uniforms();
        ++position;
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

class Interpolated : public ChainStep {
 public:
  Interpolated(StepPointer step, int64_t count)
      : step_(std::move(step)), count_(static_cast<double>(count)) {
    uniforms(step_->num_uniforms() + 1);
    for (const ParamSpec& spec : step_->params()) param(spec.name, spec.type, spec.width);
    param("interpolation", ParamSpec::kWhole);
  }

  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    step_->draw(uniforms, sample, params);
    params[step_->num_params()] = std::floor(uniforms[step_->num_uniforms()] * count_);
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    step_->extend(params, plan);
    const double number = params[step_->num_params()];
    plan.interpolation(static_cast<uint8_t>(std::clamp(number, 0.0, count_ - 1.0)));
  }

 private:
  StepPointer step_;
  double count_;
};

}  // namespace

StepPointer make_interpolated(StepPointer step, int64_t count) {
  return std::make_shared<const Interpolated>(std::move(step), count);
}

StepPointer make_choice(const std::string& param, std::vector<double> ends,
                        std::vector<std::vector<StepPointer>> groups) {
  return std::make_shared<const Choice>(param, std::move(ends), std::move(groups));
}

}  // namespace visops
