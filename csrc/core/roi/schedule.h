// How RoIAlign's CPU kernels share out their work. Compiled once: nothing here depends on the
// instruction set, and kernel files may not hold containers.
//
// NOTE [ RoIAlign schedules ]
// A kernel is a RoiTask, and one of the functions below runs it in parallel. No sum is split
// between tasks, so the number of threads can't change a result.
//
// By boxes: task i computes box order[i]. Boxes of a map that lie near one another follow one
// another, so that their pixels are still in the cache.
//
// By slices: blocks of channels of maps are dealt out evenly. A slice takes one block of channels
// through all maps before the next block, so slices cost about the same however boxes are spread
// over the levels. Each slice has scratch of its own.
#pragma once

#include "core/dispatch/workspace.h"
#include "core/roi/align.h"

namespace visops {

// Channels that kernels sum in registers at once, and the step for those left over.
constexpr int kSummedChannels = 64, kFewSummedChannels = 16;

// A row of pixels that a row of bins reads. The weight includes the mean's divisor.
template <class Acc>
struct RoiRow {
  int32_t pixel, bin;
  Acc weight;
};

template <class Acc>
struct RoiColumn {
  int32_t pixel;
  Acc weight;
};

// The pixels of a box's bins, listed once for all channels.
template <class Acc>
struct RoiTable {
  const RoiRow<Acc>* rows;        // [row_count], by rising pixel, then by bin
  const RoiColumn<Acc>* columns;  // bin by bin, by rising pixel
  const int32_t* column_end;      // [bins_x] where each bin ends in `columns`
  int64_t row_count, level, image;
  int64_t first_column, last_column;  // all columns' pixels lie between these; both included
};

struct RoiPlan {
  const int64_t* order;      // [count] boxes by level, then image, then place or index
  const int64_t* map_begin;  // [levels * images + 1] where each map's boxes begin in `order`
  const void* tables;        // [count] RoiTable<Acc>; null for schedules without lists

  // By slices only.
  int64_t slices, block_channels;
  char* scratch;          // [slices, scratch_bytes], each aligned to 64 bytes
  int64_t scratch_bytes;  // begins with room for a box's bins of a block: [bins, block_channels]
};

// Computes boxes, or slices, [begin, end).
using RoiTask = void (*)(const RoiAlignParams&, const RoiPlan&, int64_t begin, int64_t end);

// By boxes: without lists, or with `tables`.
void run_over_boxes(const RoiAlignParams& p, Workspace& workspace, RoiTask task);
void run_over_listed_boxes(const RoiAlignParams& p, Workspace& workspace, RoiTask task);

// By slices, with `tables` and boxes sorted by place. After a box's bins, scratch has room for a
// whole map's pixels where that fits a cache, else for at least a row of them.
void run_over_blocks(const RoiAlignParams& p, Workspace& workspace, RoiTask task);

// By slices, with boxes sorted by index: sums into maps. After a box's bins, scratch has room for
// some rows of the map, unless maps are summed in place. `tables` are listed for means; maxima have
// one sample each (p.index) and need none.
void run_over_gradient_blocks(const RoiAlignParams& p, Workspace& workspace, RoiTask task);

// Whether kernels can use the maps where they lie: on all levels channels are adjacent and of the
// type that is computed in.
bool uses_maps_in_place(const RoiAlignParams& p);

// The cost of a box in elements touched: a bin reads about two pixels each way.
int64_t box_cost(const RoiAlignParams& p);

}  // namespace visops
