// The map's gradient of RoIAlign's means: NOTE [ RoIAlign's gradient of maps on CUDA ] in
// cuda/roi/tile.h.
//
// A block keeps the weights of several boxes at once in shared memory; for each bin, one thread
// finds the weights of the tile's rows or columns. Then each thread adds up box by box: over bins
// along x, the column weight times the sum over bins along y of row weight * gradient. If lanes are
// channels, that inner sum serves all columns of the tile. If there are so many bins that not even
// one box's weights fit, a kernel without shared memory finds them again for each pixel, which is
// slow.
//
// Rounding: core/roi/align.h, without contraction (-fmad=false), so the bits are the CPU's.
#include "cuda/roi/tile.h"

namespace visops {
namespace {

constexpr int kThreadSums = 32;  // sums that a thread keeps in registers

template <bool on_channels>
struct TileShape {
  static constexpr int kColumns = on_channels ? 8 : kWarp;
  static constexpr int kChannels = on_channels ? kWarp * (kThreadSums / kColumns) : kThreadSums;

  static bool is_for(const RoiMap& map, int64_t channels) {
    return lanes_are_channels(map, channels) == on_channels;
  }
};

constexpr int64_t kWeightBytes = 20480;      // for the boxes that a block has at once
constexpr int64_t kMostWeightBytes = 40960;  // for a single box
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

// The weights of one box for a tile, in shared memory.
template <class Acc, int columns>
struct BoxWeights {
  Acc* of_row;            // [bins_y, kTileRows], with the mean's divisor
  Acc* of_column;         // [bins_x, columns]
  BinRange* row_bins;     // [kTileRows]
  BinRange* column_bins;  // [columns]

  __device__ BoxWeights(const RoiAlignParams& p, void* room) {
    of_row = static_cast<Acc*>(room);
    of_column = of_row + p.bins_y * kTileRows;
    row_bins = reinterpret_cast<BinRange*>(of_column + p.bins_x * columns);
    column_bins = row_bins + kTileRows;
  }
};

template <class Acc, int columns>
int64_t weight_bytes(const RoiAlignParams& p) {
  return (p.bins_y * kTileRows + p.bins_x * columns) * int64_t{sizeof(Acc)} +
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
                 is_row ? weights.of_row + b * kTileRows : weights.of_column + b * columns);
  }
  __syncthreads();
  constexpr int kPixels = kTileRows + columns;
  for (int i = threadIdx.x; i < count * kPixels; i += kTileThreads) {
    const int box = i / kPixels, at = i - box * kPixels;
    const BoxWeights<Acc, columns> weights(p, room + box * bytes);
    if (at < kTileRows) {
      weights.row_bins[at] = bins_of(weights.of_row + at, kTileRows, p.bins_y);
    } else {
      const int column = at - kTileRows;
      weights.column_bins[column] = bins_of(weights.of_column + column, columns, p.bins_x);
    }
  }
  __syncthreads();
}

// The sums of a thread whose lane is a channel: [columns of the tile][channels kWarp apart].
template <class T, class Acc>
struct ChannelSums {
  static constexpr int kColumns = TileShape<true>::kColumns;
  static constexpr int kGroup = kThreadSums / kColumns;
  Acc sum[kColumns][kGroup] = {};
  int count;  // of channels

  __device__ ChannelSums(const RoiAlignParams& p, const Tile& tile, int lane) {
    const int64_t left = parts_of(p.channels - tile.channel - lane, kWarp);
    count = left < kGroup ? static_cast<int>(left) : kGroup;
  }

  // `grad` is at the box's first bin and this lane's first channel.
  __device__ void add(const RoiAlignParams& p, const BoxWeights<Acc, kColumns>& weights, int row,
                      const T* grad) {
    const BinRange rows = weights.row_bins[row];
    if (rows.end == 0) return;
    int begin = static_cast<int>(p.bins_x), end = 0;
    for (int column = 0; column < kColumns; ++column) {
      const BinRange bins = weights.column_bins[column];
      if (bins.end == 0) continue;
      if (bins.begin < begin) begin = bins.begin;
      if (bins.end > end) end = bins.end;
    }
    const int64_t step = kWarp * p.channel_stride;
    for (int x = begin; x < end; ++x) {
      Acc along_y[kGroup] = {};
      for (int y = rows.begin; y < rows.end; ++y) {
        const Acc weight = weights.of_row[y * kTileRows + row];
        if (weight < static_cast<Acc>(0)) continue;
        const T* at = grad + y * p.bin_row_stride + x * p.bin_column_stride;
#pragma unroll
        for (int c = 0; c < kGroup; ++c) {
          if (c < count) along_y[c] += weight * load_number(at + c * step);
        }
      }
#pragma unroll
      for (int column = 0; column < kColumns; ++column) {
        const Acc weight = weights.of_column[x * kColumns + column];
        if (weight < static_cast<Acc>(0)) continue;
#pragma unroll
        for (int c = 0; c < kGroup; ++c) sum[column][c] += weight * along_y[c];
      }
    }
  }

  __device__ void store(const RoiMap& map, T* out, int64_t columns) const {
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      if (column >= columns) break;
#pragma unroll
      for (int c = 0; c < kGroup; ++c) {
        if (c < count) {
          store_element(out + column * map.column_stride + c * kWarp * map.channel_stride,
                        sum[column][c]);
        }
      }
    }
  }
};

// The sums of a thread whose lane is a column: [channels].
template <class T, class Acc>
struct ColumnSums {
  static constexpr int kColumns = TileShape<false>::kColumns;
  static constexpr int kGroup = 8;  // channels at a time
  Acc sum[kThreadSums] = {};
  int count, lane;

  __device__ ColumnSums(const RoiAlignParams& p, const Tile& tile, int column) : lane(column) {
    const int64_t left = p.channels - tile.channel;
    count = left < kThreadSums ? static_cast<int>(left) : kThreadSums;
  }

  __device__ void add(const RoiAlignParams& p, const BoxWeights<Acc, kColumns>& weights, int row,
                      const T* grad) {
    const BinRange rows = weights.row_bins[row], columns = weights.column_bins[lane];
    if (rows.end == 0) return;
#pragma unroll
    for (int first = 0; first < kThreadSums; first += kGroup) {
      if (first >= count) break;
      for (int x = columns.begin; x < columns.end; ++x) {
        const Acc column_weight = weights.of_column[x * kColumns + lane];
        if (column_weight < static_cast<Acc>(0)) continue;
        Acc along_y[kGroup] = {};
        for (int y = rows.begin; y < rows.end; ++y) {
          const Acc weight = weights.of_row[y * kTileRows + row];
          if (weight < static_cast<Acc>(0)) continue;
          const T* at =
              grad + first * p.channel_stride + y * p.bin_row_stride + x * p.bin_column_stride;
#pragma unroll
          for (int c = 0; c < kGroup; ++c) {
            if (first + c < count) along_y[c] += weight * load_number(at + c * p.channel_stride);
          }
        }
#pragma unroll
        for (int c = 0; c < kGroup; ++c) sum[first + c] += column_weight * along_y[c];
      }
    }
  }

  __device__ void store(const RoiMap& map, T* out, int64_t columns) const {
    if (lane >= columns) return;
#pragma unroll
    for (int c = 0; c < kThreadSums; ++c) {
      if (c < count) {
        store_element(out + lane * map.column_stride + c * map.channel_stride, sum[c]);
      }
    }
  }
};

template <class T, bool on_channels>
__global__ void __launch_bounds__(kTileThreads, sizeof(T) == 8 ? 2 : 3)
    roi_align_gather(const __grid_constant__ RoiAlignParams p, const BoxesOfMaps listed,
                     const __grid_constant__ TileGrid<TileShape<on_channels>> grid,
                     const int at_once, const int bytes) {
  using Acc = typename Accumulate<T>::type;
  using Sums = std::conditional_t<on_channels, ChannelSums<T, Acc>, ColumnSums<T, Acc>>;
  __shared__ BoxList list;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = static_cast<int>(threadIdx.x) / kWarp;
  for (int64_t i = blockIdx.x; i < grid.count; i += gridDim.x) {
    const Tile tile = tile_at(grid, i);
    const int64_t channel = tile.channel + (on_channels ? lane : 0);
    Sums sums(p, tile, lane);
    for_boxes_of<TileShape<on_channels>>(p, listed, tile, &list, [&](int count) {
      for (int first = 0; first < count; first += at_once) {
        const int boxes = count - first < at_once ? count - first : at_once;
        prepare_boxes<Acc, Sums::kColumns>(p, tile, list.box + first, boxes, bytes);
        for (int b = 0; b < boxes; ++b) {
          const BoxWeights<Acc, Sums::kColumns> weights(
              p, dynamic_shared<unsigned char>() + b * bytes);
          sums.add(
              p, weights, row,
              static_cast<const T*>(p.bins) + bin_offset(p, list.box[first + b], channel, 0, 0));
        }
        __syncthreads();
      }
    });
    const RoiMap& map = p.maps[tile.level];
    if (tile.row + row < map.height) {
      sums.store(map, map_pixel<T>(map, tile.image, channel, tile.row + row, tile.column),
                 map.width - tile.column);
    }
  }
}

template <class Acc>
__device__ Acc weight_of(const RoiAxis<Acc>& axis, int64_t bin, Acc factor, int64_t pixel) {
  Acc weight;
  fill_weights(axis, bin, factor, pixel, 1, &weight);
  return weight;
}

template <class T>
__global__ void __launch_bounds__(kTileThreads, 1)
    roi_align_gather_each(const __grid_constant__ RoiAlignParams p, const BoxesOfMaps listed,
                          const int64_t level) {
  using Acc = typename Accumulate<T>::type;
  const RoiMap& map = p.maps[level];
  const int64_t count = p.images * p.channels * map.height * map.width;
  const int64_t step = int64_t{gridDim.x} * kTileThreads;
  for (int64_t i = int64_t{blockIdx.x} * kTileThreads + threadIdx.x; i < count; i += step) {
    const int64_t line = i / map.width, plane = line / map.height, image = plane / p.channels;
    const int64_t column = i - line * map.width, row = line - plane * map.height;
    const int64_t channel = plane - image * p.channels;
    Acc sum = 0;
    const BoxRange of_map = listed.of_map[level * p.images + image];
    for (int64_t n = of_map.begin; n < of_map.end; ++n) {
      const RoiSpan& span = listed.spans[n];
      if (!meets(span, row, row, column, column)) continue;
      const int64_t k = span.box;
      const Roi<Acc> roi = load_roi<Acc>(p, k);
      const Acc factor = mean_factor(roi.y, roi.x);
      const BinSpan rows = bins_between(roi.y, row, row);
      const BinSpan columns = bins_between(roi.x, column, column);
      for (int64_t x = columns.begin; x < columns.end; ++x) {
        const Acc column_weight = weight_of(roi.x, x, static_cast<Acc>(1), column);
        if (column_weight < static_cast<Acc>(0)) continue;
        Acc along_y = 0;
        for (int64_t y = rows.begin; y < rows.end; ++y) {
          const Acc weight = weight_of(roi.y, y, factor, row);
          if (weight < static_cast<Acc>(0)) continue;
          along_y +=
              weight * load_number(static_cast<const T*>(p.bins) + bin_offset(p, k, channel, y, x));
        }
        sum += column_weight * along_y;
      }
    }
    store_element(map_pixel<T>(map, image, channel, row, column), sum);
  }
}

template <class T, bool on_channels>
void gather_as(const RoiAlignParams& p, const BoxesOfMaps& listed, void* stream) {
  using Acc = typename Accumulate<T>::type;
  const auto grid = tile_grid<TileShape<on_channels>>(p);
  const int64_t bytes = weight_bytes<Acc, TileShape<on_channels>::kColumns>(p);
  int64_t at_once = kTileThreads / (p.bins_y + p.bins_x);
  if (at_once > kMostBoxesAtOnce) at_once = kMostBoxesAtOnce;
  if (at_once > kWeightBytes / bytes) at_once = kWeightBytes / bytes;
  if (at_once < 1) at_once = 1;
  launch(roi_align_gather<T, on_channels>, grid_for(grid.count), dim3(kTileThreads),
         at_once * bytes, stream, p, listed, grid, static_cast<int>(at_once),
         static_cast<int>(bytes));
}

template <class T>
void backward_input_as(const RoiAlignParams& p, Workspace& workspace) {
  using Acc = typename Accumulate<T>::type;
  const BoxesOfMaps listed = list_rois<Acc>(p, workspace);
  void* stream = workspace.stream();
  if (weight_bytes<Acc, TileShape<false>::kColumns>(p) <= kMostWeightBytes) {
    gather_as<T, true>(p, listed, stream);
    gather_as<T, false>(p, listed, stream);
    return;
  }
  for (int64_t level = 0; level < p.levels; ++level) {
    const int64_t count = p.images * p.channels * p.maps[level].height * p.maps[level].width;
    launch(roi_align_gather_each<T>, grid_for(parts_of(count, kTileThreads)), dim3(kTileThreads), 0,
           stream, p, listed, level);
  }
}

void backward_input_cuda(const RoiAlignParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    backward_input_as<std::remove_pointer_t<decltype(element)>>(p, workspace);
  });
}

const bool registered = roi_align_backward_input_stub.set(kCudaSlot, backward_input_cuda);

}  // namespace
}  // namespace visops
