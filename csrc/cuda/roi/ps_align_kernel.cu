// NOTE [ Position-sensitive RoIAlign on CUDA ]
// Forward: a thread has a bin of a channel and takes weights one after another from BinPixels,
// without storing them. Backward: NOTE [ Gradients of maps by tiles ]; a lane has a channel of the
// map, and so one bin of every box. Sums have the order of NOTE [ RoIAlign samples ].
//
// Boxes that are not valid have bins of 0 and no gradient.
#include "core/roi/ps_align.h"
#include "cuda/roi/channel_tiles.h"

namespace visops {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads) ps_roi_align(const __grid_constant__ RoiAlignParams p) {
  using Acc = typename Accumulate<T>::type;
  const RoiMap& m = p.maps[0];
  for_each_bin(p, [&](const BinAt& at) {
    const Roi<Acc> roi = load_roi<Acc>(p, at.box);
    Acc total = static_cast<Acc>(0);
    if (roi.valid) {
      const T* plane = static_cast<const T*>(m.data) + roi.image * m.image_stride +
                       ps_channel(p, at.channel, at.y, at.x) * m.channel_stride;
      const Acc factor = mean_factor(roi.y, roi.x);
      BinPixels<Acc> rows = bin_pixels(roi.y, at.y);
      while (next_pixel(roi.y, &rows)) {
        Acc of_row = static_cast<Acc>(0);
        BinPixels<Acc> columns = bin_pixels(roi.x, at.x);
        while (next_pixel(roi.x, &columns)) {
          of_row += columns.weight * load_element(plane + rows.pixel * m.row_stride +
                                                  columns.pixel * m.column_stride);
        }
        total += rows.weight * factor * of_row;
      }
    }
    store_element(static_cast<T*>(p.bins) + bin_offset(p, at), total);
  });
}

// Whether samples may touch pixels first <= i < last. Rounding moves a sample by less than the
// margin.
template <class Acc>
__device__ bool may_touch(const RoiAxis<Acc>& axis, int64_t first, int64_t last) {
  if (axis.grid == 0) return false;
  const Acc size = axis.bin * static_cast<Acc>(axis.bins);
  const Acc margin =
      static_cast<Acc>(2) + static_cast<Acc>(1e-5) * (static_cast<Acc>(fabs(axis.start)) + size);
  return axis.start - margin <= static_cast<Acc>(last) &&
         axis.start + size + margin >= static_cast<Acc>(first);
}

template <class T>
__global__ void __launch_bounds__(kWarp)
    ps_roi_align_backward(const __grid_constant__ RoiAlignParams p, const ChannelTiles tiles) {
  using Acc = typename Accumulate<T>::type;
  const auto touches = [&](const ChannelTile<Acc>& tile, int64_t k) {
    const Roi<Acc> roi = load_roi<Acc>(p, k);
    return roi.valid && roi.image == tile.image && may_touch(roi.y, tile.top, tile.bottom) &&
           may_touch(roi.x, tile.left, tile.right);
  };
  const auto add = [&](const ChannelTile<Acc>& tile, int64_t k) {
    if (tile.channel >= tiles.channels) return;
    const Roi<Acc> roi = load_roi<Acc>(p, k);
    const Acc factor = mean_factor(roi.y, roi.x);
    const int64_t plane = tile.channel / p.bins_x, channel = plane / p.bins_y;
    const BinAt at = {k, channel, plane - channel * p.bins_y, tile.channel - plane * p.bins_x};
    const Acc grad = load_element(static_cast<const T*>(p.bins) + bin_offset(p, at));
    BinPixels<Acc> rows = bin_pixels(roi.y, at.y);
    while (next_pixel(roi.y, &rows) && rows.pixel < tile.bottom) {
      if (rows.pixel < tile.top) continue;
      const Acc of_row = rows.weight * factor * grad;
      BinPixels<Acc> columns = bin_pixels(roi.x, at.x);
      while (next_pixel(roi.x, &columns) && columns.pixel < tile.right) {
        if (columns.pixel < tile.left) continue;
        tile.add(rows.pixel, columns.pixel, columns.weight * of_row);
      }
    }
  };
  sum_channel_tiles<Acc>(p, tiles, touches, add);
}

void ps_roi_align_launch(const RoiAlignParams& p, void* stream) {
  const auto start = [&](auto kernel) {
    launch(kernel, grid_for_bins(p), dim3(kThreads), 0, stream, p);
  };
  with_element_type(p.dtype, [&](auto* element) {
    start(ps_roi_align<std::remove_pointer_t<decltype(element)>>);
  });
}

void ps_roi_align_backward_launch(const RoiAlignParams& p, void* stream) {
  const ChannelTiles tiles = channel_tiles(p, ps_channel(p, p.channels, 0, 0));
  const auto start = [&](auto kernel) {
    launch(kernel, grid_for(tiles.count), dim3(kWarp), 0, stream, p, tiles);
  };
  with_floating_type(p.dtype, [&](auto* element) {
    start(ps_roi_align_backward<std::remove_pointer_t<decltype(element)>>);
  });
}

const bool registered = ps_roi_align_stub.set(kCudaSlot, ps_roi_align_launch) &&
                        ps_roi_align_backward_stub.set(kCudaSlot, ps_roi_align_backward_launch);

}  // namespace
}  // namespace visops
