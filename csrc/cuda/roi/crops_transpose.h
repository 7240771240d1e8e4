// NOTE [ Transposed samples on CUDA ]
// A thread has one pixel of the gradient, for a few channels. It takes the places of a box's grid
// that have a tap on it, and their weights, from NOTE [ Tables of a grid ], and adds them up in the
// order of NOTE [ Transposed samples ] (core/roi/crops.h). No atomics; the bits are the CPU's.
#pragma once

#include "cuda/roi/crops_tiles.h"
#include "cuda/roi/grid_tables.h"

namespace visops {
namespace {

// The sum along row i of a box's grid.
template <class Acc, class Values>
__device__ void gather_row(const GridTables<Acc>& tables, int64_t k, int i, const Places& columns,
                           int64_t x, int channels, Values& values, Acc along[kChannelGroup]) {
  for (int c = 0; c < kChannelGroup; ++c) along[c] = static_cast<Acc>(0);
  for (int j = columns.begin; j < columns.end; ++j) {
    const int64_t across = tables.column(k, j);
    bool is_placed = false;
#pragma unroll 1
    for (int t = 0; t < tables.taps; ++t) {
      const int64_t tap = across + t * tables.lines;
      if (tables.index[tap] != x) continue;
      if (!is_placed) values.place(i, j);
      is_placed = true;
      const Acc weight = tables.weight[tap];
      for (int c = 0; c < kChannelGroup; ++c) {
        if (c < channels) along[c] += weight * values.at(c);
      }
    }
  }
}

// Box k's share. `values` has place(i, j), called once before at(channel) for the channels of that
// place.
template <class Acc, class Values>
__device__ void gather_transposed(const GridTables<Acc>& tables, int64_t k, int64_t y, int64_t x,
                                  int channels, Values& values, Acc sum[kChannelGroup]) {
  const Places rows = tables.places_on_row(k, y), columns = tables.places_on_column(k, x);
  if (columns.begin >= columns.end) return;
  for (int i = rows.begin; i < rows.end; ++i) {
    const int64_t down = tables.row(k, i);
    Acc along[kChannelGroup];
    bool is_here = false;
#pragma unroll 1
    for (int r = 0; r < tables.taps; ++r) {
      const int64_t tap = down + r * tables.lines;
      if (tables.index[tap] != y) continue;
      if (!is_here) gather_row(tables, k, i, columns, x, channels, values, along);
      is_here = true;
      for (int c = 0; c < kChannelGroup; ++c) sum[c] += tables.weight[tap] * along[c];
    }
  }
}

}  // namespace
}  // namespace visops
