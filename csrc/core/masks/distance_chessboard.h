// Where the nearest pixels of the chessboard distance are.
//
// NOTE [ Sites of the chessboard ]
// The site of a pixel whose distance is d is the first in raster order among those at most d
// planes, rows and columns away, since none is nearer. Its plane is the first whose own distance
// there (that of masks of two dimensions) is at most d, its row the first of that plane whose
// distance along the row is at most d, and its column the first from d columns before the pixel on.
// Planes and rows are looked for in trees of least values, columns by distances along the row: each
// takes steps in proportion to the logarithm of a side, and fewer where distances are short.
#pragma once

#include "core/masks/distance.h"

namespace visops {

// Distances along an axis, and their least values: of 8 pixels, of 64, and so on.
struct LeastTree {
  static constexpr int kLevels = 9;  // 8^8 is the longest side
  static constexpr int64_t kChildren = 8;

  // Level l is [outer, size[l], inner], and level 0 the distances.
  const int32_t* least[kLevels];
  int64_t size[kLevels];
  int64_t inner;
  int levels;
};

// The sizes of a tree, without its values.
VISOPS_FN LeastTree tree_of(const int32_t* distances, int64_t size, int64_t inner) {
  LeastTree tree = {};
  tree.least[0] = distances;
  tree.size[0] = size;
  tree.inner = inner;
  tree.levels = 1;
  while (tree.size[tree.levels - 1] > 1) {
    tree.size[tree.levels] =
        (tree.size[tree.levels - 1] + LeastTree::kChildren - 1) / LeastTree::kChildren;
    ++tree.levels;
  }
  return tree;
}

// Value `i` of the level above `level`, which is outer * size + place and `inner` numbers wide, at
// column `at`.
VISOPS_FN int32_t least_of_children(const LeastTree& tree, int level, int64_t i, int64_t at) {
  const int64_t outer = i / tree.size[level + 1], position = i - outer * tree.size[level + 1];
  const int64_t first = position * LeastTree::kChildren, size = tree.size[level];
  const int64_t last = first + LeastTree::kChildren < size ? first + LeastTree::kChildren : size;
  int32_t least = kFar;
  for (int64_t k = first; k < last; ++k) {
    const int32_t value = tree.least[level][(outer * size + k) * tree.inner + at];
    least = value < least ? value : least;
  }
  return least;
}

// The first place from `from` on whose distance is at most `most`; there is one.
VISOPS_FN int64_t first_within(const LeastTree& tree, int64_t outer, int64_t at, int64_t from,
                               int32_t most) {
  int level = 0;
  int64_t position = from;
  while (position < tree.size[level]) {
    if (tree.least[level][(outer * tree.size[level] + position) * tree.inner + at] <= most) {
      if (level == 0) return position;
      position *= LeastTree::kChildren;
      --level;
      continue;
    }
    ++position;
    while (position % LeastTree::kChildren == 0 && level + 1 < tree.levels) {
      position /= LeastTree::kChildren;
      ++level;
    }
  }
  return from;  // never: callers know of a place
}

struct ChessboardTrees {
  LeastTree rows;    // distances along rows, [masks * depth, height, width]
  LeastTree planes;  // distances within planes, [masks, depth, height * width]; for dims == 3
};

// The site of a pixel of the trees' mask `mask`, at this distance.
VISOPS_FN Position chessboard_site(const DistanceParams& p, const ChessboardTrees& trees,
                                   int64_t mask, const Position& pixel, float found) {
  if (found == 0.0f) return pixel;
  if (found == INFINITY) return {-1, -1, -1};
  const auto distance = static_cast<int32_t>(found);
  const auto before = [&](int32_t position) {
    return position > distance ? position - distance : 0;
  };
  int64_t plane = pixel.z;
  if (p.dims == 3) {
    const int64_t column = pixel.y * p.width + pixel.x;
    plane = first_within(trees.planes, mask, column, before(pixel.z), distance);
  }
  const int64_t outer = mask * p.depth + plane;
  const int64_t row = first_within(trees.rows, outer, pixel.x, before(pixel.y), distance);
  // From a column, the nearest site of the row is the next one, or lies before it; then the next
  // one is farther, so each step at least doubles the way from there.
  const int32_t* along = trees.rows.least[0] + (outer * p.height + row) * p.width;
  int64_t column = before(pixel.x);
  while (along[column] > 0) {
    const int64_t next = column + along[column];
    column = next < p.width && along[next] == 0 ? next : next + 1;
  }
  return {static_cast<int32_t>(plane), static_cast<int32_t>(row), static_cast<int32_t>(column)};
}

}  // namespace visops
