// NOTE [ RoIAlign's gradient of maps on CUDA ]
// Boxes overlap: if many threads scattered them at once, additions to a pixel would come in any
// order. So this gathers: a block has a tile of one map and some channels, and goes through all
// boxes of the map, by rising index, for those that reach the tile. A thread keeps the sums of its
// pixels and channels in registers from the first box to the last. Each pixel is written once, even
// if no box reaches it. There are no atomics, and nothing needs zeroing beforehand.
//
// A warp has a row of the tile. Its lanes are channels, or columns.
//
// Where each box lies and which pixels it reaches is computed once for all tiles, and the boxes are
// listed map by map (cuda/roi/map_layout.h).
#pragma once

#include "core/roi/gradient.h"
#include "cuda/lane_sum.h"
#include "cuda/launch.h"
#include "cuda/roi/map_layout.h"

namespace visops {
namespace {

// Lists in shared memory, in the order of the block's threads.

constexpr int kMostListWarps = 8;  // of a block that lists

// Appends `item` of every thread that wants it to the `count` items listed, and returns how many
// there are then. Called by all threads of the block, which synchronise here: items may be read
// when this returns, and stay until all threads have called it again.
template <class Item>
__device__ int append_in_order(bool is_wanted, const Item& item, int count, Item* items,
                               int* in_warps) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const unsigned wanted = __ballot_sync(0xffffffffu, is_wanted);
  if (lane == 0) in_warps[warp] = __popc(wanted);
  __syncthreads();
  int at = count;
  for (int w = 0; w < warps; ++w) {
    if (w < warp) at += in_warps[w];
    count += in_warps[w];
  }
  if (is_wanted) items[at + __popc(wanted & ((1u << lane) - 1u))] = item;
  __syncthreads();
  return count;
}

constexpr int kTileRows = 8;
constexpr int kTileThreads = kTileRows * kWarp;

// Sample positions never fall from one bin or sample to the next, even when rounded.
template <class Acc>
__device__ bool span_of(const RoiAxis<Acc>& axis, int32_t* first, int32_t* last) {
  if (axis.grid == 0) return false;
  const Acc low = sample_at(axis, 0, 0), high = sample_at(axis, axis.bins - 1, axis.grid - 1);
  const Acc extent = static_cast<Acc>(axis.extent);
  if (!(low <= extent && high >= static_cast<Acc>(-1))) return false;
  *first = roi_taps(low, axis.extent).low;
  *last = roi_taps(high < extent ? high : extent, axis.extent).high;
  return true;
}

template <class Acc>
__global__ void __launch_bounds__(kTileThreads)
    roi_spans(const __grid_constant__ RoiAlignParams p, const SpansOfBoxes to, Roi<Acc>* rois) {
  const int64_t step = int64_t{gridDim.x} * kTileThreads;
  for (int64_t k = int64_t{blockIdx.x} * kTileThreads + threadIdx.x; k < p.boxes.count; k += step) {
    const Roi<Acc> roi = load_roi<Acc>(p, k);
    rois[k] = roi;
    RoiSpan span = {k, 0, 0, 0, 0};
    const bool reads = roi.valid && span_of(roi.y, &span.first_row, &span.last_row) &&
                       span_of(roi.x, &span.first_column, &span.last_column);
    to.spans[k] = span;
    to.map[k] = reads ? roi.level * p.images + roi.image : -1;
  }
}

// The tiles of all levels that one launch takes. The last level, with many boxes to a tile, comes
// first. A Shape says how many rows and columns a tile has (kRows, kColumns) and which maps it is
// for.
template <class Shape>
struct TileGrid {
  int64_t begin[kMostRoiLevels];  // of a level's blocks; -1: not in this launch
  int64_t rows[kMostRoiLevels], columns[kMostRoiLevels];
  int64_t slices, slice_channels, count;
};

// For maps of so many channels, of which a block takes `slice_channels`.
template <class Shape>
TileGrid<Shape> tile_grid(const RoiAlignParams& p, int64_t channels, int64_t slice_channels) {
  TileGrid<Shape> grid = {};
  grid.slices = parts_of(channels, slice_channels);
  grid.slice_channels = slice_channels;
  for (int64_t level = p.levels - 1; level >= 0; --level) {
    const RoiMap& map = p.maps[level];
    grid.begin[level] = -1;
    if (!Shape::is_for(map, channels)) continue;
    grid.begin[level] = grid.count;
    grid.rows[level] = parts_of(map.height, Shape::kRows);
    grid.columns[level] = parts_of(map.width, Shape::kColumns);
    grid.count += p.images * grid.rows[level] * grid.columns[level] * grid.slices;
  }
  return grid;
}

// The first row, column and channel of a tile.
struct Tile {
  int level, row, column;
  int64_t image, channel;
};

// In blocks where each warp has a row.
__device__ inline int row_of_thread() { return static_cast<int>(threadIdx.x) / kWarp; }
__device__ inline int lane_of_thread() { return static_cast<int>(threadIdx.x) % kWarp; }

template <class Shape>
__device__ Tile tile_at(const TileGrid<Shape>& grid, int64_t block) {
  Tile tile;
  tile.level = 0;
  while (grid.begin[tile.level] < 0 || grid.begin[tile.level] > block) ++tile.level;
  block -= grid.begin[tile.level];
  const int64_t tiles = block / grid.slices, rows = tiles / grid.columns[tile.level];
  tile.image = rows / grid.rows[tile.level];
  tile.row = static_cast<int>((rows - tile.image * grid.rows[tile.level]) * Shape::kRows);
  tile.column = static_cast<int>((tiles - rows * grid.columns[tile.level]) * Shape::kColumns);
  tile.channel = (block - tiles * grid.slices) * grid.slice_channels;
  return tile;
}

constexpr int kMostListed = 2 * kTileThreads;

// Boxes that reach a block's tile.
struct BoxList {
  int64_t box[kMostListed];
  int in_warps[kMostListWarps];
};

// Lists them by rising index, and calls f(count) whenever the list is full and once for the rest.
// Called by all threads of the block, which synchronise here; the list stays as it is until all of
// them have returned from f.
template <class Shape, class F>
__device__ void for_boxes_of(const RoiAlignParams& p, const BoxesOfMaps& boxes, const Tile& tile,
                             BoxList* list, const F& f) {
  const BoxRange* of_map = boxes.of_map + tile.level * p.images + tile.image;
  const int64_t last_row = int64_t{tile.row} + Shape::kRows - 1;
  const int64_t last_column = int64_t{tile.column} + Shape::kColumns - 1;
  const int threads = static_cast<int>(blockDim.x);
  int count = 0;
  for (int64_t base = of_map->begin; base < of_map->end; base += threads) {
    const int64_t at = base + threadIdx.x;
    RoiSpan span = {};
    if (at < of_map->end) span = boxes.spans[at];
    const bool hit = at < of_map->end && meets(span, tile.row, last_row, tile.column, last_column);
    count = append_in_order(hit, span.box, count, list->box, list->in_warps);
    const bool last = base + threads >= of_map->end;
    if (count > 0 && (last || count > kMostListed - threads)) {
      f(count);
      count = 0;
    }
  }
}

// All bins that may read certain pixels are in begin <= b < end; bins lie by rising pixels.
struct BinSpan {
  int32_t begin, end;
};

template <class Acc>
__device__ BinSpan bins_between(const RoiAxis<Acc>& axis, int32_t first, int32_t last) {
  const Acc extent = static_cast<Acc>(axis.extent);
  BinSpan span = {0, axis.bins};
  for (int32_t found = axis.bins; span.begin < found;) {  // whose last sample reaches `first`
    const int32_t middle = span.begin + (found - span.begin) / 2;
    const Acc at = sample_at(axis, middle, axis.grid - 1);
    const bool reaches = at >= static_cast<Acc>(-1) &&
                         roi_taps(at < extent ? at : extent, axis.extent).high >= first;
    if (reaches) {
      found = middle;
    } else {
      span.begin = middle + 1;
    }
  }
  for (int32_t from = span.begin; from < span.end;) {  // whose first sample is beyond `last`
    const int32_t middle = from + (span.end - from) / 2;
    const Acc at = sample_at(axis, middle, 0);
    const bool is_beyond = !(at <= extent) || roi_taps(at, axis.extent).low > last;
    if (is_beyond) {
      span.end = middle;
    } else {
      from = middle + 1;
    }
  }
  return span;
}

// In scratch, too.
template <class Acc>
struct ListedRois : BoxesOfMaps {
  const Roi<Acc>* rois;  // [count] box by box
};

template <class Acc>
ListedRois<Acc> list_rois(const RoiAlignParams& p, Workspace& workspace) {
  const int64_t count = p.boxes.count;
  Roi<Acc>* rois = allocate<Roi<Acc>>(workspace, count);
  const auto write_spans = [&](const SpansOfBoxes& spans) {
    launch(roi_spans<Acc>, grid_for(parts_of(count, kTileThreads)), dim3(kTileThreads), 0,
           workspace.stream(), p, spans, rois);
  };
  return {list_boxes(count, p.levels * p.images, workspace, write_spans), rois};
}

// The sums of NOTE [ Gradient of the boxes ] (core/roi/gradient.h) on CUDA: a block has a box, a
// warp one row of its bins at a time, and lane l the channels l, l + 32, ...

constexpr int kSumWarps = 8;
constexpr int kSumThreads = kSumWarps * kWarpLanes;

template <class Acc>
struct BoxSums {
  Acc x1, y1, x2, y2;
};

// What the warps of a block pass to the first one.
template <class Acc>
struct RowSums {
  BoxSums<Acc> of_row[kSumWarps][kWarpLanes];
};

// Writes the gradient of box k. row_sums(y) returns this lane's sums of one row of bins. Called by
// all threads of the block, which synchronise here.
template <class Acc, class F>
__device__ void sum_rows(const RoiAlignParams& p, int64_t k, const Roi<Acc>& roi,
                         RowSums<Acc>* shared, const F& row_sums) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  BoxSums<Acc> total = {};  // of the first warp
  for (int64_t first = 0; roi.valid && first < p.bins_y; first += kSumWarps) {
    if (first + warp < p.bins_y)
      shared->of_row[warp][lane] = row_sums(static_cast<int32_t>(first + warp));
    __syncthreads();
    for (int w = 0; warp == 0 && w < kSumWarps && first + w < p.bins_y; ++w) {
      const BoxSums<Acc>& row = shared->of_row[w][lane];
      total.x1 += row.x1;
      total.y1 += row.y1;
      total.x2 += row.x2;
      total.y2 += row.y2;
    }
    __syncthreads();
  }
  if (warp != 0) return;
  const Acc sums[4] = {sum_lanes(total.x1), sum_lanes(total.y1), sum_lanes(total.x2),
                       sum_lanes(total.y2)};
  if (lane == 0) store_box_gradient(p, k, static_cast<Acc>(p.maps[roi.level].scale), sums);
}

}  // namespace
}  // namespace visops
