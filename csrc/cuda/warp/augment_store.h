// Output of the augmentation kernels.
#pragma once

#include "core/warp/augment_group.h"
#include "cuda/launch.h"
#include "cuda/tile_grid.h"
#include "cuda/warp/augment_values.h"

namespace visops {
namespace {

constexpr int kMaxInterleaved = 4;                // channels written through shared memory
constexpr int kStaged = kMaxInterleaved * kWarp;  // elements of a warp, 8 bytes each at most

// Whether warps write runs of an output of this layout as words.
__device__ inline bool writes_words(const AugmentParams& p) {
  return p.channels >= 2 && p.channels <= kMaxInterleaved && p.output_stride.channel == 1 &&
         p.output_stride.column == p.channels;
}

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
__device__ void finish_group(const AugmentParams& p, const ChannelValues<Acc>& values,
                             int64_t first, int count, bool erased, Acc value[kPixelGroup]) {
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= count) break;
    const int64_t i = value_index(p, first + c);
    value[c] =
        erased ? values.erase[i]
               : finish_value(p, values.input_scale, values.scale[i], values.offset[i], value[c]);
  }
}

// Stores this thread's pixel; or, where writes_words() and the warp's pixels are one run of whole
// words, its share of them.
template <class Acc>
__device__ void store_group(const AugmentParams& p, bool words, int64_t sample, int64_t y,
                            int64_t x, int64_t first, int count, const Acc value[kPixelGroup],
                            void* staged) {
  const Strides stride = p.output_stride;
  const int in_warp = static_cast<int>(threadIdx.x) % kWarp;
  const int bytes = static_cast<int>(element_size(p.output_dtype));
  char* const output = static_cast<char*>(p.output) +
                       (sample * stride.batch + y * stride.row + x * stride.column) * bytes;
  char* const run = output - in_warp * stride.column * bytes;
  const bool whole = words && x - in_warp + kWarp <= p.output_width &&
                     reinterpret_cast<uintptr_t>(run) % sizeof(uint32_t) == 0;
  if (!whole) {
    if (x >= p.output_width) return;
    for (int c = 0; c < kPixelGroup; ++c) {
      if (c >= count) break;
      store_output(p.output_dtype, output, (first + c) * stride.channel, value[c]);
    }
    return;
  }
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= count) break;
    store_output(p.output_dtype, staged, in_warp * count + c, value[c]);
  }
  __syncwarp();  // all lanes have written
  const int size = count * bytes * kWarp / int{sizeof(uint32_t)};
  uint32_t* out = reinterpret_cast<uint32_t*>(run);
  for (int i = in_warp; i < size; i += kWarp) out[i] = static_cast<const uint32_t*>(staged)[i];
  __syncwarp();  // all lanes have read, before the next row is staged
}

}  // namespace
}  // namespace visops
