// NOTE [ Position-sensitive RoIAlign on CUDA ]
// Forward: NOTE [ RoIAlign on CUDA ], with a channel of its own for each bin. Backward: NOTE [
// RoIAlign's gradient of maps on CUDA ] in cuda/roi/box_tile.h, with the weights of
// cuda/roi/box_weights.h; a channel of the map has one bin of every box. Sums have the order of
// NOTE [ RoIAlign samples ].
//
// Boxes that are not valid have bins of 0 and no gradient.
#include "core/roi/pool.h"

#include "cuda/roi/box_weights.h"
#include "cuda/roi/mean.h"

namespace visops {
namespace {

// A channel of the bins has adjacent channels of the map, one for each bin. So lanes are bins.
struct BinsChannels {
  VISOPS_DEVICE static bool are_lanes(const RoiAlignParams&, const RoiMap&) { return false; }
  VISOPS_DEVICE static int64_t first_of(const RoiAlignParams& p, const Item& item) {
    return ps_channel(p, item.channel, item.bin_y, item.bin_x);
  }
  VISOPS_DEVICE static int64_t step(const RoiAlignParams& p) { return p.bins_y * p.bins_x; }
};

template <class T, bool listed>
__global__ void __launch_bounds__(kThreads, blocks_at_once<T>())
    ps_roi_align(const __grid_constant__ RoiAlignParams p, const ItemPlan plan, const ListRoom room,
                 const int64_t first) {
  pool_block<T, BinsChannels, listed>(p, plan, room, first + blockIdx.x);
}

// The bin that a channel of the map belongs to, and its channel of the bins.
template <class Index>
struct ChannelBin {
  Index channel;
  int32_t y, x;
};

// Divisions of 64 bits are calls, which take registers: Index is int32_t where it can be.
template <class Index>
__device__ ChannelBin<Index> bin_of_channel(const RoiAlignParams& p, Index map_channel) {
  const Index bins_y = static_cast<Index>(p.bins_y), bins_x = static_cast<Index>(p.bins_x);
  const Index plane = map_channel / bins_x, channel = plane / bins_y;
  return {channel, static_cast<int32_t>(plane - channel * bins_y),
          static_cast<int32_t>(map_channel - plane * bins_x)};
}

// Few sums: those and what finding weights takes share the registers.
template <bool on_channels>
struct PsShape {
  static constexpr int kRows = kTileRows;
  static constexpr int kColumns = on_channels ? 8 : kWarp;
  static constexpr int kChannels = on_channels ? kWarp : 12;

  static bool is_for(const RoiMap& map, int64_t channels) {
    return lanes_are_channels(map, channels) == on_channels;
  }
};

// The sums of a thread whose lane is a channel: [columns of the tile].
template <class T>
struct ChannelSums {
  using Acc = typename Accumulate<T>::type;
  using Shape = PsShape<true>;
  static constexpr int kColumns = Shape::kColumns;
  Acc sum[kColumns] = {};
  int64_t grad_at;  // where the channel's bin lies in box 0
  uint16_t bin_y, bin_x;
  bool has_channel;

  __device__ ChannelSums(const RoiAlignParams& p, const Tile& tile) {
    const int64_t channel = tile.channel + lane_of_thread();
    const auto at = bin_of_channel(p, static_cast<int32_t>(channel));
    grad_at = bin_offset(p, 0, at.channel, at.y, at.x);
    bin_y = static_cast<uint16_t>(at.y);
    bin_x = static_cast<uint16_t>(at.x);
    has_channel = channel < ps_channel(p, p.channels, 0, 0);
  }

  __device__ void add_box(const RoiAlignParams& p, const Tile&,
                          const BoxWeights<Acc, kColumns>& weights, int64_t k) {
    const int row = row_of_thread();
    if (!has_channel || weights.row_bins[row].end == 0) return;
    const Acc row_weight = weights.of_row[bin_y * weights.kRowStep + row];
    if (row_weight < static_cast<Acc>(0)) return;
    const Acc of_row =
        row_weight * load_element(static_cast<const T*>(p.bins) + k * p.roi_stride + grad_at);
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      const Acc weight = weights.of_column[bin_x * weights.kColumnStep + column];
      if (weight >= static_cast<Acc>(0)) sum[column] += weight * of_row;
    }
  }

  __device__ void store(const RoiAlignParams&, const RoiMap& map, const Tile& tile) const {
    if (!has_channel) return;
    Acc* out = map_pixel<Acc>(map, tile.image, tile.channel + lane_of_thread(),
                              tile.row + row_of_thread(), tile.column);
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      if (column < map.width - tile.column) out[column * map.column_stride] = sum[column];
    }
  }
};

// The sums of a thread whose lane is a column: [channels].
template <class T>
struct ColumnSums {
  using Acc = typename Accumulate<T>::type;
  using Shape = PsShape<false>;
  static constexpr int kColumns = Shape::kColumns, kChannels = Shape::kChannels;
  Acc sum[kChannels] = {};
  int count;

  __device__ ColumnSums(const RoiAlignParams& p, const Tile& tile) {
    const int64_t left = ps_channel(p, p.channels, 0, 0) - tile.channel;
    count = left < kChannels ? static_cast<int>(left) : kChannels;
  }

  // All lanes go through the channels' bins together, and skip those that don't read the row.
  __device__ void add_box(const RoiAlignParams& p, const Tile& tile,
                          const BoxWeights<Acc, kColumns>& weights, int64_t k) {
    const int row = row_of_thread(), lane = lane_of_thread();
    if (weights.row_bins[row].end == 0) return;
    const auto first = bin_of_channel(p, static_cast<int32_t>(tile.channel));
    const T* grad = static_cast<const T*>(p.bins) + bin_offset(p, k, first.channel, 0, 0);
    int y = first.y, x = first.x;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      if (c >= count) break;
      const Acc row_weight = weights.of_row[y * weights.kRowStep + row];
      if (row_weight >= static_cast<Acc>(0)) {
        const Acc of_row =
            row_weight * load_element(grad + y * p.bin_row_stride + x * p.bin_column_stride);
        const Acc weight = weights.of_column[x * weights.kColumnStep + lane];
        if (weight >= static_cast<Acc>(0)) sum[c] += weight * of_row;
      }
      if (++x < p.bins_x) continue;
      x = 0;
      if (++y < p.bins_y) continue;
      y = 0;
      grad += p.channel_stride;
    }
  }

  __device__ void store(const RoiAlignParams&, const RoiMap& map, const Tile& tile) const {
    const int64_t column = tile.column + lane_of_thread();
    if (column >= map.width) return;
    Acc* out = map_pixel<Acc>(map, tile.image, tile.channel, tile.row + row_of_thread(), column);
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      if (c < count) out[c * map.channel_stride] = sum[c];
    }
  }
};

// Adds one box after the other.
template <class Lanes>
struct PsSums : Lanes {
  const WeightRoom& room;

  __device__ PsSums(const RoiAlignParams& p, const Tile& tile, const WeightRoom& r)
      : Lanes(p, tile), room(r) {}

  __device__ void add(const RoiAlignParams& p, const Tile& tile, const int64_t* boxes, int count) {
    for (int b = 0; b < count; ++b) {
      const BoxWeights<typename Lanes::Acc, Lanes::kColumns> weights(
          p, dynamic_shared<unsigned char>() + b * room.bytes);
      this->add_box(p, tile, weights, boxes[b]);
    }
    __syncthreads();
  }
};

template <class T, bool on_channels>
__global__ void __launch_bounds__(kTileThreads, sizeof(T) == 8 ? 2 : 4)
    ps_roi_align_gather(const __grid_constant__ RoiAlignParams p,
                        const ListedRois<typename Accumulate<T>::type> listed,
                        const __grid_constant__ TileGrid<PsShape<on_channels>> grid,
                        const WeightRoom room, const int64_t first) {
  using Sums = PsSums<std::conditional_t<on_channels, ChannelSums<T>, ColumnSums<T>>>;
  gather_tile<Sums>(p, listed, grid, room, first + blockIdx.x);
}

template <class T>
__global__ void __launch_bounds__(kTileThreads, sizeof(T) == 8 ? 2 : 4)
    ps_roi_align_gather_each(const __grid_constant__ RoiAlignParams p, const BoxesOfMaps listed) {
  using Acc = typename Accumulate<T>::type;
  const RoiMap& map = p.maps[0];
  for_each_map_pixel(p, map, ps_channel(p, p.channels, 0, 0), [&](const MapPixel& at) {
    Acc sum = 0;
    for_boxes_at(listed, at.image, at, [&](int64_t k) {
      const Roi<Acc> roi = load_roi<Acc>(p, k);
      const auto bin = bin_of_channel(p, at.channel);
      const Acc row_weight = weight_of(roi.y, bin.y, mean_factor(roi.y, roi.x), at.row);
      if (row_weight < static_cast<Acc>(0)) return;
      const Acc column_weight = weight_of(roi.x, bin.x, static_cast<Acc>(1), at.column);
      if (column_weight < static_cast<Acc>(0)) return;
      sum +=
          column_weight * (row_weight * load_element(static_cast<const T*>(p.bins) +
                                                     bin_offset(p, k, bin.channel, bin.y, bin.x)));
    });
    *map_pixel<Acc>(map, at.image, at.channel, at.row, at.column) = sum;
  });
}

void ps_roi_align_cuda(const RoiAlignParams& p, Workspace& workspace) {
  with_element_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    launch_pool<T, BinsChannels>(ps_roi_align<T, true>, ps_roi_align<T, false>, p, workspace);
  });
}

constexpr int64_t kMostWeightBytes = 32512;  // for a single box

// Starts kernel(p, listed, grid, room, first), which calls gather_tile() for tile `first` and those
// after it.
template <class Acc, class Shape>
void launch_gather(void (*kernel)(RoiAlignParams, ListedRois<Acc>, TileGrid<Shape>, WeightRoom,
                                  int64_t),
                   const RoiAlignParams& p, int64_t channels, const ListedRois<Acc>& listed,
                   void* stream) {
  const TileGrid<Shape> grid = tile_grid<Shape>(p, channels, Shape::kChannels);
  const WeightRoom room = weight_room<Acc, Shape::kColumns>(p);
  each_grid(grid.count, [&](int64_t first, dim3 blocks) {
    launch(kernel, blocks, dim3(kTileThreads), room.boxes * room.bytes, stream, p, listed, grid,
           room, first);
  });
}

template <class T>
void backward_as(const RoiAlignParams& p, Workspace& workspace) {
  using Acc = typename Accumulate<T>::type;
  const RoiMap& map = p.maps[0];
  const int64_t channels = ps_channel(p, p.channels, 0, 0);
  const ListedRois<Acc> listed = list_rois<Acc>(p, workspace);
  void* stream = workspace.stream();
  if (weight_bytes<Acc, kWarp>(p) <= kMostWeightBytes && channels < INT32_MAX) {
    launch_gather(ps_roi_align_gather<T, true>, p, channels, listed, stream);
    launch_gather(ps_roi_align_gather<T, false>, p, channels, listed, stream);
    return;
  }
  const int64_t count = p.images * channels * map.height * map.width;
  launch(ps_roi_align_gather_each<T>, grid_for(parts_of(count, kTileThreads)), dim3(kTileThreads),
         0, stream, p, listed);
}

void ps_roi_align_backward_cuda(const RoiAlignParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    backward_as<std::remove_pointer_t<decltype(element)>>(p, workspace);
  });
}

const bool registered = ps_roi_align_stub.set(kCudaSlot, ps_roi_align_cuda) &&
                        ps_roi_align_backward_stub.set(kCudaSlot, ps_roi_align_backward_cuda);

}  // namespace
}  // namespace visops
