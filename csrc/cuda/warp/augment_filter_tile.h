// What a block of augment_filter() knows about its tile, prepared once in shared memory.
#pragma once

#include "core/warp/augment_group.h"
#include "cuda/launch.h"
#include "cuda/tile_grid.h"
#include "cuda/warp/augment_color.h"
#include "cuda/warp/augment_store.h"

namespace visops {
namespace {

constexpr int kFilterRows = 16;  // of a tile; it is kTileWidth wide
constexpr int kFilterThreads = 256;

// A column or a row of output pixels: what its pixels share. In float32 it has seven words, an odd
// number, so that the lines of a warp's lanes begin in different banks of shared memory.
template <class Acc>
struct FilterLine {
  FilterTaps<Acc> taps;
  Acc cover;   // by the window, along this axis
  float unit;  // of a column's sums in integers
};
static_assert(sizeof(FilterLine<float>) / sizeof(float) % 2 == 1, "an odd number of words");

// `integers`: of uint8 samples that are filtered in integers.
template <class T, bool integers>
struct FilterTile {
  using Acc = typename Accumulate<T>::type;
  // In integers a weight depends on those before it, so one thread computes all of a line.
  static constexpr int kWeights = integers ? kMostIntegerTaps : 2;
  int64_t index;  // of the sample
  int32_t left, top;
  AugmentSample sample;
  SegmentAxis<Acc> x, y[kFilterRows];
  FilterLine<Acc> column[kTileWidth], row[kFilterRows];
  uint32_t row_weight[integers ? kFilterRows : 1][kWeights / 2];  // two in a number
  int shift[integers ? kFilterRows : 1];                          // of a row's sums
  int16_t column_weight[kWeights][integers ? kTileWidth : 1];
  ColorPlan<Acc> plan;
  ChannelValues<Acc> values;
  bool erased;  // some rectangle reaches into the tile
  bool words;   // OutputLayout::writes_words()
};

// One thread's column of the tile, or row.
template <Interpolation mode, class T, bool integers>
__device__ inline void prepare_line(const AugmentParams& p, bool is_column, int index,
                                    FilterTile<T, integers>* tile) {
  using Acc = typename Accumulate<T>::type;
  const AugmentSample& s = tile->sample;
  AugmentMap map = s.map;
  map.perspective = false;  // known, and the compiler sees it
  const AugmentSegment<Acc> segment = augment_segment<Acc>(map, tile->left - tile->left % kSegment,
                                                           tile->top + (is_column ? 0 : index));
  const AxisWindow& window = is_column ? s.x : s.y;
  SegmentAxis<Acc> axis;  // as of segment_axes(), but for the other one
  set_axis_widths(s, window, is_column ? segment.width_x : segment.width_y, &axis);
  position_axis(window, is_column ? segment.x : segment.y, &axis);
  const int lane = is_column ? tile->left % static_cast<int>(kSegment) + index : 0;
  const LanePoint<Acc> point = lane_point(segment, lane);
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
  if constexpr (integers) {
    IntegerTaps t = is_column ? integer_columns<mode>(taps) : integer_rows<mode>(taps);
    line->unit = integer_unit<mode>(t);
    if (!is_column) tile->shift[index] = t.shift;
    uint32_t pair = 0;
    for (int32_t i = 0; i < taps.count; ++i) {
      const auto weight = static_cast<int16_t>(next_weight<mode>(taps, i, &t));
      if (is_column) {
        tile->column_weight[i][index] = weight;
      } else {
        const uint32_t half = static_cast<uint16_t>(weight);
        pair = i % 2 == 0 ? half : pair | half << 16;
        tile->row_weight[index][i / 2] = pair;
      }
    }
  }
}

// The least number of all lanes.
__device__ inline int32_t least_of_warp(int32_t number) {
  const uint32_t ordered = static_cast<uint32_t>(number) ^ 0x80000000u;
  return static_cast<int32_t>(~__reduce_max_sync(0xffffffffu, ~ordered) ^ 0x80000000u);
}

// Where the tap columns of a warp's pixels end; a lane has `count` from `first` on.
__device__ inline int32_t end_of_warp(int32_t first, int32_t count) {
  return ~least_of_warp(count > 0 ? ~(first + count - 1) : INT32_MAX) + 1;
}

// Called by all threads of the block, and synchronizes them. The first thread does the sample, two
// warps a column a thread, one a row a thread, the others rectangles, numbers and colours.
template <Interpolation mode, class T, bool integers>
__device__ inline void prepare_filter(const AugmentParams& p, const TileGrid& grid,
                                      const TileAt& at, FilterTile<T, integers>* tile) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    tile->index = at.sample;
    tile->left = at.x;
    tile->top = at.y;
    tile->sample = p.samples[at.sample];
  } else if (thread == kWarp) {
    tile->erased = tile_meets_erase(p, grid, at);
    tile->words = output_layout(p).writes_words();
  } else if (thread >= 2 * kWarp) {
    constexpr int kThreads = kFilterThreads - 2 * kWarp;
    share_values(p, thread - 2 * kWarp, kThreads, &tile->values);
    share_color_plan(p, at.sample, thread - 2 * kWarp, kThreads, &tile->plan);
  }
  __syncthreads();  // the sample is there
  if (thread < kTileWidth + kFilterRows) {
    const bool is_column = thread < kTileWidth;
    prepare_line<mode>(p, is_column, is_column ? thread : thread - kTileWidth, tile);
  }
  __syncthreads();  // all of the tile is there
}

}  // namespace
}  // namespace visops
