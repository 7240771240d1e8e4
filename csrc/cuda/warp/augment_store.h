// Output of the augmentation kernels.
#pragma once

#include <type_traits>

#include "core/warp/augment_group.h"
#include "cuda/launch.h"
#include "cuda/tile_grid.h"
#include "cuda/warp/augment_color.h"
#include "cuda/warp/augment_values.h"
#include "cuda/warp/tile_output.h"

namespace visops {
namespace {

constexpr int kStaged = kMaxInterleaved * kWarp;  // elements of a warp, 8 bytes each at most

__device__ inline OutputLayout output_layout(const AugmentParams& p) {
  return {p.output, p.output_stride, static_cast<int>(element_size(p.output_dtype)), p.channels,
          p.output_width};
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

// What a block knows about its tile beside the sample, by all its threads but the first warp:
// rectangles, the channels' numbers and the colour matrices.
template <class Tile>
__device__ inline void prepare_beside_sample(const AugmentParams& p, const TileGrid& grid,
                                             const TileAt& at, int threads, Tile* tile) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == kWarp) {
    tile->erased = tile_meets_erase(p, grid, at);
    tile->words = output_layout(p).writes_words();
  } else if (thread >= 2 * kWarp) {
    share_values(p, thread - 2 * kWarp, threads - 2 * kWarp, &tile->values);
    share_color_plan(p, at.sample, thread - 2 * kWarp, threads - 2 * kWarp, &tile->plan);
  }
}

// The channels of a pixel that are computed together: from `first` on. Where a kernel is compiled
// for kFixed channels, which are then all, their number is known and values need no index of their
// own.
template <int kFixed>
struct ChannelGroup {
  int64_t first;
  int runtime_count;

  __device__ int count() const { return kFixed > 0 ? kFixed : runtime_count; }
  __device__ int64_t value(const AugmentParams& p, int c) const {
    return kFixed > 0 ? c : value_index(p, first + c);
  }
};

// What is stored for this thread's pixel, from its colours.
template <int kFixed, class Acc>
__device__ void finish_group(const AugmentParams& p, const ChannelValues<Acc>& values,
                             const ChannelGroup<kFixed>& group, bool erased,
                             Acc value[kPixelGroup]) {
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= group.count()) break;
    const int64_t i = group.value(p, c);
    value[c] = finish_value(p, values.input_scale, values.scale[i], values.offset[i], value[c]);
  }
  if (!erased) return;
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= group.count()) break;
    value[c] = values.erase[group.value(p, c)];
  }
}

// Values of a pixel as elements, `step` bytes apart.
template <class Element, class Acc>
__device__ void store_values(char* to, int64_t step, int count, const Acc value[kPixelGroup]) {
  for (int c = 0; c < kPixelGroup; ++c) {
    if (c >= count) break;
    auto* const element = reinterpret_cast<Element*>(to + c * step);
    if constexpr (std::is_same<Element, double>::value) {
      store_element(element, static_cast<double>(value[c]));
    } else {
      store_element(element, static_cast<float>(value[c]));
    }
  }
}

template <class Acc>
__device__ void store_values(DType dtype, char* to, int64_t step, int count,
                             const Acc value[kPixelGroup]) {
  // What most networks want; a switch asks for it last.
  if (dtype == DType::kFloat32) return store_values<float>(to, step, count, value);
  switch (dtype) {
    case DType::kUInt8: return store_values<uint8_t>(to, step, count, value);
    case DType::kFloat16: return store_values<Half>(to, step, count, value);
    case DType::kBFloat16: return store_values<BFloat16>(to, step, count, value);
    default: return store_values<double>(to, step, count, value);
  }
}

// Stores this thread's pixel; or, where they are words, its share of the warp's.
template <int kFixed, class Acc>
__device__ void store_group(const AugmentParams& p, const PixelOutput& out,
                            const ChannelGroup<kFixed>& group, const Acc value[kPixelGroup],
                            void* staged) {
  if (!out.writes_words()) {
    if (!out.exists) return;
    char* const to = kFixed > 0 ? out.at : out.at + group.first * out.channel;
    store_values(p.output_dtype, to, out.channel, group.count(), value);
    return;
  }
  char* const own = static_cast<char*>(staged) + lane_of_warp() * static_cast<int>(out.column);
  store_values(p.output_dtype, own, out.channel, group.count(), value);
  store_words(out, staged);
}

// What becomes of the values that were sampled for a pixel of this thread. All lanes of a warp call
// it; `staged` is its part of shared memory.
template <class Tile, int kFixed, class Acc>
__device__ void color_and_store(const AugmentParams& p, const Tile& tile, const PixelOutput& output,
                                const ChannelGroup<kFixed>& channels, bool erased,
                                Acc value[kPixelGroup], void* staged) {
  if (p.color_steps > 0) {
    color_group(p, tile.plan, p.color_steps, kFixed > 0 ? kFixed : static_cast<int>(p.channels),
                value);
  }
  finish_group(p, tile.values, channels, erased, value);
  store_group(p, output, channels, value, staged);
}

}  // namespace
}  // namespace visops
