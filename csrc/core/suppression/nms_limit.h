// At most so many kept candidates of an image, on CUDA: what fronts and kernels share.
#pragma once

#include <cstdint>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"

namespace visops {

// Candidates come image by image, best first.
struct NmsLimitParams {
  int64_t count, images;
  int64_t in_image;      // candidates of each image
  const int64_t* image;  // [count] or each candidate's; it rises. Null: images have `in_image` each
  int64_t most;          // to keep of an image
  const int64_t* slot;   // [count] whose flag is each candidate's; null: its own
  uint8_t* kept;         // [count] flags, of which the kernel clears those beyond `most`
};

inline KernelStub<NmsLimitParams> nms_limit_stub{"nms_limit"};

}  // namespace visops
