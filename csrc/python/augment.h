// Augmentations of arrays.
#pragma once

#include <vector>

#include "core/warp/augment_segment.h"
#include "torch/parallel.h"

namespace visops {

// `cost` is of a row of the output, in elements. The emulated kernels want the scratch of CUDA's.
inline void run_augment(AugmentParams& p, int64_t cost) {
  const int64_t count = cpu_slot() == Slot::kCudaEmulated ? p.batch : 0;
  std::vector<AugmentSample> samples(static_cast<size_t>(count));
  p.samples = samples.data();
  run_on_cpu(augment_stub, p, p.batch * p.output_height, cost);
}

}  // namespace visops
