// What suppression on CUDA keeps beside the problem: fronts allocate it,
// cuda/suppression/nms_kernel.cu lays it out.
#pragma once

#include "core/suppression/nms.h"

namespace visops {

constexpr int64_t kNmsGroup = 32;  // candidates whose flags are the bits of a word
constexpr int64_t kNmsMostTileGroups = 32;

// Groups of a tile (NOTE [ Suppression on CUDA ]). Tiles of 1024 candidates mean few rounds, and
// 128 bytes of overlaps a candidate; smaller ones bound the memory where there are millions.
VISOPS_FN int64_t nms_tile_groups(int64_t count) {
  return count <= int64_t{1} << 20 ? kNmsMostTileGroups : 8;
}

// A candidate has its box, its segment's first position and two counters; and overlaps with the
// groups of its tile.
VISOPS_FN int64_t nms_cuda_scratch_bytes(const NmsParams& p) {
  const int64_t element = computes_in_double(p.dtype) ? sizeof(double) : sizeof(float);
  const int64_t box = p.rotated ? static_cast<int64_t>(sizeof(RotatedBox)) : 4 * element;
  const int64_t groups = (p.count + kNmsGroup - 1) / kNmsGroup;
  return p.count * (box + 3 * static_cast<int64_t>(sizeof(int64_t))) +
         groups * kNmsGroup * nms_tile_groups(p.count) * static_cast<int64_t>(sizeof(uint32_t));
}

}  // namespace visops
