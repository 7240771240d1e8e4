// Channels and rectangles that are filled, as operations of chains.
#pragma once

#include <cstdint>
#include <vector>

#include "core/numbers/philox.h"
#include "core/pixels/operations.h"

namespace visops {

// Rectangles that are filled, and what fills them: the arithmetic that all backends share.
//
// NOTE [ Dropouts ]
// An operation has the random numbers of its key, in this order: those that its rectangles need,
// then those that fill them, rectangle by rectangle, channel by channel. So the place of each is
// known, and GPUs draw it where they need it. Where rectangles overlap, the last one counts.

// A value, a random one for each pixel and channel, or one for each rectangle and channel.
enum class Filling : int32_t { kValue, kPixels, kColors };

struct Hole {
  int32_t left, top, width, height;
  int32_t channel, channels;  // the first one, and how many
  int64_t number;             // its first random number

  VISOPS_DEVICE int64_t area() const { return static_cast<int64_t>(height) * width; }
  VISOPS_DEVICE bool covers(int32_t y, int32_t x) const {
    return y >= top && y - top < height && x >= left && x - left < width;
  }
};

// A cell of a grid, along one side: where it begins, its side, that of its hole, and the sum of
// those of holes before it.
struct GridCell {
  int32_t begin, side, hole, before;
};

// Holes of a grid, one for each cell, row by row. They are shifted within their cells, each by
// itself, or all by the same pixels.
struct HoleGrid {
  int32_t rows, columns, height, width, channels;
  bool own_shifts;
  int64_t down, across;
  int64_t holes_width;    // of a row of cells
  int64_t first, filled;  // the random number that shifts the first hole, and that which fills it
  Filling filling;

  VISOPS_DEVICE int64_t count() const { return static_cast<int64_t>(rows) * columns; }
};

// A whole number from low to high.
VISOPS_FN int64_t whole_between(double unit, int64_t low, int64_t high) {
  const double count = high > low ? static_cast<double>(high - low + 1) : 1.0;
  return low + static_cast<int64_t>(unit * count);
}

VISOPS_FN int32_t hole_begin(const GridCell& cell, int64_t shift, int32_t size) {
  const int64_t begin = cell.begin + shift, most = size - cell.hole;
  return static_cast<int32_t>(begin < 0 ? 0 : begin < most ? begin : most);
}

// The hole of a cell in row y and column x of the grid, shifted.
VISOPS_FN Hole shifted_hole(const HoleGrid& grid, const GridCell& y, const GridCell& x,
                            int64_t cell, int64_t down, int64_t across) {
  const int64_t areas = y.before * grid.holes_width + static_cast<int64_t>(y.hole) * x.before;
  const int64_t before = grid.filling == Filling::kPixels ? areas : cell;
  return {hole_begin(x, across, grid.width),
          hole_begin(y, down, grid.height),
          x.hole,
          y.hole,
          0,
          grid.channels,
          grid.filled + before * grid.channels};
}

// Hole number `cell` of a grid, whose cells are rows and then columns.
VISOPS_FN Hole grid_hole(const HoleGrid& grid, const GridCell* cells, uint64_t key, int64_t cell) {
  const int64_t row = cell / grid.columns;
  const GridCell &y = cells[row], &x = cells[grid.rows + (cell - row * grid.columns)];
  if (!grid.own_shifts) return shifted_hole(grid, y, x, cell, grid.down, grid.across);
  const auto shift = [&](int64_t index, const GridCell& own) {
    return whole_between(uniform_of(key_bits(key, grid.first + index)), 0, own.side - own.hole);
  };
  return shifted_hole(grid, y, x, cell, shift(2 * cell, y), shift(2 * cell + 1, x));
}

// A random value of an image.
template <class T>
VISOPS_FN T random_shade(uint64_t bits) {
  if constexpr (sizeof(T) == 1) {
    return static_cast<T>(bits >> 56);
  } else {
    return static_cast<float>(static_cast<int64_t>(bits >> 11)) * 0x1p-53f;
  }
}

// What an operation fills.
struct Dropout {
  std::vector<Hole> holes;  // unless they are those of a grid
  HoleGrid grid = {};
  std::vector<GridCell> cells;  // its rows, then its columns
  Filling filling = Filling::kValue;
  double value = 0.0;
  uint64_t key = 0;
  bool overlap = false;  // whether holes may

  int64_t count() const {
    return cells.empty() ? static_cast<int64_t>(holes.size()) : grid.count();
  }
};

VISOPS_FN bool is_dropout(PixelKind kind) {
  return kind == PixelKind::kDropChannels || kind == PixelKind::kHoles ||
         kind == PixelKind::kGridHoles;
}

// What an operation that is_dropout() fills of an image; its value is in the dtype's range.
Dropout dropout_of(const PixelOperation& operation, DType dtype, int64_t channels, int64_t height,
                   int64_t width);

// False: the operation is of another kind.
bool run_dropout(const PixelOperation& operation, const PixelImage& image);

}  // namespace visops
