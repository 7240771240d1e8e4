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

#include "core/dispatch/workspace.h"
#include "core/roi/crops.h"
#include "cuda/launch.h"
#include "cuda/pixel_gradient.h"
#include "cuda/roi/crops_tiles.h"
#include "cuda/roi/map_layout.h"

namespace visops {
namespace {

// Where the samples of crops and pastes lie, computed once for a call.
//
// NOTE [ Tables of a grid ]
// A box's samples are a grid, and their taps along one axis depend on a column or row of it alone
// (NOTE [ Crop coordinates ]). These positions take float64, of which most GPUs have little. So one
// kernel writes the taps of every column and row of every box, and another the places of the grid
// that have a tap on each column and row of what is sampled. What then goes over pixels only reads
// them. Lines are a box's columns, then its rows; those that a box has no use for are not written.

constexpr int kTableThreads = 128;
constexpr int kMostTaps = tap_count(Interpolation::kBicubic);

// All boxes and their grids.
struct Grids {
  const CropMap* maps;  // [count]
  int64_t count, images;
  Interpolation mode;
  Padding padding;
  int64_t width, height;                // of the grid: the largest place is one less
  int64_t target_width, target_height;  // of what is sampled

  VISOPS_DEVICE int64_t lines() const { return width + height; }
  VISOPS_DEVICE int64_t target_lines() const { return target_width + target_height; }
  VISOPS_DEVICE Interpolation mode_of(const CropMap& map) const {
    return map.integral ? Interpolation::kNearest : mode;
  }
};

// Places begin <= i < end of a grid's axis.
struct Positions {
  int32_t begin, end;
};

template <class Acc>
struct GridTables {
  int64_t lines, columns;                // of a grid
  int64_t target_lines, target_columns;  // of what is sampled
  int taps;
  int32_t* index;        // [boxes, taps, lines] -1: no tap
  Acc* weight;           // [boxes, taps, lines]
  Positions* positions;  // [boxes, target lines]

  // Where the first tap of a line is; others are `lines` apart.
  __device__ int64_t column(int64_t k, int64_t j) const { return k * taps * lines + j; }
  __device__ int64_t row(int64_t k, int64_t i) const { return column(k, columns + i); }
  __device__ Positions positions_on_column(int64_t k, int64_t x) const {
    return positions[k * target_lines + x];
  }
  __device__ Positions positions_on_row(int64_t k, int64_t y) const {
    return positions_on_column(k, target_columns + y);
  }

  // The taps of a line, given its column() or row(), as axis_taps() returns them.
  template <Interpolation mode>
  __device__ AxisTaps<mode, Acc> taps_at(int64_t line) const {
    AxisTaps<mode, Acc> line_taps;
    for (int t = 0; t < tap_count(mode); ++t) {
      line_taps.index[t] = index[line + t * lines];
      line_taps.weight[t] = weight[line + t * lines];
    }
    // Bilinear's second weight is the fraction; the others' blends don't need it.
    line_taps.t = line_taps.weight[mode == Interpolation::kBilinear ? 1 : 0];
    return line_taps;
  }
};

// One line of a box, of the grid or of what is sampled.
struct LineOfBox {
  int64_t box, position;
  bool is_column;

  __device__ LineOfBox(int64_t i, int64_t lines, int64_t columns) {
    box = i / lines;
    position = i - box * lines;
    is_column = position < columns;
    if (!is_column) position -= columns;
  }
};

template <Interpolation mode, class Acc>
__device__ void write_taps(const Grids& g, const GridAxis& axis, int64_t position, int64_t size,
                           int32_t* index, Acc* weight, int64_t step) {
  const auto taps = grid_taps<mode, Acc>(axis, position, g.padding, size);
  const int count = tap_count(g.mode);
#pragma unroll
  for (int t = 0; t < kMostTaps; ++t) {
    if (t >= count) break;
    const bool is_tap = t < tap_count(mode);
    index[t * step] = is_tap ? taps.index[is_tap ? t : 0] : -1;
    weight[t * step] = is_tap ? taps.weight[is_tap ? t : 0] : static_cast<Acc>(0);
  }
}

template <class Acc>
__global__ void __launch_bounds__(kTableThreads)
    write_grid_taps(const __grid_constant__ Grids g, const GridTables<Acc> tables) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kTableThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kTableThreads + threadIdx.x;
       i < g.count * g.lines(); i += stride) {
    const LineOfBox line(i, g.lines(), g.width);
    const CropMap& map = g.maps[line.box];
    const Span grid = line.is_column ? map.columns : map.rows;
    if (map.image < 0 || !contains(grid, line.position)) continue;
    const GridAxis axis = line.is_column ? map.x : map.y;
    const int64_t size = line.is_column ? g.target_width : g.target_height;
    const int64_t first = line.is_column ? tables.column(line.box, line.position)
                                         : tables.row(line.box, line.position);
    int32_t* index = tables.index + first;
    Acc* weight = tables.weight + first;
    with_mode(g.mode_of(map), [&](auto mode) {
      write_taps<mode.value>(g, axis, line.position, size, index, weight, g.lines());
    });
  }
}

__device__ inline Span positions_near(const Grids& g, const CropMap& map, const LineOfBox& line) {
  const GridAxis axis = line.is_column ? map.x : map.y;
  const Span grid = line.is_column ? map.columns : map.rows;
  const int64_t size = line.is_column ? g.target_width : g.target_height;
  return with_mode(g.mode_of(map), [&](auto mode) {
    return grid_positions<mode.value>(axis, grid, g.padding, size, line.position);
  });
}

template <class Acc>
__device__ bool has_tap(const GridTables<Acc>& tables, int64_t line, int64_t target) {
  for (int t = 0; t < tables.taps; ++t) {
    if (tables.index[line + t * tables.lines] == target) return true;
  }
  return false;
}

template <class Acc>
__global__ void __launch_bounds__(kTableThreads)
    find_grid_positions(const __grid_constant__ Grids g, const GridTables<Acc> tables) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kTableThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kTableThreads + threadIdx.x;
       i < g.count * g.target_lines(); i += stride) {
    const LineOfBox line(i, g.target_lines(), g.target_width);
    const CropMap& map = g.maps[line.box];
    if (map.image < 0) continue;
    const Span reach = line.is_column ? map.reach_x : map.reach_y;
    Span positions = {0, 0};
    if (contains(reach, line.position)) positions = positions_near(g, map, line);
    const int64_t first = line.is_column ? tables.column(line.box, 0) : tables.row(line.box, 0);
    const auto is_on = [&](int64_t position) {
      return has_tap(tables, first + position, line.position);
    };
    while (positions.begin < positions.end && !is_on(positions.begin)) ++positions.begin;
    while (positions.begin < positions.end && !is_on(positions.end - 1)) --positions.end;
    tables.positions[i] = {static_cast<int32_t>(positions.begin),
                           static_cast<int32_t>(positions.end)};
  }
}

template <class Acc>
GridTables<Acc> make_grid_tables(const Grids& g, Workspace& workspace) {
  GridTables<Acc> tables = {};
  tables.lines = g.width + g.height;
  tables.columns = g.width;
  tables.target_lines = g.target_width + g.target_height;
  tables.target_columns = g.target_width;
  tables.taps = tap_count(g.mode);
  const int64_t taps = g.count * tables.lines * tables.taps;
  tables.index = allocate<int32_t>(workspace, taps);
  tables.weight = allocate<Acc>(workspace, taps);
  tables.positions = allocate<Positions>(workspace, g.count * tables.target_lines);
  const auto start = [&](auto kernel, int64_t count) {
    launch(kernel, grid_for((count + kTableThreads - 1) / kTableThreads), dim3(kTableThreads), 0,
           workspace.stream(), g, tables);
  };
  start(write_grid_taps<Acc>, g.count * tables.lines);
  start(find_grid_positions<Acc>, g.count * tables.target_lines);
  return tables;
}

// `of_grid`: spans are those of the grid's places; else of what is sampled.
__global__ void __launch_bounds__(kTableThreads)
    write_grid_spans(const __grid_constant__ Grids g, const SpansOfBoxes to, const bool of_grid) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kTableThreads;
  for (int64_t k = static_cast<int64_t>(blockIdx.x) * kTableThreads + threadIdx.x; k < g.count;
       k += stride) {
    const CropMap& map = g.maps[k];
    const Span rows = of_grid ? map.rows : map.reach_y;
    const Span columns = of_grid ? map.columns : map.reach_x;
    const bool reads = map.image >= 0 && rows.begin < rows.end && columns.begin < columns.end;
    to.map[k] = reads ? map.image : -1;
    to.spans[k] = {k, static_cast<int32_t>(rows.begin), static_cast<int32_t>(rows.end - 1),
                   static_cast<int32_t>(columns.begin), static_cast<int32_t>(columns.end - 1)};
  }
}

BoxesOfMaps list_grids(const Grids& g, bool of_grid, Workspace& workspace) {
  return list_boxes(g.count, g.images, workspace, [&](const SpansOfBoxes& spans) {
    launch(write_grid_spans, grid_for((g.count + kTableThreads - 1) / kTableThreads),
           dim3(kTableThreads), 0, workspace.stream(), g, spans, of_grid);
  });
}

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
