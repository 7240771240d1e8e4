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

// A thread keeps so many `sums` in registers. Where lanes aren't channels, a row of the tile may
// have fewer columns than a warp has lanes: then several lanes share a column, and its channels.
template <bool on_channels, int sums, int columns = on_channels ? 8 : kWarp>
struct TileShape {
  static constexpr int kRows = kTileRows;
  static constexpr int kColumns = columns;
  static constexpr int kColumnLanes = kWarp / columns;  // of a column, where lanes aren't channels
  static constexpr int kChannels = on_channels ? kWarp * (sums / kColumns) : sums * kColumnLanes;

  static bool is_for(const RoiMap& map, int64_t channels) {
    return lanes_are_channels(map, channels) == on_channels;
  }
};

constexpr int64_t kWeightBytes = 20480;      // for the boxes that a block has at once
constexpr int64_t kMostWeightBytes = 32512;  // for a single box: 48 KiB with a block's other arrays
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

// The weights of one box for a tile, in shared memory. Those of a bin begin an odd number of
// elements after those of the bin before: the threads that find them, a bin each, would wait for
// one bank otherwise.
template <class Acc, int columns>
struct BoxWeights {
  static constexpr int kRowStep = kTileRows + 1, kColumnStep = columns + 1;
  Acc* of_row;            // [bins_y, kRowStep], with the mean's divisor
  Acc* of_column;         // [bins_x, kColumnStep]
  BinRange* row_bins;     // [kTileRows]
  BinRange* column_bins;  // [columns]

  __device__ BoxWeights(const RoiAlignParams& p, void* room) {
    of_row = static_cast<Acc*>(room);
    of_column = of_row + p.bins_y * kRowStep;
    row_bins = reinterpret_cast<BinRange*>(of_column + p.bins_x * kColumnStep);
    column_bins = row_bins + kTileRows;
  }
};

template <class Acc, int columns>
int64_t weight_bytes(const RoiAlignParams& p) {
  using Weights = BoxWeights<Acc, columns>;
  return (p.bins_y * Weights::kRowStep + p.bins_x * Weights::kColumnStep) * int64_t{sizeof(Acc)} +
         (kTileRows + columns) * int64_t{sizeof(BinRange)};
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
__device__ void prepare_boxes(const RoiAlignParams& p, const Tile& tile, const int64_t* boxes,
                              int count, int bytes) {
  auto* room = dynamic_shared<unsigned char>();
  const int bins = static_cast<int>(p.bins_y + p.bins_x);
  for (int i = threadIdx.x; i < count * bins; i += kTileThreads) {
    const int box = i / bins, bin = i - box * bins;
    const BoxWeights<Acc, columns> weights(p, room + box * bytes);
    const Roi<Acc> roi = load_roi<Acc>(p, boxes[box]);
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

// Sums that wait in shared memory while weights are found, which takes their registers: so many of
// a thread's.
template <class Acc>
constexpr int kParked = sizeof(Acc) == 8 ? 0 : 12;

// f() with the first kParked sums in shared memory.
template <class Sums, class F>
__device__ void with_parked(Sums& sums, const F& f) {
  using Acc = typename Sums::Acc;
  if constexpr (kParked<Acc> == 0 || Sums::kSums <= kParked<Acc>) {
    f();
  } else {
    __shared__ Acc parked[kParked<Acc>][kTileThreads];
#pragma unroll
    for (int i = 0; i < kParked<Acc>; ++i) parked[i][threadIdx.x] = sums.at(i);
    f();
#pragma unroll
    for (int i = 0; i < kParked<Acc>; ++i) sums.at(i) = parked[i][threadIdx.x];
  }
}

// Sums over boxes for tile `number`: Sums(p, tile) starts a thread's, add(p, tile, weights, k) adds
// the share of box k, store(map, tile) writes them, and at(i) is one of them. Called by all threads
// of the block, which synchronise here.
template <class Sums>
__device__ void gather_tile(const RoiAlignParams& p, const BoxesOfMaps& listed,
                            const TileGrid<typename Sums::Shape>& grid, int at_once, int bytes,
                            int64_t number) {
  using Shape = typename Sums::Shape;
  using Acc = typename Sums::Acc;
  __shared__ BoxList list;
  __shared__ Tile tile;
  if (threadIdx.x == 0) tile = tile_at(grid, number);
  __syncthreads();
  Sums sums(p, tile);
  for_boxes_of<Shape>(p, listed, tile, &list, [&](int count) {
    for (int first = 0; first < count; first += at_once) {
      const int boxes = count - first < at_once ? count - first : at_once;
      with_parked(sums, [&] {
        prepare_boxes<Acc, Shape::kColumns>(p, tile, list.box + first, boxes, bytes);
      });
      for (int b = 0; b < boxes; ++b) {
        const BoxWeights<Acc, Shape::kColumns> weights(p,
                                                       dynamic_shared<unsigned char>() + b * bytes);
        sums.add(p, tile, weights, list.box[first + b]);
      }
      __syncthreads();
    }
  });
  const RoiMap& map = p.maps[tile.level];
  if (tile.row + row_of_thread() < map.height) sums.store(map, tile);
}

// Starts kernel(p, listed, grid, at_once, bytes, first), which calls gather_tile() for tile `first`
// and those after it, for maps of so many channels.
template <class Acc, class Shape>
void launch_gather(void (*kernel)(RoiAlignParams, BoxesOfMaps, TileGrid<Shape>, int, int, int64_t),
                   const RoiAlignParams& p, int64_t channels, const BoxesOfMaps& listed,
                   void* stream) {
  const TileGrid<Shape> grid = tile_grid<Shape>(p, channels, Shape::kChannels);
  const int64_t bytes = weight_bytes<Acc, Shape::kColumns>(p);
  int64_t at_once = kTileThreads / (p.bins_y + p.bins_x);
  if (at_once > kMostBoxesAtOnce) at_once = kMostBoxesAtOnce;
  if (at_once > kWeightBytes / bytes) at_once = kWeightBytes / bytes;
  if (at_once < 1) at_once = 1;
  each_grid(grid.count, [&](int64_t first, dim3 blocks) {
    launch(kernel, blocks, dim3(kTileThreads), at_once * bytes, stream, p, listed, grid,
           static_cast<int>(at_once), static_cast<int>(bytes), first);
  });
}

// Whether gather_tile() has room for the weights of a box.
template <class Acc>
bool has_room_for_weights(const RoiAlignParams& p) {
  return weight_bytes<Acc, kWarp>(p) <= kMostWeightBytes;
}

}  // namespace
}  // namespace visops
