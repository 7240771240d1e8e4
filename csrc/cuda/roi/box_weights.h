// The weights that a tile's pixels have in the bins of boxes, and the sums that a block makes of
// them: NOTE [ RoIAlign's gradient of maps on CUDA ] in cuda/roi/box_tile.h.
//
// A block keeps the weights of several boxes at once in shared memory; for each bin, one thread
// finds the weights of the tile's rows or columns. If there are so many bins that not even one
// box's weights fit, kernels without shared memory find them again for each pixel (weight_of()),
// which is slow.
#pragma once

#include "cuda/roi/box_tile.h"

namespace visops {
namespace {

constexpr int64_t kWeightBytes = 20480;  // for the boxes that a block has at once
constexpr int64_t kMostBoxesAtOnce = 32;

// The weight of a pixel that a bin does not read: it adds nothing, not even 0 times infinity.
template <class Acc>
VISOPS_FN Acc no_weight() {
  return static_cast<Acc>(-1);
}

// All bins that read a pixel are in begin <= b < end.
struct BinRange {
  uint16_t begin, end;
};

// The weights of one box for a tile, in shared memory. Those of adjacent bins begin in different
// banks: the threads that find them, a bin each, would wait for one bank otherwise. Eight columns'
// are read four at a time.
template <class Acc, int columns>
struct BoxWeights {
  static constexpr int kRowStep = kTileRows + 1, kColumnStep = columns == 8 ? 12 : columns + 1;
  Acc* of_column;         // [bins_x, kColumnStep]
  Acc* of_row;            // [bins_y, kRowStep], with the mean's divisor
  BinRange* row_bins;     // [kTileRows]
  BinRange* column_bins;  // [columns]

  __device__ BoxWeights(const RoiAlignParams& p, void* room) {
    of_column = static_cast<Acc*>(room);
    of_row = of_column + p.bins_x * kColumnStep;
    row_bins = reinterpret_cast<BinRange*>(of_row + p.bins_y * kRowStep);
    column_bins = row_bins + kTileRows;
  }
};

template <class Acc, int columns>
int64_t weight_bytes(const RoiAlignParams& p) {
  using Weights = BoxWeights<Acc, columns>;
  const int64_t bytes =
      (p.bins_y * Weights::kRowStep + p.bins_x * Weights::kColumnStep) * int64_t{sizeof(Acc)} +
      (kTileRows + columns) * int64_t{sizeof(BinRange)};
  return parts_of(bytes, 16) * 16;
}

// As bin_pixels(), but from `pixel` on; the pixel before it may come first, with part of its
// weight.
template <class Acc>
__device__ BinPixels<Acc> bin_pixels_from(const RoiAxis<Acc>& axis, int64_t bin, int64_t pixel) {
  BinPixels<Acc> p = bin_pixels(axis, bin);
  if (p.sample == p.last || p.taps.low >= pixel - 1) return p;
  int64_t before = p.sample, found = p.last;  // samples touch rising pixels
  while (found - before > 1) {
    const int64_t middle = before + (found - before) / 2;
    const bool is_before = roi_taps(sample_at(axis, bin, middle), axis.extent).low < pixel - 1;
    (is_before ? before : found) = middle;
  }
  p.sample = found;
  load_taps(axis, &p);
  begin_at_sample(&p);
  return p;
}

// Writes a bin's weights for `count` pixels from `first` on.
template <class Acc>
__device__ void fill_weights(const RoiAxis<Acc>& axis, int64_t bin, Acc factor, int64_t first,
                             int count, Acc* weights) {
  int filled = 0;
  BinPixels<Acc> pixels = bin_pixels_from(axis, bin, first);
  while (next_pixel(axis, &pixels) && pixels.pixel < first + count) {
    if (pixels.pixel < first) continue;
    for (; filled < pixels.pixel - first; ++filled) weights[filled] = no_weight<Acc>();
    weights[filled++] = pixels.weight * factor;
  }
  for (; filled < count; ++filled) weights[filled] = no_weight<Acc>();
}

template <class Acc>
__device__ BinRange bins_of(const Acc* weights, int64_t stride, int64_t bins) {
  int begin = 0, end = 0;
  for (int b = 0; b < bins; ++b) {
    if (weights[b * stride] < static_cast<Acc>(0)) continue;
    if (end == 0) begin = b;
    end = b + 1;
  }
  return {static_cast<uint16_t>(begin), static_cast<uint16_t>(end)};
}

// Finds the weights of `count` boxes, `bytes` apart. Called by all threads of the block, which
// synchronise here.
template <class Acc, int columns>
__device__ void prepare_boxes(const RoiAlignParams& p, const Roi<Acc>* rois, const Tile& tile,
                              const int64_t* boxes, int count, int bytes) {
  auto* room = dynamic_shared<unsigned char>();
  const int bins = static_cast<int>(p.bins_y + p.bins_x);
  for (int i = threadIdx.x; i < count * bins; i += kTileThreads) {
    const int box = i / bins, bin = i - box * bins;
    const BoxWeights<Acc, columns> weights(p, room + box * bytes);
    const Roi<Acc>& roi = rois[boxes[box]];
    const bool is_row = bin < p.bins_y;  // rows and columns in one loop: a warp may have both
    const int64_t b = is_row ? bin : bin - p.bins_y;
    const RoiAxis<Acc> axis = is_row ? roi.y : roi.x;
    const Acc factor = is_row ? mean_factor(roi.y, roi.x) : static_cast<Acc>(1);
    fill_weights(axis, b, factor, is_row ? tile.row : tile.column, is_row ? kTileRows : columns,
                 is_row ? weights.of_row + b * weights.kRowStep
                        : weights.of_column + b * weights.kColumnStep);
  }
  __syncthreads();
  constexpr int kPixels = kTileRows + columns;
  for (int i = threadIdx.x; i < count * kPixels; i += kTileThreads) {
    const int box = i / kPixels, at = i - box * kPixels;
    const BoxWeights<Acc, columns> weights(p, room + box * bytes);
    if (at < kTileRows) {
      weights.row_bins[at] = bins_of(weights.of_row + at, weights.kRowStep, p.bins_y);
    } else {
      const int column = at - kTileRows;
      weights.column_bins[column] =
          bins_of(weights.of_column + column, weights.kColumnStep, p.bins_x);
    }
  }
  __syncthreads();
}

template <class Acc>
__device__ Acc weight_of(const RoiAxis<Acc>& axis, int64_t bin, Acc factor, int64_t pixel) {
  Acc weight;
  fill_weights(axis, bin, factor, pixel, 1, &weight);
  return weight;
}

struct MapPixel {
  int64_t image, channel, row, column;
};

// use(at) for this thread's pixels of a map of so many channels.
template <class Use>
__device__ void for_each_map_pixel(const RoiAlignParams& p, const RoiMap& map, int64_t channels,
                                   const Use& use) {
  const int64_t count = p.images * channels * map.height * map.width;
  const int64_t step = int64_t{gridDim.x} * kTileThreads;
  for (int64_t i = int64_t{blockIdx.x} * kTileThreads + threadIdx.x; i < count; i += step) {
    const int64_t line = i / map.width, plane = line / map.height, image = plane / channels;
    use(MapPixel{image, plane - image * channels, line - plane * map.height, i - line * map.width});
  }
}

// use(k) for the boxes of a map that reach the pixel.
template <class Use>
__device__ void for_boxes_at(const BoxesOfMaps& listed, int64_t map, const MapPixel& at,
                             const Use& use) {
  const BoxRange of_map = listed.of_map[map];
  for (int64_t n = of_map.begin; n < of_map.end; ++n) {
    const RoiSpan& span = listed.spans[n];
    if (meets(span, at.row, at.row, at.column, at.column)) use(span.box);
  }
}

// The weights that a block has in dynamic shared memory at once: of so many boxes, `bytes` apart.
struct WeightRoom {
  int bytes, boxes;
};

template <class Acc, int columns>
WeightRoom weight_room(const RoiAlignParams& p) {
  const int64_t bytes = weight_bytes<Acc, columns>(p);
  int64_t boxes = kTileThreads / (p.bins_y + p.bins_x);
  if (boxes > kMostBoxesAtOnce) boxes = kMostBoxesAtOnce;
  if (boxes > kWeightBytes / bytes) boxes = kWeightBytes / bytes;
  if (boxes < 1) boxes = 1;
  return {at_most<INT32_MAX>(bytes), static_cast<int>(boxes)};
}

// Sums over boxes for tile `number`. Sums(p, tile, room) starts a thread's, add(p, tile, boxes,
// count) adds the shares of boxes whose weights have been found, and store(p, map, tile) writes
// them. Called by all threads of the block, which synchronise here, and at the end of add().
template <class Sums, class Room>
__device__ void gather_tile(const RoiAlignParams& p, const ListedRois<typename Sums::Acc>& listed,
                            const TileGrid<typename Sums::Shape>& grid, const Room& room,
                            int64_t number) {
  using Shape = typename Sums::Shape;
  using Acc = typename Sums::Acc;
  __shared__ BoxList list;
  __shared__ Tile tile;
  if (threadIdx.x == 0) tile = tile_at(grid, number);
  __syncthreads();
  Sums sums(p, tile, room);
  for_boxes_of<Shape>(p, listed, tile, &list, [&](int count) {
    for (int first = 0; first < count; first += room.boxes) {
      const int boxes = count - first < room.boxes ? count - first : room.boxes;
      prepare_boxes<Acc, Shape::kColumns>(p, listed.rois, tile, list.box + first, boxes,
                                          room.bytes);
      sums.add(p, tile, list.box + first, boxes);
    }
  });
  const RoiMap& map = p.maps[tile.level];
  if (tile.row + row_of_thread() < map.height) sums.store(p, map, tile);
}

}  // namespace
}  // namespace visops
