// The colour steps of one sample.
#pragma once

#include "core/warp/augment.h"

namespace visops {

// The colour steps of one sample, in the accumulation type.
template <class Acc>
struct ColorPlan {
  Acc step[kMaxColorSteps][kMaxColorChannels][kMaxColorChannels + 1];
};

template <class Acc>
VISOPS_FN Acc color_element(const AugmentParams& p, int64_t sample, int64_t step, int64_t row,
                            int64_t column) {
  const int64_t c = p.channels;
  const int64_t matrix = (p.color_shared ? 0 : sample * p.color_steps) + step;
  const double v = p.color[(matrix * c + row) * (c + 1) + column];
  // Pixels come in the image's units; the first step brings them to a full scale of 1.
  return static_cast<Acc>(step == 0 && column < c ? v * p.input_scale : v);
}

template <class Acc>
VISOPS_FN void load_color_plan(const AugmentParams& p, int64_t sample, ColorPlan<Acc>* plan) {
  for (int64_t k = 0; k < p.color_steps; ++k) {
    for (int64_t i = 0; i < p.channels; ++i) {
      for (int64_t j = 0; j <= p.channels; ++j) {
        plan->step[k][i][j] = color_element<Acc>(p, sample, k, i, j);
      }
    }
  }
}

template <class Acc>
VISOPS_HOT_FN Acc clamp_unit(Acc v) {
  const Acc above = v < static_cast<Acc>(0) ? static_cast<Acc>(0) : v;  // NaN stays
  return above > static_cast<Acc>(1) ? static_cast<Acc>(1) : above;
}

}  // namespace visops
