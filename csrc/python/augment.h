// Augmentations of arrays.
#pragma once

#include <vector>

#include "core/warp/augment_front.h"
#include "core/warp/augment_segment.h"
#include "torch/parallel.h"

namespace visops {

// Checks a problem, and runs it. The emulated kernels want the scratch of CUDA's.
inline void run_augment(AugmentParams& p, const AugmentValues& values,
                        Threads threads = Threads::kTorch) {
  check_augment("augment", p, values);
  check_augment_data("augment", p);
  set_values(p, values);
  const int64_t count = cpu_slot() == Slot::kCudaEmulated ? p.batch : 0;
  std::vector<AugmentSample> samples(static_cast<size_t>(count));
  p.samples = samples.data();
  const int64_t rows = p.batch * p.output_height;
  if (threads == Threads::kCaller) return run_here(augment_stub, p, rows);
  run_on_cpu(augment_stub, p, rows, 4 * p.channels * p.output_width);
}

}  // namespace visops
