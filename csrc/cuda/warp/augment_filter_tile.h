// What a block of augment_filter() knows about its tile, prepared once in shared memory.
#pragma once

#include <type_traits>

#include "core/warp/augment_group.h"
#include "cuda/launch.h"
#include "cuda/tile_grid.h"
#include "cuda/warp/augment_color.h"
#include "cuda/warp/augment_store.h"
#include "cuda/warp/augment_upright.h"

namespace visops {
namespace {

constexpr int kFilterRows = 16;  // of a tile; it is kTileWidth wide
constexpr int kFilterThreads = 256;

// A column or a row of output pixels: what its pixels share.
template <class Acc>
struct FilterLine {
  FilterTaps<Acc> taps;
  IntegerTaps integers;  // where the sample is filtered in integers
  Acc cover;             // by the window, along this axis
};

template <class T>
struct FilterTile {
  using Acc = typename Accumulate<T>::type;
  double given[9];  // the matrix
  int64_t index;    // of the sample
  int32_t left, top;
  AugmentSample sample;
  SegmentAxis<Acc> x, y[kFilterRows];
  FilterLine<Acc> column[kTileWidth], row[kFilterRows];
  // In integers a weight depends on those before it, so one thread computes all of a row.
  int16_t weight[std::is_same<T, uint8_t>::value ? kFilterRows : 1][kMostIntegerTaps];
  ColorPlan<Acc> plan;
  bool erased;  // some rectangle reaches into the tile
};

// One thread's column of the tile, or row.
template <class T, Interpolation mode>
__device__ inline void prepare_line(const AugmentParams& p, bool is_column, int index,
                                    FilterTile<T>* tile) {
  using Acc = typename Accumulate<T>::type;
  const AugmentSample& s = tile->sample;
  AugmentMap map = s.map;
  map.perspective = false;  // known, and the compiler sees it
  const AugmentSegment<Acc> segment = augment_segment<Acc>(map, tile->left - tile->left % kSegment,
                                                           tile->top + (is_column ? 0 : index));
  const SegmentAxes<Acc> axes = segment_axes(s, segment);
  const int lane = is_column ? tile->left % static_cast<int>(kSegment) + index : 0;
  const LanePoint<Acc> point = lane_point(segment, lane);
  const SegmentAxis<Acc> axis = is_column ? axes.x : axes.y;
  const Acc centre = is_column ? point.x : point.y;
  FilterLine<Acc>* line = is_column ? &tile->column[index] : &tile->row[index];
  const FilterTaps<Acc> taps = filter_taps<mode>(axis, p.padding, centre);
  line->taps = taps;
  line->cover = edge_cover(axis, centre);
  if (!is_column) {
    tile->y[index] = axis;
  } else if (index == 0) {
    tile->x = axis;
  }
  if constexpr (std::is_same<T, uint8_t>::value) {
    if (!s.integers) return;
    IntegerTaps t = is_column ? integer_columns<mode>(taps) : integer_rows<mode>(taps);
    line->integers = t;
    for (int32_t i = 0; i < (is_column ? 0 : taps.count); ++i) {
      tile->weight[index][i] = static_cast<int16_t>(next_weight<mode>(taps, i, &t));
    }
  }
}

// Called by all threads of the block with `given` prepared, and synchronizes them. The first thread
// does the sample, two warps a column a thread, one a row a thread, the others rectangles and
// colour matrices.
template <class T, Interpolation mode>
__device__ inline void prepare_filter(const AugmentParams& p, const AugmentImage& image,
                                      const TileGrid& grid, const TileAt& at, FilterTile<T>* tile) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    tile->index = at.sample;
    tile->left = at.x;
    tile->top = at.y;
    tile->sample = upright_sample(p, at.sample, image, tile->given);
  } else if (thread == kWarp) {
    tile->erased = tile_meets_erase(p, grid, at);
  } else if (thread >= 2 * kWarp && p.color_steps > 0) {
    share_color_plan(p, at.sample, thread - 2 * kWarp, kFilterThreads - 2 * kWarp, &tile->plan);
  }
  __syncthreads();  // the sample is there
  if (thread < kTileWidth + kFilterRows && !tile->sample.is_fill) {
    const bool is_column = thread < kTileWidth;
    prepare_line<T, mode>(p, is_column, is_column ? thread : thread - kTileWidth, tile);
  }
  __syncthreads();  // all of the tile is there
}

}  // namespace
}  // namespace visops
