// Output of the augmentation kernels.
#pragma once

#include "core/warp/augment_group.h"
#include "cuda/launch.h"
#include "cuda/tile_grid.h"

namespace visops {
namespace {

constexpr int kMaxInterleaved = 4;                // channels written through shared memory
constexpr int kStaged = kMaxInterleaved * kWarp;  // elements of a warp, 8 bytes each at most

// Whether a rectangle reaches into a tile.
__device__ inline bool tile_meets_erase(const AugmentParams& p, const TileGrid& grid,
                                        const TileAt& at) {
  for (int64_t i = 0; i < p.erase_count; ++i) {
    const int64_t* r = p.erase + (at.sample * p.erase_count + i) * 4;
    if (r[0] < int64_t{at.x} + grid.width && r[2] > at.x && r[1] < int64_t{at.y} + grid.height &&
        r[3] > at.y) {
      return true;
    }
  }
  return false;
}

// What is stored for this thread's pixel, from its colours.
template <class Acc>
__device__ void finish_group(const AugmentParams& p, int64_t first, int count, bool erased,
                             Acc value[kPixelGroup]) {
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= count) break;
    value[c] = erased ? static_cast<Acc>(p.erase_value[value_index(p, first + c)])
                      : finish_value(p, first + c, value[c]);
  }
}

// Stores this thread's pixel; or, if the warp's pixels are one run of whole words of interleaved
// output, its share of them.
template <class Acc>
__device__ void store_group(const AugmentParams& p, int64_t sample, int64_t y, int64_t x,
                            int64_t first, int count, const Acc value[kPixelGroup], void* staged) {
  const Strides stride = p.output_stride;
  const int in_warp = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t run = sample * stride.batch + y * stride.row + (x - in_warp) * stride.column;
  const int64_t bytes = element_size(p.output_dtype);
  char* const output = static_cast<char*>(p.output);
  const bool words = p.channels >= 2 && p.channels <= kMaxInterleaved && stride.channel == 1 &&
                     stride.column == p.channels && x - in_warp + kWarp <= p.output_width &&
                     reinterpret_cast<uintptr_t>(output + run * bytes) % sizeof(uint32_t) == 0;
  if (!words) {
    if (x >= p.output_width) return;
    const int64_t at = run + in_warp * stride.column + first * stride.channel;
    for (int c = 0; c < kPixelGroup; ++c) {
      if (c >= count) break;
      store_output(p.output_dtype, output, at + c * stride.channel, value[c]);
    }
    return;
  }
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= count) break;
    store_output(p.output_dtype, staged, in_warp * count + c, value[c]);
  }
  __syncwarp();  // all lanes have written
  const int size = static_cast<int>(count * bytes) * kWarp / int{sizeof(uint32_t)};
  uint32_t* out = reinterpret_cast<uint32_t*>(output + run * bytes);
  for (int i = in_warp; i < size; i += kWarp) out[i] = static_cast<const uint32_t*>(staged)[i];
  __syncwarp();  // all lanes have read, before the next row is staged
}

}  // namespace
}  // namespace visops
