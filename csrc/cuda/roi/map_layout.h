// The boxes of each map, for kernels whose blocks have tiles of maps: a block then goes through the
// boxes of its map, not through all of them.
//
// A first kernel computes once what each box reaches, as RoiSpan. Here a block per map copies those
// of its boxes to a place of their own, by rising index: it counts the boxes of earlier maps, and
// so knows where its own begin. No sort, no atomics, and nothing for the host to wait for.
#pragma once

#include "core/dispatch/workspace.h"
#include "core/numbers/arithmetic.h"
#include "core/numbers/element.h"
#include "core/roi/align.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// Maps of RoIAlign on CUDA: their pixels, and what the threads of a warp are.

constexpr int kWarp = 32;

// Whether the lanes of a warp are channels, so that it reads and writes adjacent elements; else
// they are bins, or pixels of a row.
VISOPS_FN bool lanes_are_channels(const RoiMap& map, int64_t channels) {
  return map.channel_stride == 1 && channels >= kWarp;
}

// Box k. One that is not valid is on level 0: level_of_box() may have found none.
template <class Acc>
__device__ Roi<Acc> load_box(const RoiAlignParams& p, int64_t k) {
  Roi<Acc> roi = load_roi<Acc>(p, k);
  if (!roi.valid) roi.level = 0;
  return roi;
}

// How far the last of `count` elements is from the first.
inline int64_t stretch(int64_t count, int64_t stride) {
  return count > 0 ? (count - 1) * stride : 0;
}

// As much for a box's bins, and a channel beyond them.
inline int64_t stretch_of_bins(const RoiAlignParams& p) {
  return stretch(p.channels + 1, p.channel_stride) + stretch(p.bins_y, p.bin_row_stride) +
         stretch(p.bins_x, p.bin_column_stride);
}

VISOPS_FN int64_t stride_of(const RoiMap& map, bool of_rows) {
  return of_rows ? map.row_stride : map.column_stride;
}

template <int most>
VISOPS_FN int at_most(int64_t count) {
  return count < most ? static_cast<int>(count) : most;
}

constexpr int kSpanWarps = 8;
constexpr int kSpanThreads = 32 * kSpanWarps;

// Where a box reads: all of its pixels lie within these rows and columns, both ends included.
struct RoiSpan {
  int64_t box;
  int32_t first_row, last_row, first_column, last_column;
};

VISOPS_FN bool meets(const RoiSpan& span, int64_t first_row, int64_t last_row, int64_t first_column,
                     int64_t last_column) {
  return span.first_row <= last_row && span.last_row >= first_row &&
         span.first_column <= last_column && span.last_column >= first_column;
}

struct BoxRange {
  int64_t begin, end;
};

// All in scratch.
struct BoxesOfMaps {
  RoiSpan* spans;  // [count] map by map, each by rising index; boxes that read nothing are left out
  BoxRange* of_map;  // [maps] where its spans are
};

// Spans as they are computed.
struct SpansOfBoxes {
  RoiSpan* spans;  // [count]
  int64_t* map;    // [count] the map that the box reads; -1: it reads nothing
};

// The sum over the block, for all threads, which synchronise here.
__device__ inline int64_t sum_of_block(int64_t count, int64_t* of_warp) {
  for (int step = 16; step > 0; step /= 2) count += __shfl_xor_sync(0xffffffffu, count, step);
  __syncthreads();  // all have read the last sums
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = count;
  __syncthreads();
  int64_t sum = 0;
  for (int w = 0; w < kSpanWarps; ++w) sum += of_warp[w];
  return sum;
}

__global__ void __launch_bounds__(kSpanThreads)
    list_boxes_of_maps(const SpansOfBoxes from, const int64_t count, const int64_t maps,
                       const BoxesOfMaps to) {
  __shared__ int64_t of_warp[kSpanWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int64_t map = blockIdx.x; map < maps; map += gridDim.x) {
    int64_t earlier = 0;
    for (int64_t k = threadIdx.x; k < count; k += kSpanThreads) {
      earlier += from.map[k] >= 0 && from.map[k] < map;
    }
    const int64_t begin = sum_of_block(earlier, of_warp);
    int64_t end = begin;
    for (int64_t first = 0; first < count; first += kSpanThreads) {
      const int64_t k = first + threadIdx.x;
      const bool mine = k < count && from.map[k] == map;
      const unsigned ballot = __ballot_sync(0xffffffffu, mine);
      __syncthreads();  // all have read the last counts
      if (lane == 0) of_warp[warp] = __popc(ballot);
      __syncthreads();
      int64_t at = end + __popc(ballot & ((1u << lane) - 1));
      for (int w = 0; w < kSpanWarps; ++w) {
        if (w < warp) at += of_warp[w];
        end += of_warp[w];
      }
      if (mine) to.spans[at] = from.spans[k];
    }
    if (threadIdx.x == 0) to.of_map[map] = {begin, end};
  }
}

// Lists `count` boxes of `maps` maps. write_spans(spans) starts the kernel that fills them.
template <class WriteSpans>
BoxesOfMaps list_boxes(int64_t count, int64_t maps, Workspace& workspace,
                       const WriteSpans& write_spans) {
  const SpansOfBoxes from = {allocate<RoiSpan>(workspace, count),
                             allocate<int64_t>(workspace, count)};
  const BoxesOfMaps to = {allocate<RoiSpan>(workspace, count), allocate<BoxRange>(workspace, maps)};
  write_spans(from);
  launch(list_boxes_of_maps, grid_for(maps), dim3(kSpanThreads), 0, workspace.stream(), from, count,
         maps, to);
  return to;
}

}  // namespace
}  // namespace visops
