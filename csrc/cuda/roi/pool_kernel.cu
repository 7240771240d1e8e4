// NOTE [ RoI pooling on CUDA ]
// Forward: a thread has a bin of a channel and goes through its pixels. Backward: NOTE [ Gradients
// of maps by tiles ]; for a box that reaches the tile, lanes look at the indices of the bins that
// reach it. Sums have the order of NOTE [ RoI pooling ].
//
// Boxes that are not valid have bins of 0, index -1, and no gradient.
#include "core/roi/pool.h"
#include "cuda/roi/channel_tiles.h"

namespace visops {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads) roi_pool(const __grid_constant__ RoiPoolParams pool) {
  using Acc = typename Accumulate<T>::type;
  const RoiAlignParams& p = pool.align;
  const RoiMap& m = p.maps[0];
  for_each_bin(p, [&](const BinAt& at) {
    const PoolRegion<Acc> region = load_pool_region<Acc>(p, at.box);
    Acc best = static_cast<Acc>(0);
    int32_t index = -1;
    if (region.valid) {
      const T* plane = static_cast<const T*>(m.data) + region.image * m.image_stride +
                       at.channel * m.channel_stride;
      const PixelRange rows = pixels_of(region.y, at.y), columns = pixels_of(region.x, at.x);
      for (int64_t y = rows.first; y < rows.last; ++y) {
        for (int64_t x = columns.first; x < columns.last; ++x) {
          const Acc value = load_element(plane + y * m.row_stride + x * m.column_stride);
          if (index < 0 || is_above(value, best)) {
            best = value;
            index = static_cast<int32_t>(y * m.width + x);
          }
        }
      }
    }
    store_element(static_cast<T*>(p.bins) + bin_offset(p, at), best);
    pool.index[index_offset(p, at.box, at.channel, at.y, at.x)] = index;
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    roi_pool_at(const __grid_constant__ RoiPoolParams pool) {
  const RoiAlignParams& p = pool.align;
  const RoiMap& m = p.maps[0];
  for_each_bin(p, [&](const BinAt& at) {
    const Roi<float> roi = load_roi<float>(p, at.box);
    const int32_t pixel = pool.index[index_offset(p, at.box, at.channel, at.y, at.x)];
    T value = {};
    if (roi.image < p.images && is_pixel(m, pixel)) {
      value = static_cast<const T*>(
          m.data)[roi.image * m.image_stride + at.channel * m.channel_stride +
                  pixel / m.width * m.row_stride + pixel % m.width * m.column_stride];
    }
    static_cast<T*>(p.bins)[bin_offset(p, at)] = value;
  });
}

__device__ inline bool meet(PixelRange range, int64_t first, int64_t last) {
  return range.first < last && range.last > first;
}

template <class T>
__global__ void __launch_bounds__(kWarp)
    roi_pool_backward(const __grid_constant__ RoiPoolParams pool, const ChannelTiles tiles) {
  using Acc = typename Accumulate<T>::type;
  const RoiAlignParams& p = pool.align;
  const RoiMap& m = p.maps[0];
  const auto touches = [&](const ChannelTile<Acc>& tile, int64_t k) {
    const PoolRegion<Acc> region = load_pool_region<Acc>(p, k);
    if (!region.valid || region.image != tile.image) return false;
    const PixelRange rows = {pixels_of(region.y, 0).first, pixels_of(region.y, p.bins_y - 1).last};
    const PixelRange columns = {pixels_of(region.x, 0).first,
                                pixels_of(region.x, p.bins_x - 1).last};
    return meet(rows, tile.top, tile.bottom) && meet(columns, tile.left, tile.right);
  };
  const auto add = [&](const ChannelTile<Acc>& tile, int64_t k) {
    if (tile.channel >= p.channels) return;
    const PoolRegion<Acc> region = load_pool_region<Acc>(p, k);
    for (int64_t y = 0; y < p.bins_y; ++y) {
      if (!meet(pixels_of(region.y, y), tile.top, tile.bottom)) continue;
      for (int64_t x = 0; x < p.bins_x; ++x) {
        if (!meet(pixels_of(region.x, x), tile.left, tile.right)) continue;
        const int32_t pixel = pool.index[index_offset(p, k, tile.channel, y, x)];
        if (!is_pixel(m, pixel)) continue;
        const int64_t row = pixel / m.width, column = pixel - row * m.width;
        if (!tile.has(row, column)) continue;
        const BinAt at = {k, tile.channel, y, x};
        tile.add(row, column, load_element(static_cast<const T*>(p.bins) + bin_offset(p, at)));
      }
    }
  };
  sum_channel_tiles<Acc>(p, tiles, touches, add);
}

void roi_pool_launch(const RoiPoolParams& pool, void* stream) {
  const auto start = [&](auto kernel) {
    launch(kernel, grid_for_bins(pool.align), dim3(kThreads), 0, stream, pool);
  };
  with_element_type(pool.align.dtype, [&](auto* element) {
    start(roi_pool<std::remove_pointer_t<decltype(element)>>);
  });
}

void roi_pool_at_launch(const RoiPoolParams& pool, void* stream) {
  const auto start = [&](auto kernel) {
    launch(kernel, grid_for_bins(pool.align), dim3(kThreads), 0, stream, pool);
  };
  switch (element_size(pool.align.dtype)) {
    case 1: return start(roi_pool_at<uint8_t>);
    case 2: return start(roi_pool_at<uint16_t>);
    case 4: return start(roi_pool_at<uint32_t>);
    default: return start(roi_pool_at<uint64_t>);
  }
}

void roi_pool_backward_launch(const RoiPoolParams& pool, void* stream) {
  const ChannelTiles tiles = channel_tiles(pool.align, pool.align.channels);
  const auto start = [&](auto kernel) {
    launch(kernel, grid_for(tiles.count), dim3(kWarp), 0, stream, pool, tiles);
  };
  with_floating_type(pool.align.dtype, [&](auto* element) {
    start(roi_pool_backward<std::remove_pointer_t<decltype(element)>>);
  });
}

const bool registered = roi_pool_stub.set(kCudaSlot, roi_pool_launch) &&
                        roi_pool_at_stub.set(kCudaSlot, roi_pool_at_launch) &&
                        roi_pool_backward_stub.set(kCudaSlot, roi_pool_backward_launch);

}  // namespace
}  // namespace visops
