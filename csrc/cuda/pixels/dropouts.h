// Channels and rectangles of images of a batch that are filled.
//
// NOTE [ Dropouts on CUDA ]
// The kernels that adjust have copied the images. Here a block has a part of a rectangle, of one
// image. Lists of rectangles and the cells of grids are laid down before; which rectangle a cell
// has, and what fills it, follow from random numbers by NOTE [ Dropouts ]
// (core/pixels/dropout_values.h), so the bits are the CPU's. Where rectangles of one image may
// overlap, a pixel belongs to the last, as if they were filled one after another. Images travel by
// value, kMostHoled to a launch.
#pragma once

#include <algorithm>
#include <vector>

#include "core/parts.h"
#include "core/pixels/adjust.h"
#include "core/pixels/dropouts.h"
#include "cuda/launch.h"
#include "cuda/pixels/chosen_images.h"
#include "cuda/pixels/laid_down.h"

namespace visops {
namespace {

#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostHoled = 2;  // so that tests see several launches
constexpr int kHolePixels = 512;
#else
constexpr int kMostHoled = 24;
constexpr int kHolePixels = 2048;  // of a block
#endif
constexpr int kHoleThreads = 256;

struct HoledImage {
  void* to;               // [channels, height, width]
  const Hole* holes;      // [count]; null where they are those of the grid
  const GridCell* cells;  // [rows + columns]
  HoleGrid grid;
  int64_t count;
  uint64_t key;
  Filling filling;
  float value;
  bool overlap;

  __device__ Hole hole(int64_t i) const {
    return holes != nullptr ? holes[i] : grid_hole(grid, cells, key, i);
  }
  // Whether hole `i`, of holes that overlap, has a pixel. A grid's have no shifts of their own
  // then.
  __device__ bool covers(int64_t i, int32_t y, int32_t x) const {
    if (holes != nullptr) return holes[i].covers(y, x);
    const int64_t row = i / grid.columns;
    const GridCell &down = cells[row], &across = cells[grid.rows + (i - row * grid.columns)];
    return shifted_hole(grid, down, across, i, grid.down, grid.across).covers(y, x);
  }
  __device__ bool is_covered_later(int64_t i, int32_t y, int32_t x) const {
    for (++i; i < count; ++i) {
      if (covers(i, y, x)) return true;
    }
    return false;
  }
};

using HoledImages = ChosenImages<HoledImage, kMostHoled>;

// `most` are the holes of the image that has the most, `parts` those of the largest hole.
template <class T>
__global__ void __launch_bounds__(kHoleThreads)
    fill_holes(const __grid_constant__ HoledImages images, const int64_t most,
               const int64_t parts) {
  for (int64_t i = blockIdx.x; i < images.count * most * parts; i += gridDim.x) {
    const int64_t of_batch = i / parts, number = of_batch / most, own = of_batch - number * most;
    const HoledImage& image = images.image[number];
    if (own >= image.count) continue;
    const Hole hole = image.hole(own);
    const int64_t area = hole.area(), begin = (i - of_batch * parts) * kHolePixels;
    const int64_t end = begin + kHolePixels < area ? begin + kHolePixels : area;
    for (int32_t c = 0; c < hole.channels; ++c) {
      T* const plane = static_cast<T*>(image.to) + (hole.channel + c) * images.pixels();
      T color = static_cast<T>(image.value);
      if (image.filling == Filling::kColors) {
        color = random_shade<T>(dropout_bits(image.key, hole.number + c));
      }
      for (int64_t at = begin + threadIdx.x; at < end; at += kHoleThreads) {
        const int32_t row = static_cast<int32_t>(at) / hole.width, y = hole.top + row;
        const int32_t x = hole.left + static_cast<int32_t>(at) - row * hole.width;
        if (image.overlap && image.is_covered_later(own, y, x)) continue;
        if (image.filling == Filling::kPixels) {
          color = random_shade<T>(dropout_bits(image.key, hole.number + c * area + at));
        }
        plane[static_cast<int64_t>(y) * images.width + x] = color;
      }
    }
  }
}

inline int64_t largest_hole(const Dropout& dropout) {
  int64_t largest = 0;
  for (const Hole& hole : dropout.holes) largest = std::max(largest, hole.area());
  if (dropout.cells.empty()) return largest;
  const auto side = [](const GridCell& a, const GridCell& b) { return a.hole < b.hole; };
  const auto columns = dropout.cells.begin() + dropout.grid.rows;
  return static_cast<int64_t>(std::max_element(dropout.cells.begin(), columns, side)->hole) *
         std::max_element(columns, dropout.cells.end(), side)->hole;
}

// Fills what the operations of a batch that are is_dropout() fill, in images that are copied.
template <class T>
void drop_out(const AdjustParams& p, Workspace& workspace) {
  const auto is_mine = [](const PixelOperation& operation) { return is_dropout(operation.kind); };
  std::vector<Dropout> dropouts;
  std::vector<Hole> all_holes;
  std::vector<GridCell> all_cells;
  for (int64_t i = 0; i < p.batch; ++i) {
    if (!is_mine(p.operations[i])) continue;
    dropouts.push_back(dropout_of(p.operations[i], p.dtype, p.channels, p.height, p.width));
    const Dropout& own = dropouts.back();
    all_holes.insert(all_holes.end(), own.holes.begin(), own.holes.end());
    all_cells.insert(all_cells.end(), own.cells.begin(), own.cells.end());
  }
  if (all_holes.empty() && all_cells.empty()) return;
  const Hole* holes = laid_down(all_holes, workspace);
  const GridCell* cells = laid_down(all_cells, workspace);
  size_t next = 0;
  int64_t most = 0, largest = 0;
  HoledImages images(p);
  for_chosen_images(
      p, images, is_mine,
      [&](int64_t i) {
        const Dropout& own = dropouts[next++];
        HoledImage image = {};
        image.to = static_cast<T*>(p.output) + i * p.size();
        image.holes = own.cells.empty() ? holes : nullptr;
        image.cells = cells;
        image.grid = own.grid;
        image.count = own.count();
        image.key = own.key;
        image.filling = own.filling;
        image.value = static_cast<float>(static_cast<T>(own.value));
        image.overlap = own.overlap && own.filling != Filling::kValue;
        holes += own.holes.size();
        cells += own.cells.size();
        most = std::max(most, image.count);
        largest = std::max(largest, largest_hole(own));
        return image;
      },
      [&] {
        const int64_t parts = parts_of(largest, kHolePixels);
        launch(fill_holes<T>, grid_for(images.count * most * parts), dim3(kHoleThreads), 0,
               workspace.stream(), images, most, parts);
        most = largest = 0;
      });
}

}  // namespace
}  // namespace visops
