// How stable masks are: what fronts and kernels share.
//
// NOTE [ Stability ]
// The intersection over union of a mask's two versions, those above a higher and above a lower
// threshold. One contains the other, so it is the ratio of their pixels. Thresholds are rounded to
// the dtype of the numbers, as torch does in comparisons; NaN is above none. 0 where no pixel is
// above the lower one.
#pragma once

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/round_to_dtype.h"

namespace visops {

struct StabilityParams {
  const void* logits;  // [count, pixels], contiguous
  DType dtype;
  int64_t count, pixels;
  double low, high;  // rounded to dtype
  float* scores;     // [count]
};

// CPU kernels take ranges of masks.
inline KernelStub<StabilityParams> stability_stub{"stability_score"};

VISOPS_FN float stability_of(int64_t above_high, int64_t above_low) {
  if (above_low == 0) return 0.0f;
  return static_cast<float>(static_cast<double>(above_high) / static_cast<double>(above_low));
}

}  // namespace visops
