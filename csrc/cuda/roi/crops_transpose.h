// NOTE [ Transposed samples on CUDA ]
// A block has a tile of the gradient, for a few channels, and a thread one of its pixels. NOTE
// [ Tables of a grid ] says which places of a box's grid have taps on the tile. What these places
// hold, and the taps of their rows and columns, go to shared memory first: each is loaded, or
// computed, once for the tile, by lanes that read adjacent elements. Then a thread adds up those
// with a tap on its pixel, in the order of NOTE [ Transposed samples ] (core/roi/crops.h). No
// atomics; the bits are the CPU's.
//
// Shared memory has a piece of the grid at a time: all columns with taps on the tile, and as many
// rows as fit. If there are too many columns, a piece is part of a row, and threads keep the sum
// along the row from one piece to the next.
#pragma once

#include "cuda/roi/crops_lists.h"
#include "cuda/roi/crops_tiles.h"
#include "cuda/roi/grid_tables.h"

namespace visops {
namespace {

constexpr int kStagedRowTaps = 128, kStagedColumnTaps = 512;
template <class Acc>
constexpr int kStagedPositions = 16384 / (kChannelGroup * static_cast<int>(sizeof(Acc)));

// The taps of a piece's rows or columns: [taps, lines].
template <class Acc, int most>
struct StagedTaps {
  int32_t index[most];
  Acc weight[most];

  // Called by all threads of the block. `first` is where the first line is in the tables.
  __device__ void load(const GridTables<Acc>& tables, int64_t first, int lines) {
    for (int t = 0; t < tables.taps; ++t) {
#pragma unroll 1
      for (int i = static_cast<int>(threadIdx.x); i < lines; i += kListThreads) {
        const int64_t tap = first + t * tables.lines + i;
        index[t * lines + i] = tables.index[tap];
        weight[t * lines + i] = tables.weight[tap];
      }
    }
  }
};

// In shared memory.
template <class Acc>
struct TransposeStage {
  Positions lines[kTargetWidth + kTargetHeight];  // with taps on the tile's columns, then its rows
  Positions columns, rows;                        // that hold all of these
  StagedTaps<Acc, kStagedColumnTaps> across;      // of a piece
  StagedTaps<Acc, kStagedRowTaps> down;
  Acc values[kChannelGroup][kStagedPositions<Acc>];
};

// Part of a grid. A thread's sum along a row starts in the row's first piece, and is added to its
// pixel in the last.
struct Piece {
  Positions rows, columns;
  bool is_first, is_last;
};

__device__ inline int size_of(const Positions& positions) {
  return positions.end - positions.begin;
}

__device__ inline Positions intersect(const Positions& a, const Positions& b) {
  return {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
}

// All places of a warp's lanes; without places, the size is not above 0.
__device__ inline Positions all_of_warp(const Positions& own) {
  const bool is_empty = size_of(own) <= 0;
  Positions all = {is_empty ? INT32_MAX : own.begin, is_empty ? 0 : own.end};
  for (int step = kListWarp / 2; step > 0; step /= 2) {
    const int32_t begin = __shfl_xor_sync(0xffffffffu, all.begin, step);
    const int32_t end = __shfl_xor_sync(0xffffffffu, all.end, step);
    all = {all.begin < begin ? all.begin : begin, all.end > end ? all.end : end};
  }
  return all;
}

// Finds the places of box k's grid that have taps on a tile of [height, width]; false if there are
// none. Called by all threads of the block, which synchronise here.
template <class Acc>
__device__ bool find_positions(const GridTables<Acc>& tables, int64_t k, const TargetTile& at,
                               int64_t height, int64_t width, TransposeStage<Acc>* stage) {
  static_assert(kTargetWidth == kListWarp, "a warp has the columns, and the next one the rows");
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kListWarp;
  if (thread < 2 * kListWarp) {
    const bool is_column = thread < kListWarp;
    Positions own = {0, 0};
    if (is_column) {
      if (at.x + lane < width) own = tables.positions_on_column(k, at.x + lane);
    } else if (lane < kTargetHeight && at.y + lane < height) {
      own = tables.positions_on_row(k, at.y + lane);
    }
    if (is_column || lane < kTargetHeight) stage->lines[thread] = own;
    const Positions all = all_of_warp(own);
    if (lane == 0) (is_column ? stage->columns : stage->rows) = all;
  }
  __syncthreads();
  if (size_of(stage->columns) > 0 && size_of(stage->rows) > 0) return true;
  __syncthreads();  // before another box's places replace these
  return false;
}

// `values` has place(i, j), called once before at(channel) for the channels of that place.
template <class Acc, class Values>
__device__ void stage_values(const Piece& piece, int channels, Values& values,
                             TransposeStage<Acc>* stage) {
  const unsigned width = size_of(piece.columns), count = width * size_of(piece.rows);
#pragma unroll 1
  for (unsigned n = threadIdx.x; n < count; n += kListThreads) {
    const unsigned row = n / width, column = n - row * width;
    values.position(int64_t{piece.rows.begin} + row, int64_t{piece.columns.begin} + column);
    for (int c = 0; c < kChannelGroup; ++c) {
      if (c < channels) stage->values[c][n] = values.at(c);
    }
  }
}

// Adds the thread's share of a piece.
template <class Acc>
__device__ void add_piece(const TransposeStage<Acc>& stage, const Piece& piece,
                          const TargetTile& at, int taps, int channels, Acc along[kChannelGroup],
                          Acc sum[kChannelGroup]) {
  const int thread = static_cast<int>(threadIdx.x);
  const int column = thread % kTargetWidth, row = thread / kTargetWidth;
  const int x = static_cast<int>(at.x) + column, y = static_cast<int>(at.y) + row;
  const Positions columns = intersect(stage.lines[column], piece.columns);
  const Positions rows = intersect(stage.lines[kTargetWidth + row], piece.rows);
  const int width = size_of(piece.columns), height = size_of(piece.rows);
#pragma unroll 1
  for (int i = rows.begin; i < rows.end; ++i) {
    const int in_rows = i - piece.rows.begin;
    if (piece.is_first) {
      for (int c = 0; c < kChannelGroup; ++c) along[c] = static_cast<Acc>(0);
    }
#pragma unroll 1
    for (int j = columns.begin; j < columns.end; ++j) {
      const int in_columns = j - piece.columns.begin;
      const int position = in_rows * width + in_columns;
#pragma unroll 1
      for (int t = 0; t < taps; ++t) {
        const int tap = t * width + in_columns;
        if (stage.across.index[tap] != x) continue;
        const Acc weight = stage.across.weight[tap];
        for (int c = 0; c < kChannelGroup; ++c) {
          if (c < channels) along[c] += weight * stage.values[c][position];
        }
      }
    }
    if (!piece.is_last) continue;
#pragma unroll 1
    for (int r = 0; r < taps; ++r) {
      const int tap = r * height + in_rows;
      if (stage.down.index[tap] != y) continue;
      const Acc weight = stage.down.weight[tap];
      for (int c = 0; c < kChannelGroup; ++c) {
        if (c < channels) sum[c] += weight * along[c];
      }
    }
  }
}

// Adds box k's share, given that find_positions() has found some. Called by all threads of the
// block, which synchronise here.
template <class Acc, class Values>
__device__ void gather_transposed(const GridTables<Acc>& tables, int64_t k, const TargetTile& at,
                                  int channels, Values& values, TransposeStage<Acc>* stage,
                                  Acc sum[kChannelGroup]) {
  static_assert(kStagedColumnTaps <= kStagedPositions<Acc>, "a piece has a row at least");
  const Positions rows = stage->rows, columns = stage->columns;
  const int most_columns = kStagedColumnTaps / tables.taps;
  const int most_rows = kStagedRowTaps / tables.taps;
  const bool is_split = size_of(columns) > most_columns;
  const int width = is_split ? most_columns : size_of(columns);
  const int fitting = is_split ? 1 : kStagedPositions<Acc> / width;
  const int height = fitting < most_rows ? fitting : most_rows;
  Acc along[kChannelGroup] = {};
  for (int i = rows.begin; i < rows.end; i += height) {
    for (int j = columns.begin; j < columns.end; j += width) {
      const Piece piece = {intersect(rows, {i, i + height}), intersect(columns, {j, j + width}),
                           j == columns.begin, j + width >= columns.end};
      if (is_split || i == rows.begin) {
        stage->across.load(tables, tables.column(k, j), size_of(piece.columns));
      }
      stage->down.load(tables, tables.row(k, i), size_of(piece.rows));
      stage_values(piece, channels, values, stage);
      __syncthreads();
      add_piece(*stage, piece, at, tables.taps, channels, along, sum);
      __syncthreads();  // before the next piece, or box, replaces this one
    }
  }
}

}  // namespace
}  // namespace visops
