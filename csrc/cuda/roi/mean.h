// The means of a box's bins: NOTE [ RoIAlign on CUDA ] in cuda/roi/align_kernel.cu.
#pragma once

#include "cuda/roi/bin_lists.h"
#include "cuda/roi/work_items.h"

namespace visops {
namespace {

template <class Acc, class Offset>
struct PixelWeight {
  Acc weight;
  Offset offset;  // in elements, from pixel 0
};

// A bin's pixels along one axis; along y the weights include the mean's divisor.
template <class Acc, class Offset>
struct BinStream {
  using Entry = PixelWeight<Acc, Offset>;
  RoiAxis<Acc> axis;
  int32_t bin;
  SampleRange range;
  Acc factor;
  Offset stride;

  struct Pixels {
    const BinStream* of;
    BinPixels<Acc> pixels;

    __device__ bool next(Entry* entry) {
      if (!next_pixel(of->axis, &pixels)) return false;
      *entry = {pixels.weight * of->factor, pixels.pixel * of->stride};
      return true;
    }
  };

  static __device__ BinStream of(const RoiAlignParams& p, const Roi<Acc>& roi, bool is_row,
                                 int32_t bin) {
    const RoiAxis<Acc> axis = reload(is_row ? roi.y : roi.x);
    return {axis, bin, samples_on_map(axis, bin),
            is_row ? mean_factor(axis, reload(roi.x)) : static_cast<Acc>(1),
            static_cast<Offset>(stride_of(p.maps[roi.level], is_row))};
  }
  __device__ Pixels begin() const { return {this, bin_pixels(axis, bin, range)}; }
};

// `data` is at row and column 0 of the first channel, and the next one is `step` further on. If
// lanes are channels, `step` is a constant, which saves a good part of the instructions.
template <class T, class Acc, class Step, class Pixels>
__device__ void pool_bin(const T* data, int count, Step step, const Pixels& rows,
                         const Pixels& columns, Acc* sum) {
  typename Pixels::Entry row, column;
  for (auto more = rows.begin(); more.next(&row);) {
    const T* at_row = data + row.offset;
    Acc part[kGroup] = {};
    for (auto rest = columns.begin(); rest.next(&column);) {
      const T* at = at_row + column.offset;
#pragma unroll
      for (int c = 0; c < kGroup; ++c) {
        if (c < count) part[c] += column.weight * load_element(at + c * step);
      }
    }
#pragma unroll
    for (int c = 0; c < kGroup; ++c) sum[c] += row.weight * part[c];
  }
}

// Pools the bins of block `block`. Channels says which channels of a map an item reads. Called by
// all threads of the block, which synchronise here.
template <class T, class Channels, bool listed>
__device__ void pool_block(const RoiAlignParams& p, const ItemPlan& plan, const ListRoom& room,
                           int64_t block) {
  using Acc = typename Accumulate<T>::type;
  using Offset = PixelOffset<listed>;
  using Stream = BinStream<Acc, Offset>;
  __shared__ ListedBox<Acc> box;
  __shared__ ItemSlice slice;
  load_slice<Channels>(
      p, plan, block, [&](int64_t k) { return box.load(p, room, k, listed); }, &slice);
  const auto lists = list_bins<Stream, listed>(p, room, slice.box, &box);
  if (!box.is_for(listed)) return;
  const Roi<Acc>& roi = box.roi;
  const bool on_channels = Channels::are_lanes(p, p.maps[roi.level]);
  for_items(p, slice, on_channels, [&](const Item& item) {
    const RoiMap& map = p.maps[reload(roi.level)];
    const T* data = map_pixel<const T>(map, reload(roi.image), Channels::first_of(p, item), 0, 0);
    const auto out = item_offset<Offset>(p, item);
    const Offset step = static_cast<Offset>(item.step * Channels::step(p) * map.channel_stride);
    Acc sum[kGroup] = {};
    if constexpr (listed) {
      if (roi.valid) {  // else nothing is listed, and there may be no shared memory at all
        const auto rows = lists.row_list(item.bin_y);
        const auto columns = lists.column_list(item.bin_x);
        if (on_channels) {
          pool_bin(data, item.count, kWarp, rows, columns, sum);
        } else {
          pool_bin(data, item.count, step, rows, columns, sum);
        }
      }
    } else {
      pool_bin(data, item.count, step, Stream::of(p, roi, true, item.bin_y),
               Stream::of(p, roi, false, item.bin_x), sum);
    }
    store_item<T>(p, reload(slice.box), item, out, sum);
  });
}

// Launches the kernels that call pool_block().
template <class T, class Channels, class Kernel>
void launch_pool(Kernel listed, Kernel streamed, const RoiAlignParams& p, Workspace& workspace) {
  using Entry = PixelWeight<typename Accumulate<T>::type, PixelOffset<true>>;
  const ItemPlan plan = plan_items<Channels>(p);
  launch_with_lists<Entry, 2>(listed, streamed, plan.blocks, kThreads,
                              p.channels * Channels::step(p), workspace, p, plan);
}

}  // namespace
}  // namespace visops
