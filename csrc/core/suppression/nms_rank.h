// The order of candidates on CUDA, where there are few: what fronts and kernels share.
#pragma once

#include <cstdint>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/element.h"

namespace visops {

struct NmsRankParams {
  const void* scores;  // [images, classes, per_image], contiguous
  DType dtype;
  const int64_t* ids;  // [images, per_image], contiguous; or null
  int64_t images, per_image, classes;

  // Results, by position. Without ids and classes, as NmsParams without segments.
  int64_t* order;
  // Else as NmsParams with them, and the candidates image by image, best first, with each one's
  // position in `order`.
  int64_t* segment;
  int64_t* listed;
  int64_t* slot;

  VISOPS_DEVICE int64_t in_image() const { return classes * per_image; }
  VISOPS_DEVICE bool has_groups() const { return ids != nullptr || classes > 1; }
};

inline KernelStub<NmsRankParams> nms_rank_stub{"nms_rank"};

}  // namespace visops
