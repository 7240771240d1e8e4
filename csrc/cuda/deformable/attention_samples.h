// Levels and samples of deformable attention on CUDA.
#pragma once

#include "core/deformable/attention.h"
#include "core/numbers/arithmetic.h"
#include "core/numbers/element.h"
#include "cuda/deformable/elements.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// A level with the number of its first cell: NOTE [ Samples of a pixel ]. Without pixels it is 0 x
// 0.
struct LevelAt {
  int32_t height, width;
  int64_t start, points, first_sample;
  int32_t first_cell;
};

VISOPS_FN int64_t area_of(const LevelAt& level) {
  return static_cast<int64_t>(level.height) * level.width;
}

// All levels of a problem, in shared memory.
struct Levels {
  LevelAt at[kMostLevels];
  int32_t cells;  // of one image and head
};

VISOPS_FN LevelAt level_at(const AttentionLevel& level, int64_t height, int64_t width) {
  const bool is_empty = height == 0 || width == 0;
  return {static_cast<int32_t>(is_empty ? 0 : height),
          static_cast<int32_t>(is_empty ? 0 : width),
          level.start,
          level.points,
          level.first_sample,
          0};
}

VISOPS_FN int32_t cells_of(const LevelAt& level) { return (level.height + 1) * (level.width + 1); }

// Shapes that come from the device may be wrong: a level that does not fit into value has no
// pixels, so nothing is read outside.
__device__ inline void load_device_levels(const AttentionParams& p, int thread, Levels* levels) {
  if (thread < p.levels) {  // each waits for its own level only
    const int64_t height = p.device_shapes[2 * thread], width = p.device_shapes[2 * thread + 1];
    const bool is_possible = height >= 0 && width >= 0 && height <= kMostSide && width <= kMostSide;
    levels->at[thread] =
        level_at(p.level[thread], is_possible ? height : 0, is_possible ? width : 0);
  }
  __syncthreads();
  if (thread == 0) {
    int64_t start = 0;
    levels->cells = 0;
    for (int64_t l = 0; l < p.levels; ++l) {
      LevelAt& level = levels->at[l];
      const int64_t area = area_of(level);
      if (area > p.positions - start) level.height = level.width = 0;
      level.start = start;
      level.first_cell = levels->cells;
      start += area_of(level);
      levels->cells += cells_of(level);
    }
  }
  __syncthreads();
}

// Called by all threads of a block, at least kMostLevels, which synchronise here; `thread` numbers
// them. Shapes that the host knows have been checked there, and no thread waits for another's
// level.
__device__ inline void load_levels(const AttentionParams& p, int thread, Levels* levels) {
  if (p.device_shapes != nullptr) return load_device_levels(p, thread, levels);
  if (thread < p.levels) {
    int32_t cells = 0;
    for (int l = 0; l < thread; ++l) {
      cells += cells_of(level_at(p.level[l], p.level[l].height, p.level[l].width));
    }
    const AttentionLevel& given = p.level[thread];
    LevelAt level = level_at(given, given.height, given.width);
    level.first_cell = cells;
    levels->at[thread] = level;
    if (thread == p.levels - 1) levels->cells = cells + cells_of(level);
  }
  __syncthreads();
}

__device__ inline const LevelAt& level_of_sample(const Levels& levels, int64_t sample) {
  int64_t l = 0;
  while (sample >= levels.at[l].first_sample + levels.at[l].points) ++l;
  return levels.at[l];
}

template <class Acc>
struct LocatedSample {
  BilinearSample<Acc> bilinear;
  Acc attention;
};

// Sample i of all, which is on `level`.
template <bool is_discrete, class Acc>
__device__ LocatedSample<Acc> located_sample(const AttentionParams& p, const LevelAt& level,
                                             int64_t i) {
  const Acc u = number_at<Acc>(p.locations, p.locations_dtype, 2 * i);
  const Acc v = number_at<Acc>(p.locations, p.locations_dtype, 2 * i + 1);
  return {locate_sample<is_discrete>(u, v, level.height, level.width),
          number_at<Acc>(p.weights, p.weights_dtype, i)};
}

// Whether packs of kCount elements are aligned everywhere in value.
template <class T, int kCount>
bool has_packs(const AttentionParams& p) {
  return reinterpret_cast<uintptr_t>(p.value) % (kCount * sizeof(T)) == 0 &&
         p.channels % kCount == 0 && p.batch_stride % kCount == 0 &&
         p.position_stride % kCount == 0 && p.head_stride % kCount == 0;
}

// f(T*, is_discrete), both constants.
template <class F>
void with_types(const AttentionParams& p, const F& f) {
  with_floating_type(p.dtype, [&](auto* element) {
    if (p.method == AttentionMethod::kDiscrete) {
      f(element, std::true_type());
    } else {
      f(element, std::false_type());
    }
  });
}

}  // namespace
}  // namespace visops
