// The map's gradient of RoIAlign's means: NOTE [ RoIAlign's gradient of maps on CUDA ] in
// cuda/roi/box_tile.h, with the weights of cuda/roi/box_weights.h.
//
// Lanes are channels, whatever the layout: so the sum over bins along y of row weight * gradient
// serves all columns of the tile, and a column that a bin doesn't read costs a test. First the
// block copies those bins of its boxes that reach the tile to shared memory, many loads at a time;
// then each thread adds up box by box, over bins along x, the column weight times that sum. Where
// columns are adjacent in memory, sums change lanes as they are written.
//
// Rounding: core/roi/align.h, without contraction (-fmad=false), so the bits are the CPU's.
#include <algorithm>

#include "cuda/roi/box_weights.h"

namespace visops {
namespace {

// A thread keeps kColumns * kGroup sums in registers; float64 takes two for each.
template <class Acc>
struct GatherShape {
  static constexpr int kRows = kTileRows, kColumns = 8;
  static constexpr int kGroup = sizeof(Acc) == 8 ? 2 : 4;
  static constexpr int kMostChannels = kGroup * kWarp;
  static bool is_for(const RoiMap&, int64_t) { return true; }
};

// Sums that change lanes wait here, [row of the tile][column][channel]: lanes that read four
// channels of all columns hit different banks.
constexpr int kSumStep = kWarp + 4;
constexpr int64_t kSumsOfTile = int64_t{kTileRows} * 8 * kSumStep;

// A block's dynamic shared memory: weights, then gradients of bins. For each of `slots` bins there
// are the channels of the tile, kWarp or kMostChannels; those of adjacent slots begin in different
// banks.
struct GatherRoom : WeightRoom {
  int channels, slots;
};

template <int groups>
constexpr int kSlotStep = groups * kWarp + 1;

constexpr int64_t kUsualSlots = 32;
constexpr int64_t kMostRoomBytes = 43008;  // 48 KiB with a block's other arrays

template <class Acc>
int64_t room_bytes(const GatherRoom& room) {
  const int64_t gradients = int64_t{room.slots} * (room.channels + 1);
  return int64_t{room.bytes} * room.boxes + std::max(gradients, kSumsOfTile) * int64_t{sizeof(Acc)};
}

// A column of bins is not divided, so there are slots for the highest one. Where it takes more than
// the usual room, blocks have fewer channels.
template <class Acc>
GatherRoom gather_room(const RoiAlignParams& p) {
  using Shape = GatherShape<Acc>;
  const int64_t usual = kUsualSlots * (Shape::kMostChannels + 1);
  const bool is_small = p.channels <= Shape::kMostChannels / 2 || p.bins_y > kUsualSlots;
  const int channels = is_small ? kWarp : Shape::kMostChannels;
  return {weight_room<Acc, Shape::kColumns>(p), channels,
          at_most<INT32_MAX>(std::max(usual / (channels + 1), p.bins_y))};
}

// The bins of a box that reach a tile. Each column of them takes `rows` slots.
struct TileBins {
  int first_row, rows, first_column, columns;
};

template <class Weights>
__device__ TileBins bins_of_tile(const Weights& weights, int columns) {
  TileBins bins = {};
  for (int row = 0; row < kTileRows; ++row) {
    const BinRange range = weights.row_bins[row];
    if (range.end == 0) continue;
    if (bins.rows == 0) bins.first_row = range.begin;
    bins.rows = range.end - bins.first_row;
  }
  for (int column = 0; column < columns; ++column) {
    const BinRange range = weights.column_bins[column];
    if (range.end == 0) continue;
    if (bins.columns == 0) bins.first_column = range.begin;
    bins.columns = range.end - bins.first_column;
  }
  if (bins.rows == 0) bins.columns = 0;
  return bins;
}

// A column of a box's bins; columns count from the first one that reaches the tile.
struct BinColumn {
  int box, column;
};

// The sums of a thread: [columns of the tile][channels kWarp apart].
template <class T>
struct ChannelSums {
  using Acc = typename Accumulate<T>::type;
  using Shape = GatherShape<Acc>;
  static constexpr int kColumns = Shape::kColumns, kGroup = Shape::kGroup;
  using Weights = BoxWeights<Acc, kColumns>;
  Acc sum[kColumns][kGroup] = {};
  const GatherRoom& room;

  __device__ ChannelSums(const RoiAlignParams&, const Tile&, const GatherRoom& r) : room(r) {}

  // Called by all threads of the block, which synchronise here.
  __device__ void add(const RoiAlignParams& p, const Tile& tile, const int64_t* boxes, int count) {
    __shared__ TileBins bins[kMostBoxesAtOnce];
    if (static_cast<int>(threadIdx.x) < count) {
      bins[threadIdx.x] = bins_of_tile(weights_of(p, threadIdx.x), kColumns);
    }
    __syncthreads();
    if (room.channels == kWarp) {
      add_listed<1>(p, tile, boxes, bins, count);
    } else {
      add_listed<kGroup>(p, tile, boxes, bins, count);
    }
  }

  __device__ void store(const RoiAlignParams& p, const RoiMap& map, const Tile& tile) const {
    const int columns = at_most<kColumns>(map.width - tile.column);
    if (map.channel_stride == 1) {
      T* out = map_pixel<T>(map, tile.image, tile.channel + lane_of_thread(),
                            tile.row + row_of_thread(), tile.column);
      const int channels = channels_of(p, tile) - lane_of_thread();
#pragma unroll
      for (int column = 0; column < kColumns; ++column) {
        if (column >= columns) break;
#pragma unroll
        for (int c = 0; c < kGroup; ++c) {
          if (c * kWarp < channels) {
            store_element(out + column * map.column_stride + c * kWarp, sum[column][c]);
          }
        }
      }
      return;
    }
    Acc* own = gradients() + row_of_thread() * (kColumns * kSumStep);
    const int column = lane_of_thread() % kColumns, channel = lane_of_thread() / kColumns;
    T* out = map_pixel<T>(map, tile.image, tile.channel + channel, tile.row + row_of_thread(),
                          tile.column + column);
    const int channels = channels_of(p, tile) - channel;
#pragma unroll
    for (int c = 0; c < kGroup; ++c) {
      if (c * kWarp >= room.channels) break;
#pragma unroll
      for (int i = 0; i < kColumns; ++i) own[i * kSumStep + lane_of_thread()] = sum[i][c];
      __syncwarp();
#pragma unroll
      for (int i = c * kWarp; i < (c + 1) * kWarp; i += kWarp / kColumns) {
        if (column < columns && i < channels) {
          store_element(out + i * map.channel_stride,
                        own[column * kSumStep + channel + (i - c * kWarp)]);
        }
      }
      __syncwarp();
    }
  }

 private:
  __device__ int channels_of(const RoiAlignParams& p, const Tile& tile) const {
    const int64_t left = p.channels - tile.channel;
    return left < room.channels ? static_cast<int>(left) : room.channels;
  }
  __device__ Acc* gradients() const {  // [slots, slot_step]
    return reinterpret_cast<Acc*>(dynamic_shared<unsigned char>() + room.boxes * room.bytes);
  }
  __device__ Weights weights_of(const RoiAlignParams& p, int box) const {
    return Weights(p, dynamic_shared<unsigned char>() + box * room.bytes);
  }

  // For blocks of so many groups of channels.
  template <int groups>
  __device__ void add_listed(const RoiAlignParams& p, const Tile& tile, const int64_t* boxes,
                             const TileBins* bins, int count) {
    BinColumn begin = {0, 0};
    while (true) {
      int slots = 0;
      const BinColumn end = end_of_slots(bins, count, begin, &slots);
      if (slots == 0) break;
      stage<groups>(p, tile, boxes, bins, begin, slots);
      __syncthreads();
      add_staged<groups>(p, bins, begin, end);
      __syncthreads();
      begin = end;
    }
  }

  // As many columns of bins as there are slots for, from `begin` on.
  __device__ BinColumn end_of_slots(const TileBins* bins, int count, BinColumn begin,
                                    int* slots) const {
    BinColumn end = begin;
    for (; end.box < count; ++end.box, end.column = 0) {
      const TileBins own = bins[end.box];
      const int left = room.slots - *slots, wanted = (own.columns - end.column) * own.rows;
      if (wanted > left) {
        const int columns = left / own.rows;
        end.column += columns;
        *slots += columns * own.rows;
        break;
      }
      *slots += wanted;
    }
    return end;
  }

  // Where the bin of a slot lies in `bins`, in elements of the tile's first channel. Slots count
  // from the first column of `box`.
  __device__ static const T* gradient_at(const RoiAlignParams& p, const Tile& tile,
                                         const int64_t* boxes, const TileBins* bins, int box,
                                         int slot) {
    TileBins own = bins[box];
    while (slot >= own.rows * own.columns) {
      slot -= own.rows * own.columns;
      own = bins[++box];
    }
    const int column = slot / own.rows, row = slot - column * own.rows;
    const int offset = (own.first_row + row) * static_cast<int>(p.bin_row_stride) +
                       (own.first_column + column) * static_cast<int>(p.bin_column_stride);
    return static_cast<const T*>(p.bins) + bin_offset(p, boxes[box], tile.channel, 0, 0) + offset;
  }

  // Copies the bins of so many slots. Lanes are channels where those are adjacent, else slots.
  // Channels beyond the last one are 0.
  template <int groups>
  __device__ void stage(const RoiAlignParams& p, const Tile& tile, const int64_t* boxes,
                        const TileBins* bins, BinColumn begin, int slots) const {
    const int skipped = begin.column * bins[begin.box].rows;
    const int channels = channels_of(p, tile);
    const int lane = lane_of_thread(), warp = row_of_thread();
    constexpr int step = kSlotStep<groups>;
    if (p.channel_stride == 1) {
      for (int slot = warp; slot < slots; slot += kTileRows) {
        const T* from = gradient_at(p, tile, boxes, bins, begin.box, slot + skipped);
        Acc* to = gradients() + slot * step;
#pragma unroll
        for (int channel = lane; channel < groups * kWarp; channel += kWarp) {
          to[channel] = channel < channels ? load_element(from + channel) : Acc{};
        }
      }
      return;
    }
    for (int slot = lane; slot < slots; slot += kWarp) {
      const T* from =
          gradient_at(p, tile, boxes, bins, begin.box, slot + skipped) + warp * p.channel_stride;
      Acc* to = gradients() + slot * step;
#pragma unroll 8
      for (int channel = warp; channel < groups * kWarp; channel += kTileRows) {
        to[channel] = channel < channels ? load_element(from) : Acc{};
        from += kTileRows * p.channel_stride;
      }
    }
  }

  template <int groups>
  __device__ void add_staged(const RoiAlignParams& p, const TileBins* bins, BinColumn begin,
                             BinColumn end) {
    const int boxes = end.column > 0 ? end.box + 1 : end.box;
    const Acc* staged = gradients() + lane_of_thread();
    for (int box = begin.box; box < boxes; ++box) {
      const TileBins own = bins[box];
      const int from = box == begin.box ? begin.column : 0;
      const int to = box == end.box ? end.column : own.columns;
      add_columns<groups>(weights_of(p, box), own, from, to, staged);
      staged += (to - from) * own.rows * kSlotStep<groups>;
    }
  }

  // The columns from <= x < to of a box's bins, staged from `staged` on.
  template <int groups>
  __device__ void add_columns(const Weights& weights, const TileBins& bins, int from, int to,
                              const Acc* staged) {
    const int row = row_of_thread();
    constexpr int step = kSlotStep<groups>;
    const BinRange rows = weights.row_bins[row];
    if (rows.end == 0) return;
    const Acc* of_row = weights.of_row + rows.begin * Weights::kRowStep + row;
    const Acc* of_column = weights.of_column + (bins.first_column + from) * Weights::kColumnStep;
    staged += (rows.begin - bins.first_row) * step;
    for (int x = from; x < to; ++x) {
      Acc along_y[groups] = {};
#pragma unroll 1
      for (int y = 0; y < rows.end - rows.begin; ++y) {
        const Acc weight = of_row[y * Weights::kRowStep];
        if (weight < static_cast<Acc>(0)) continue;
#pragma unroll
        for (int c = 0; c < groups; ++c) along_y[c] += weight * staged[y * step + c * kWarp];
      }
#pragma unroll
      for (int first = 0; first < kColumns; first += 4) {
        const auto four = *reinterpret_cast<const FourWeights*>(of_column + first);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (four.weight[i] < static_cast<Acc>(0)) continue;
#pragma unroll
          for (int c = 0; c < groups; ++c) sum[first + i][c] += four.weight[i] * along_y[c];
        }
      }
      staged += bins.rows * step;
      of_column += Weights::kColumnStep;
    }
  }

  struct alignas(16) FourWeights {
    Acc weight[4];
  };
};

template <class T>
__global__ void __launch_bounds__(kTileThreads, sizeof(T) == 8 ? 2 : 4) roi_align_gather(
    const __grid_constant__ RoiAlignParams p, const ListedRois<typename Accumulate<T>::type> listed,
    const __grid_constant__ TileGrid<GatherShape<typename Accumulate<T>::type>> grid,
    const GatherRoom room, const int64_t first) {
  gather_tile<ChannelSums<T>>(p, listed, grid, room, first + blockIdx.x);
}

template <class T>
__global__ void __launch_bounds__(kTileThreads, sizeof(T) == 8 ? 2 : 3)
    roi_align_gather_each(const __grid_constant__ RoiAlignParams p, const BoxesOfMaps listed,
                          const int64_t level) {
  using Acc = typename Accumulate<T>::type;
  const RoiMap& map = p.maps[level];
  for_each_map_pixel(p, map, p.channels, [&](const MapPixel& at) {
    Acc sum = 0;
    for_boxes_at(listed, level * p.images + at.image, at, [&](int64_t k) {
      const Roi<Acc> roi = load_roi<Acc>(p, k);
      const Acc factor = mean_factor(roi.y, roi.x);
      const BinSpan rows = bins_between(roi.y, at.row, at.row);
      const BinSpan columns = bins_between(roi.x, at.column, at.column);
      for (int64_t x = columns.begin; x < columns.end; ++x) {
        const Acc column_weight = weight_of(roi.x, x, static_cast<Acc>(1), at.column);
        if (column_weight < static_cast<Acc>(0)) continue;
        Acc along_y = 0;
        for (int64_t y = rows.begin; y < rows.end; ++y) {
          const Acc weight = weight_of(roi.y, y, factor, at.row);
          if (weight < static_cast<Acc>(0)) continue;
          along_y += weight * load_element(static_cast<const T*>(p.bins) +
                                           bin_offset(p, k, at.channel, y, x));
        }
        sum += column_weight * along_y;
      }
    });
    store_element(map_pixel<T>(map, at.image, at.channel, at.row, at.column), sum);
  });
}

template <class T>
void backward_input_as(const RoiAlignParams& p, Workspace& workspace) {
  using Acc = typename Accumulate<T>::type;
  const ListedRois<Acc> listed = list_rois<Acc>(p, workspace);
  void* stream = workspace.stream();
  const GatherRoom room = gather_room<Acc>(p);
  if (room_bytes<Acc>(room) <= kMostRoomBytes && stretch_of_bins(p) <= INT32_MAX) {
    const auto grid = tile_grid<GatherShape<Acc>>(p, p.channels, room.channels);
    each_grid(grid.count, [&](int64_t first, dim3 blocks) {
      launch(roi_align_gather<T>, blocks, dim3(kTileThreads), room_bytes<Acc>(room), stream, p,
             listed, grid, room, first);
    });
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
