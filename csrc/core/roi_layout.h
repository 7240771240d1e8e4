// Which maps the CPU kernels read or write where they are, instead of bringing them into lanes.
#pragma once

#include "core/roi_align.h"

namespace visops {

// All levels have their channels side by side, in the type that is computed in.
VISOPS_FN bool maps_are_lanes(const RoiAlignParams& p) {
  bool are = p.dtype == DType::kFloat32 || p.dtype == DType::kFloat64;
  for (int64_t level = 0; level < p.levels; ++level) are = are && p.maps[level].channel_stride == 1;
  return are;
}

}  // namespace visops
