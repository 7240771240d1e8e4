// NOTE [ RoIAlign on CUDA ]
// A block has a box, or a part of its bins and channels. First its threads list the pixels of the
// box's bins along either axis, one bin each, in shared memory. Then a thread sums the means of one
// bin for four channels, so that a pixel's weight and address serve all four, and four loads are in
// flight at once. The lanes of a warp are channels if these are adjacent, else bins.
//
// If a bin has more pixels than its list has room for (boxes much larger than the map), the block
// skips the box, and a second kernel, whose threads find pixels as they go, computes it. That
// kernel is not launched if the number of samples rules such boxes out.
//
// Rounding: NOTE [ RoIAlign samples ], without contraction (-fmad=false), so the bits are the
// CPU's. Boxes that are not valid have zeros.
#include "cuda/roi/items.h"
#include "cuda/roi/lists.h"

namespace visops {
namespace {

template <class Acc>
struct PixelWeight {
  static constexpr int kOfSample = 2;
  Acc weight;
  int32_t pixel;
};

// A bin's pixels along one axis; along y the weights include the mean's divisor.
template <class Acc>
struct PixelStream {
  using Entry = PixelWeight<Acc>;
  const RoiAxis<Acc>* axis;
  BinPixels<Acc> pixels;
  Acc factor;

  static __device__ PixelStream of(const RoiAlignParams&, const Roi<Acc>& roi, bool is_row,
                                   int64_t bin) {
    const RoiAxis<Acc>* axis = is_row ? &roi.y : &roi.x;
    return {axis, bin_pixels(*axis, bin), is_row ? mean_factor(roi.y, roi.x) : static_cast<Acc>(1)};
  }
  __device__ bool next(Entry* entry) {
    if (!next_pixel(*axis, &pixels)) return false;
    *entry = {pixels.weight * factor, static_cast<int32_t>(pixels.pixel)};
    return true;
  }
};

// `data` is at row and column 0 of the first channel, and the next one is `step` further on. If
// lanes are channels, `step` is a constant, which saves a good part of the instructions.
template <class T, class Acc, class Pixels>
__device__ void pool_bin(const RoiMap& map, const T* data, int count, int64_t step, Pixels rows,
                         const Pixels& columns, Acc* sum) {
  PixelWeight<Acc> row, column;
  while (rows.next(&row)) {
    const T* at_row = data + row.pixel * map.row_stride;
    Acc part[kGroup] = {};
    for (Pixels rest = columns; rest.next(&column);) {
      const T* at = at_row + column.pixel * map.column_stride;
#pragma unroll
      for (int c = 0; c < kGroup; ++c) {
        if (c < count) part[c] += column.weight * load_number(at + c * step);
      }
    }
#pragma unroll
    for (int c = 0; c < kGroup; ++c) sum[c] += row.weight * part[c];
  }
}

template <class T, bool listed>
__global__ void __launch_bounds__(kThreads, blocks_at_once<T>(listed))
    roi_align_mean(const __grid_constant__ RoiAlignParams p, const ItemPlan plan,
                   const ListRoom room) {
  using Acc = typename Accumulate<T>::type;
  __shared__ ListedBox<Acc> box;
  for (int64_t i = blockIdx.x; i < plan.blocks; i += gridDim.x) {
    const int64_t k = i / plan.slices;
    const auto lists = list_bins<PixelStream<Acc>, listed>(p, room, k, &box);
    const Roi<Acc>& roi = box.roi;
    const RoiMap& map = p.maps[roi.level];
    if (box.is_for(listed)) {
      const bool on_channels = lanes_are_channels(map, p.channels);
      for_items(p, plan, i - k * plan.slices, on_channels, [&](const Item& item) {
        const T* data = map_pixel<const T>(map, roi.image, item.channel, 0, 0);
        const int64_t step = item.step * map.channel_stride;
        Acc sum[kGroup] = {};
        if constexpr (listed) {
          if (roi.valid) {  // else nothing is listed, and there may be no shared memory at all
            const auto rows = lists.row_list(item.bin_y);
            const auto columns = lists.column_list(item.bin_x);
            if (on_channels) {
              pool_bin(map, data, item.count, kWarp, rows, columns, sum);
            } else {
              pool_bin(map, data, item.count, step, rows, columns, sum);
            }
          }
        } else {
          pool_bin(map, data, item.count, step, PixelStream<Acc>::of(p, roi, true, item.bin_y),
                   PixelStream<Acc>::of(p, roi, false, item.bin_x), sum);
        }
        store_item<T>(p, k, item, sum);
      });
    }
    if (i + gridDim.x < plan.blocks) __syncthreads();  // before the next box replaces this one
  }
}

template <class T>
void roi_align_as(const RoiAlignParams& p, Workspace& workspace) {
  using Entry = PixelWeight<typename Accumulate<T>::type>;
  const ItemPlan plan = plan_items(p);
  launch_with_lists<Entry>(roi_align_mean<T, true>, roi_align_mean<T, false>, plan.blocks, kThreads,
                           workspace, p, plan);
}

void roi_align_cuda(const RoiAlignParams& p, Workspace& workspace) {
  with_element_type(p.dtype, [&](auto* element) {
    roi_align_as<std::remove_pointer_t<decltype(element)>>(p, workspace);
  });
}

const bool registered = roi_align_stub.set(kCudaSlot, roi_align_cuda);

}  // namespace
}  // namespace visops
