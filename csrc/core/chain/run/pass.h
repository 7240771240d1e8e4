// One pass of a chain over images of the CPU, by its plan.
#pragma once

#include <vector>

#include "core/chain/plan.h"
#include "core/chain/run/pass_problem.h"
#include "core/dispatch/threads.h"
#include "core/images/strided_data.h"
#include "core/pixels/operations.h"
#include "core/warp/augment.h"

namespace visops {

// One pass. All but the first take what the one before made, contiguous.
struct Stage {
  Sampling sampling;
  bool by_values;  // pixel operations, in place; else geometry and colours into another image
  std::vector<double> mean, std, erase_value;  // as in visops.augment
  DType dtype;                                 // that it makes
  int64_t channels;  // of its result: those of its image, or another number of equal ones
};

// Runs a pass on one image [C, H, W].
void run_pass(const Stage& stage, const ChainPlan& plan, const AugmentImage& image, DType dtype,
              const StridedData& to, const Threads& threads);

// Colour matrices [batch, 1, C, C + 1] of a plan that is not exact, grey means included. `images`
// are those of the plan's batch.
std::vector<double> colors_with_means(const ChainPlan& plan, const Sampling& sampling,
                                      const AugmentParams& images, const Threads& threads);

// How the operations that move pixels read them.
struct PixelSampling {
  Interpolation mode;
  std::vector<double> fill;
};

// Runs a sample's operations on its image, contiguous, of uint8 or float32, in place.
void run_pixel_list(const std::vector<PixelOperation>& operations, const PixelImage& image,
                    const PixelSampling& sampling, const Threads& threads);

}  // namespace visops
