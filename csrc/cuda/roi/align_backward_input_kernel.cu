// The map's gradient of RoIAlign's means: NOTE [ RoIAlign's gradient of maps on CUDA ] in
// cuda/roi/box_tile.h, with the weights of cuda/roi/box_weights.h.
//
// Each thread adds up box by box: over bins along x, the column weight times the sum over bins
// along y of row weight * gradient. If lanes are channels, that inner sum serves all columns of the
// tile.
//
// Rounding: core/roi/align.h, without contraction (-fmad=false), so the bits are the CPU's.
#include "cuda/roi/box_weights.h"

namespace visops {
namespace {

// A thread keeps these in registers: float64 takes two for each.
template <class Acc>
constexpr int kThreadSums = sizeof(Acc) == 8 ? 16 : 32;

// Eight columns: boxes are often narrower than a warp, and lanes beyond a box have nothing to do.
template <class T, bool on_channels>
using GatherShape = TileShape<on_channels, kThreadSums<typename Accumulate<T>::type>, 8>;

// Both kinds of sums have 32-bit offsets to a box's bins, and loops over bins that aren't unrolled:
// sums leave few registers.
//
// The sums of a thread whose lane is a channel: [columns of the tile][channels kWarp apart].
template <class T>
struct ChannelSums {
  using Acc = typename Accumulate<T>::type;
  using Shape = GatherShape<T, true>;
  static constexpr int kColumns = Shape::kColumns;
  static constexpr int kGroup = kThreadSums<Acc> / kColumns;
  static constexpr int kSums = kColumns * kGroup;
  Acc sum[kColumns][kGroup] = {};
  int count;  // of channels

  __device__ ChannelSums(const RoiAlignParams& p, const Tile& tile) {
    count = at_most<kGroup>(parts_of(p.channels - tile.channel - lane_of_thread(), kWarp));
  }

  __device__ Acc& at(int i) { return sum[i / kGroup][i % kGroup]; }

  __device__ void add(const RoiAlignParams& p, const Tile& tile,
                      const BoxWeights<Acc, kColumns>& weights, int64_t k) {
    const int row = row_of_thread();
    const BinRange rows = weights.row_bins[row];
    if (rows.end == 0) return;
    const T* grad =
        static_cast<const T*>(p.bins) + bin_offset(p, k, tile.channel + lane_of_thread(), 0, 0);
    int begin = static_cast<int>(p.bins_x), end = 0;
    for (int column = 0; column < kColumns; ++column) {
      const BinRange bins = weights.column_bins[column];
      if (bins.end == 0) continue;
      if (bins.begin < begin) begin = bins.begin;
      if (bins.end > end) end = bins.end;
    }
    const int32_t step = kWarp * static_cast<int32_t>(p.channel_stride);
    const auto row_stride = static_cast<int32_t>(p.bin_row_stride);
    const auto column_stride = static_cast<int32_t>(p.bin_column_stride);
    for (int x = begin; x < end; ++x) {
      Acc along_y[kGroup] = {};
#pragma unroll 1
      for (int y = rows.begin; y < rows.end; ++y) {
        const Acc weight = weights.of_row[y * weights.kRowStep + row];
        if (weight < static_cast<Acc>(0)) continue;
        const T* at = grad + (y * row_stride + x * column_stride);
#pragma unroll
        for (int c = 0; c < kGroup; ++c) {
          if (c < count) along_y[c] += weight * load_element(at + c * step);
        }
      }
#pragma unroll
      for (int column = 0; column < kColumns; ++column) {
        const Acc weight = weights.of_column[x * weights.kColumnStep + column];
        if (weight < static_cast<Acc>(0)) continue;
#pragma unroll
        for (int c = 0; c < kGroup; ++c) sum[column][c] += weight * along_y[c];
      }
    }
  }

  __device__ void store(const RoiMap& map, const Tile& tile) const {
    T* out = map_pixel<T>(map, tile.image, tile.channel + lane_of_thread(),
                          tile.row + row_of_thread(), tile.column);
    const int64_t columns = map.width - tile.column;
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

// The sums of a thread whose lane has a column and every kParts-th channel: [channels].
template <class T>
struct ColumnSums {
  using Acc = typename Accumulate<T>::type;
  using Shape = GatherShape<T, false>;
  static constexpr int kColumns = Shape::kColumns;
  static constexpr int kParts = Shape::kColumnLanes;
  static constexpr int kGroup = 4;  // channels at a time
  static constexpr int kSums = kThreadSums<Acc>;
  Acc sum[kSums] = {};
  int count;

  __device__ ColumnSums(const RoiAlignParams& p, const Tile& tile) {
    count = at_most<kThreadSums<Acc>>(parts_of(p.channels - tile.channel - part(), kParts));
  }

  __device__ Acc& at(int i) { return sum[i]; }

  __device__ void add(const RoiAlignParams& p, const Tile& tile,
                      const BoxWeights<Acc, kColumns>& weights, int64_t k) {
    const int row = row_of_thread(), own = column();
    const BinRange rows = weights.row_bins[row], columns = weights.column_bins[own];
    if (rows.end == 0) return;
    const T* grad = static_cast<const T*>(p.bins) + bin_offset(p, k, tile.channel + part(), 0, 0);
    const int32_t step = kParts * static_cast<int32_t>(p.channel_stride);
    const auto row_stride = static_cast<int32_t>(p.bin_row_stride);
    const auto column_stride = static_cast<int32_t>(p.bin_column_stride);
#pragma unroll
    for (int first = 0; first < kThreadSums<Acc>; first += kGroup) {
      if (first >= count) break;
      for (int x = columns.begin; x < columns.end; ++x) {
        const Acc column_weight = weights.of_column[x * weights.kColumnStep + own];
        if (column_weight < static_cast<Acc>(0)) continue;
        Acc along_y[kGroup] = {};
#pragma unroll 1
        for (int y = rows.begin; y < rows.end; ++y) {
          const Acc weight = weights.of_row[y * weights.kRowStep + row];
          if (weight < static_cast<Acc>(0)) continue;
          const T* at = grad + (first * step + y * row_stride + x * column_stride);
#pragma unroll
          for (int c = 0; c < kGroup; ++c) {
            if (first + c < count) along_y[c] += weight * load_element(at + c * step);
          }
        }
#pragma unroll
        for (int c = 0; c < kGroup; ++c) sum[first + c] += column_weight * along_y[c];
      }
    }
  }

  __device__ void store(const RoiMap& map, const Tile& tile) const {
    const int64_t at_column = tile.column + column();
    if (at_column >= map.width) return;
    T* out =
        map_pixel<T>(map, tile.image, tile.channel + part(), tile.row + row_of_thread(), at_column);
#pragma unroll
    for (int c = 0; c < kThreadSums<Acc>; ++c) {
      if (c < count) {
        store_element(out + c * kParts * map.channel_stride, sum[c]);
      }
    }
  }

 private:
  __device__ static int column() { return lane_of_thread() % kColumns; }
  __device__ static int part() { return lane_of_thread() / kColumns; }
};

template <class T, bool on_channels>
__global__ void __launch_bounds__(kTileThreads, sizeof(T) == 8 ? 2 : 4)
    roi_align_gather(const __grid_constant__ RoiAlignParams p, const BoxesOfMaps listed,
                     const __grid_constant__ TileGrid<GatherShape<T, on_channels>> grid,
                     const int at_once, const int bytes, const int64_t first) {
  using Sums = std::conditional_t<on_channels, ChannelSums<T>, ColumnSums<T>>;
  gather_tile<Sums>(p, listed, grid, at_once, bytes, first + blockIdx.x);
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
  const BoxesOfMaps listed = list_rois<Acc>(p, workspace);
  void* stream = workspace.stream();
  if (has_room_for_weights<Acc>(p) && stretch_of_bins(p) <= INT32_MAX) {
    launch_gather<Acc>(roi_align_gather<T, true>, p, p.channels, listed, stream);
    launch_gather<Acc>(roi_align_gather<T, false>, p, p.channels, listed, stream);
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
