// NOTE [ RoI pooling on CUDA ]
// Forward: a block has some bins of some channels of one box, whose region is computed once, in
// shared memory; a thread goes through the pixels of a bin of a channel. Backward: NOTE [ Gradients
// of maps by tiles and channels ]; lanes look at the indices of the bins that reach the tile.
// Regions are computed once. Sums have the order of NOTE [ RoI pooling ].
//
// Boxes that are not valid have bins of 0, index -1, and no gradient.
#include <stdexcept>
#include <string>

#include "core/dispatch/workspace.h"
#include "core/roi/pool.h"
#include "cuda/divisor.h"
#include "cuda/roi/channel_tiles.h"

namespace visops {
namespace {

// How the bins of a box, in the order of their memory, are shared out among blocks.
struct BoxSlices {
  int32_t count;                   // bins of all channels of a box
  int32_t slices;                  // blocks of a box
  Divisor<int32_t> first, second;  // of a bin's number, by what is adjacent
};

// Numbers go beyond the last bin by what all blocks of a box do at once.
constexpr int64_t kMostBins = int64_t{1} << 30;

constexpr int kBinsOfThread = 8;
constexpr int kMostRanges = 64;  // of an axis, kept in shared memory

// Where a bin begins and ends along an axis.
struct BinRange {
  int first, last;
};

template <class Acc>
__device__ BinRange range_of(const PoolAxis<Acc>& axis, int64_t bin) {
  const PixelRange range = pixels_of(axis, bin);
  return {static_cast<int>(range.first), static_cast<int>(range.last)};
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    roi_pool(const __grid_constant__ RoiPoolParams pool, const BoxSlices of_box) {
  using Acc = typename Accumulate<T>::type;
  __shared__ PoolRegion<Acc> region;
  __shared__ BinRange kept_rows[kMostRanges], kept_columns[kMostRanges];
  const RoiAlignParams& p = pool.align;
  const RoiMap& m = p.maps[0];
  const bool has_channels_last = p.channel_stride == 1;
  const bool keeps = p.bins_y <= kMostRanges && p.bins_x <= kMostRanges;
  const int64_t blocks = p.boxes.count * of_box.slices;
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int64_t box = block / of_box.slices;
    const auto slice = static_cast<int32_t>(block - box * of_box.slices);
    __syncthreads();  // the block's last region has been read
    if (threadIdx.x == 0) region = load_pool_region<Acc>(p, box);
    __syncthreads();
    const int thread = static_cast<int>(threadIdx.x);
    if (keeps && thread < p.bins_y) kept_rows[thread] = range_of(region.y, thread);
    if (keeps && thread < p.bins_x) kept_columns[thread] = range_of(region.x, thread);
    __syncthreads();
    const T* const image = static_cast<const T*>(m.data) + region.image * m.image_stride;
    for (int32_t i = slice * kThreads + static_cast<int32_t>(threadIdx.x); i < of_box.count;
         i += of_box.slices * kThreads) {
      // Channel, row and column, the adjacent one last: see bin_at().
      const int32_t rest = of_box.first.divide(i), inner = i - rest * of_box.first.value;
      const int32_t outer = of_box.second.divide(rest), middle = rest - outer * of_box.second.value;
      const int64_t channel = has_channels_last ? inner : outer;
      const int64_t y = has_channels_last ? outer : middle, x = has_channels_last ? middle : inner;
      Acc best = static_cast<Acc>(0);
      int32_t index = -1;
      if (region.valid) {
        const BinRange rows = keeps ? kept_rows[y] : range_of(region.y, y);
        const BinRange columns = keeps ? kept_columns[x] : range_of(region.x, x);
        const T* row = image + channel * m.channel_stride + rows.first * m.row_stride +
                       columns.first * m.column_stride;
        int32_t row_index = rows.first * static_cast<int32_t>(m.width);
        for (int at_y = rows.first; at_y < rows.last; ++at_y) {
          const T* pixel = row;
          for (int at_x = columns.first; at_x < columns.last; ++at_x) {
            const Acc value = load_element(pixel);
            if (index < 0 || is_above(value, best)) {
              best = value;
              index = row_index + at_x;
            }
            pixel += m.column_stride;
          }
          row += m.row_stride;
          row_index += static_cast<int32_t>(m.width);
        }
      }
      store_element(static_cast<T*>(p.bins) + bin_offset(p, box, channel, y, x), best);
      pool.index[index_offset(p, box, channel, y, x)] = index;
    }
  }
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

template <class Acc>
__global__ void __launch_bounds__(kThreads)
    roi_pool_regions(const __grid_constant__ RoiAlignParams p, PoolRegion<Acc>* regions,
                     const SpansOfBoxes to) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t k = int64_t{blockIdx.x} * kThreads + threadIdx.x; k < p.boxes.count; k += step) {
    const PoolRegion<Acc> region = load_pool_region<Acc>(p, k);
    regions[k] = region;
    to.map[k] = -1;
    if (!region.valid) continue;
    const PixelRange rows = {pixels_of(region.y, 0).first, pixels_of(region.y, p.bins_y - 1).last};
    const PixelRange columns = {pixels_of(region.x, 0).first,
                                pixels_of(region.x, p.bins_x - 1).last};
    if (rows.first >= rows.last || columns.first >= columns.last) continue;
    to.map[k] = region.image;
    to.spans[k] = {k, static_cast<int32_t>(rows.first), static_cast<int32_t>(rows.last - 1),
                   static_cast<int32_t>(columns.first), static_cast<int32_t>(columns.last - 1)};
  }
}

__device__ inline bool meet(PixelRange range, int64_t first, int64_t size) {
  return range.first < first + size && range.last > first;
}

// Where a bin's index and gradient of channel 0 are.
struct PooledBin {
  int64_t index_at, grad_at;
};

template <class T, class Acc = typename Accumulate<T>::type>
__global__ void __launch_bounds__(kMostChannelThreads)
    roi_pool_backward(const __grid_constant__ RoiPoolParams pool, const BoxesOfMaps listed,
                      const PoolRegion<Acc>* regions, const Divisor<int32_t> width,
                      const __grid_constant__ ChannelGrid grid) {
  __shared__ PooledBin bins[2 * kMostChannelThreads];
  __shared__ int in_warps[kMostChannelWarps];
  const RoiAlignParams& p = pool.align;
  const RoiMap& m = p.maps[0];
  const int threads = static_cast<int>(blockDim.x);
  const int64_t bins_of_box = p.bins_y * p.bins_x;
  const auto use = [&](const Tile& tile, const int64_t* boxes, int count,
                       const ChannelSums<Acc>& sums) {
    const auto add = [&](const PooledBin& bin) {
      const int32_t pixel = pool.index[bin.index_at + sums.channel * p.index_channel_stride];
      if (!is_pixel(m, pixel)) return;
      const int32_t row = width.divide(pixel);
      const int at = pixel_of_tile(tile, row, pixel - row * width.value);
      if (at < 0) return;
      sums.add(at, load_element(static_cast<const T*>(p.bins) + bin.grad_at +
                                sums.channel * p.channel_stride));
    };
    const int64_t last = count * bins_of_box;
    int found = 0;
    for (int64_t first = 0; first < last; first += threads) {
      const int64_t own = first + threadIdx.x, box = own / bins_of_box;
      PooledBin bin = {};
      bool reaches = own < last;
      if (reaches) {
        const int64_t k = boxes[box], b = own - box * bins_of_box, y = b / p.bins_x;
        const int64_t x = b - y * p.bins_x;
        reaches = meet(pixels_of(regions[k].y, y), tile.row, ChannelShape::kRows) &&
                  meet(pixels_of(regions[k].x, x), tile.column, ChannelShape::kColumns);
        bin = {index_offset(p, k, 0, y, x), bin_offset(p, k, 0, y, x)};
      }
      found = append_in_order(reaches, bin, found, bins, in_warps);
      if (found == 0 || (first + threads < last && found <= threads)) continue;
      if (sums.channel < p.channels) {
        for (int n = 0; n < found; ++n) add(bins[n]);
      }
      found = 0;
    }
  };
  sum_channel_tiles<Acc>(p, listed, grid, use);
}

void roi_pool_launch(const RoiPoolParams& pool, Workspace& workspace) {
  const RoiAlignParams& p = pool.align;
  const bool has_channels_last = p.channel_stride == 1;
  const int64_t count = p.channels * p.bins_y * p.bins_x;
  if (count > kMostBins) {
    throw std::runtime_error("visops.roi_pool: a box has " + std::to_string(count) +
                             " bins in all channels, on a GPU it can have 2^30");
  }
  const int64_t slices = parts_of(count, kThreads * kBinsOfThread);
  const BoxSlices of_box = {static_cast<int32_t>(count), static_cast<int32_t>(slices),
                            divisor_of<int32_t>(has_channels_last ? p.channels : p.bins_x),
                            divisor_of<int32_t>(has_channels_last ? p.bins_x : p.bins_y)};
  with_element_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    launch(roi_pool<T>, grid_for(p.boxes.count * slices), dim3(kThreads), 0, workspace.stream(),
           pool, of_box);
  });
}

void roi_pool_at_launch(const RoiPoolParams& pool, Workspace& workspace) {
  const auto start = [&](auto kernel) {
    launch(kernel, grid_for_bins(pool.align), dim3(kThreads), 0, workspace.stream(), pool);
  };
  switch (element_size(pool.align.dtype)) {
    case 1: return start(roi_pool_at<uint8_t>);
    case 2: return start(roi_pool_at<uint16_t>);
    case 4: return start(roi_pool_at<uint32_t>);
    default: return start(roi_pool_at<uint64_t>);
  }
}

template <class T>
void backward_as(const RoiPoolParams& pool, Workspace& workspace) {
  using Acc = typename Accumulate<T>::type;
  const RoiAlignParams& p = pool.align;
  void* stream = workspace.stream();
  auto* regions = allocate<PoolRegion<Acc>>(workspace, p.boxes.count);
  const auto write_spans = [&](const SpansOfBoxes& spans) {
    launch(roi_pool_regions<Acc>, grid_for(parts_of(p.boxes.count, kThreads)), dim3(kThreads), 0,
           stream, p, regions, spans);
  };
  const BoxesOfMaps listed = list_boxes(p.boxes.count, p.images, workspace, write_spans);
  const PoolRegion<Acc>* const_regions = regions;
  launch_channel_tiles<Acc>(roi_pool_backward<T>, p, stream, pool, listed, const_regions,
                            divisor_of<int32_t>(p.maps[0].width));
}

void roi_pool_backward_cuda(const RoiPoolParams& pool, Workspace& workspace) {
  with_floating_type(pool.align.dtype, [&](auto* element) {
    backward_as<std::remove_pointer_t<decltype(element)>>(pool, workspace);
  });
}

const bool registered = roi_pool_stub.set(kCudaSlot, roi_pool_launch) &&
                        roi_pool_at_stub.set(kCudaSlot, roi_pool_at_launch) &&
                        roi_pool_backward_stub.set(kCudaSlot, roi_pool_backward_cuda);

}  // namespace
}  // namespace visops
