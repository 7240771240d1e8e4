// A plan as Python holds it.
#pragma once

#include <utility>
#include <vector>

#include "core/chain/plan.h"

namespace visops {

struct PlanObject {
  ChainPlan plan;
  // What Python has left out of the plan, from the outermost condition on: the samples before, and
  // which of them were left out already.
  struct Condition {
    std::vector<GeometryState> before;
    std::vector<uint8_t> left_out;
  };
  std::vector<Condition> conditions;

  // The only sample of a plan for one.
  const GeometryState& first() const { return plan.samples.at(0); }
  bool is_projective() const { return !plan.samples.empty() && plan.samples[0].projective; }
};

}  // namespace visops
