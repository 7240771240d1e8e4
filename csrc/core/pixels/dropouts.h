// Channels and rectangles that are filled, as operations of chains. NOTE [ Dropouts ]
// (dropout_values.h).
#pragma once

#include <vector>

#include "core/pixels/dropout_values.h"
#include "core/pixels/operations.h"

namespace visops {

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
