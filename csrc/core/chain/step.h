// A transform of a chain: it draws parameters for each sample, and adds them to a plan.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/chain/plan.h"
#include "core/numbers/philox.h"

namespace visops {

// The uniform numbers in [0, 1) of one sample and one transform.
class Draws {
 public:
  explicit Draws(const double* given) : given_(given) {}
  Draws(Uniforms& sample, int64_t first) : sample_(&sample), first_(first) {}

  double operator[](int64_t index) const {
    return given_ != nullptr ? given_[index] : (*sample_)[first_ + index];
  }
  Draws from(int64_t index) const {
    return given_ != nullptr ? Draws(given_ + index) : Draws(*sample_, first_ + index);
  }
  double between(int64_t index, double low, double high) const {
    return low + (*this)[index] * (high - low);
  }

 private:
  const double* given_ = nullptr;
  Uniforms* sample_ = nullptr;
  int64_t first_ = 0;
};

// A parameter, as a call with return_params=True returns it.
struct ParamSpec {
  enum Type { kNumber, kFlag, kWhole };

  std::string name;
  Type type = kNumber;
  int64_t width = 0;  // of a parameter that is a list of numbers; 0: one number
};

// What a step draws for.
struct Sample {
  Canvas canvas;
  int64_t channels, index, batch;

  // "the image has height 3 and width 4", of a batch "the image of sample 7 has ..."
  std::string describe() const;
};

class ChainStep {
 public:
  virtual ~ChainStep() = default;

  // Writes the parameters, in the order of params(). Throws InvalidArgument where the image can't
  // be taken.
  virtual void draw(const Draws&, const Sample&, double* /*params*/) const {}
  virtual void extend(const double* params, PlanBuilder& plan) const = 0;

  // How many uniform numbers a sample needs.
  int64_t num_uniforms() const { return num_uniforms_; }
  const std::vector<ParamSpec>& params() const { return params_; }
  // The numbers in all parameters together.
  int64_t num_params() const { return num_params_; }

 protected:
  // Said by constructors.
  void uniforms(int64_t count) { num_uniforms_ = count; }
  void param(const std::string& name, ParamSpec::Type type = ParamSpec::kNumber,
             int64_t width = 0) {
    params_.push_back({name, type, width});
    num_params_ += width == 0 ? 1 : width;
  }

 private:
  int64_t num_uniforms_ = 0, num_params_ = 0;
  std::vector<ParamSpec> params_;
};

using StepPointer = std::shared_ptr<const ChainStep>;

// A step's arguments by name, each of one number or more. An optional one may be missing.
using StepFields = std::map<std::string, std::vector<double>>;

// Throws std::invalid_argument for an unknown name, and for fields that aren't the step's.
StepPointer make_step(const std::string& name, const StepFields& fields);

// Groups of transforms of which each sample takes some: `ends` are the upper ends of the ranges of
// a uniform number in which each group is chosen. One end and one group: RandomApply.
StepPointer make_choice(const std::string& param, std::vector<double> ends,
                        std::vector<std::vector<StepPointer>> groups);

// A step of a pass with `count` interpolations, of which it draws one for each sample.
StepPointer make_interpolated(StepPointer step, int64_t count);

// Draws a step for all samples, [batch, num_params].
void draw_step(const ChainStep& step, const ChainPlan& plan, std::vector<Uniforms>& uniforms,
               int64_t first, double* params);
// The same by given numbers, [batch, num_uniforms].
void draw_step(const ChainStep& step, const ChainPlan& plan, const double* uniforms,
               double* params);
// Adds a step to the plan of all samples.
void extend_plan(const ChainStep& step, const double* params, ChainPlan& plan);

}  // namespace visops
