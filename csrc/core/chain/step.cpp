#include "core/chain/step.h"

#include <stdexcept>

#include "core/chain/steps/families.h"
#include "core/check.h"

namespace visops {

std::string Sample::describe() const {
  std::ostringstream text;
  text << "the image";
  if (batch > 1) text << " of sample " << index;
  text << " has height " << static_cast<int64_t>(canvas.height) << " and width "
       << static_cast<int64_t>(canvas.width);
  return text.str();
}

namespace {

template <class DrawsOf>
void draw_each(const ChainStep& step, const ChainPlan& plan, double* params, const DrawsOf& of) {
  const int64_t count = step.num_params();
  for (int64_t i = 0; i < plan.batch; ++i, params += count) {
    const Canvas& canvas = plan.samples[static_cast<size_t>(i)].canvas;
    step.draw(of(i), {canvas, plan.channels, i, plan.batch}, params);
  }
}

}  // namespace

void draw_step(const ChainStep& step, const ChainPlan& plan, std::vector<Uniforms>& uniforms,
               int64_t first, double* params) {
  draw_each(step, plan, params,
            [&](int64_t i) { return Draws(uniforms[static_cast<size_t>(i)], first); });
}

void draw_step(const ChainStep& step, const ChainPlan& plan, const double* uniforms,
               double* params) {
  const int64_t count = step.num_uniforms();
  draw_each(step, plan, params, [&](int64_t i) { return Draws(uniforms + i * count); });
}

void extend_plan(const ChainStep& step, const double* params, ChainPlan& plan) {
  const int64_t count = step.num_params();
  const size_t colors = plan.colors.size(), erased = plan.erased.size();
  for (int64_t i = 0; i < plan.batch; ++i, params += count) {
    PlanBuilder builder(plan, i, colors, erased);
    step.extend(params, builder);
  }
}

StepPointer make_step(const std::string& name, const StepFields& fields) {
  FieldReader reader("the step " + name, fields);
  for (auto make : {make_crop_step, make_resize_step, make_warp_step, make_color_step,
                    make_pixel_step, make_policy_step}) {
    if (StepPointer step = make(name, reader)) {
      reader.finish();
      return step;
    }
  }
  throw std::invalid_argument("visops.transforms: there is no step " + name);
}

}  // namespace visops
