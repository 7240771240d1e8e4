// NOTE [ Rotated RoIAlign on CUDA ]
// A first kernel decodes each box once: sines and cosines are float64.
//
// Forward, where channels are adjacent: a warp has a bin. Its lanes are channels, kGroup each, so
// that a sample's place and weights serve all of those, and a pixel is read in whole sectors. A
// block passes its bins through shared memory, to write them in whole sectors as well, whatever the
// layout. Otherwise a thread has a bin of a channel.
//
// Backward: NOTE [ Gradients of maps by tiles and channels ]. Threads take a bin of a box each,
// count its samples that may reach the tile, and then take one such sample each; those that do
// reach it are listed. Sums have the order of NOTE [ Rotated RoIAlign ].
//
// Boxes that are not valid have bins of 0 and no gradient.
#include "core/roi/align_rotated.h"

#include "cuda/roi/channel_tiles.h"

namespace visops {
namespace {

template <class Acc>
__global__ void __launch_bounds__(kThreads)
    decode_rotated_rois(const __grid_constant__ RoiAlignRotatedParams p, RotatedRoi<Acc>* rois) {
  const int64_t count = p.align.boxes.count, step = int64_t{gridDim.x} * kThreads;
  for (int64_t k = int64_t{blockIdx.x} * kThreads + threadIdx.x; k < count; k += step) {
    const RotatedRoi<Acc> roi = load_rotated_roi<Acc>(p, k);
    rois[k] = roi;
  }
}

template <class Acc>
const RotatedRoi<Acc>* decoded_rois(const RoiAlignRotatedParams& p, Workspace& workspace) {
  const int64_t count = p.align.boxes.count;
  auto* rois = allocate<RotatedRoi<Acc>>(workspace, count);
  launch(decode_rotated_rois<Acc>, grid_for(parts_of(count, kThreads)), dim3(kThreads), 0,
         workspace.stream(), p, rois);
  return rois;
}

// The means of bin (y, x) for `count` channels that are `step` apart, from the one at `plane` on.
template <int most, class T, class Acc>
__device__ void mean_of_bin(const RoiMap& m, const RotatedRoi<Acc>& roi, const T* plane, int count,
                            int64_t step, int64_t y, int64_t x, Acc means[most]) {
  const RotatedReach<Acc> reach = reach_of_map<Acc>(roi);
  const SampleRange rows = samples_near(roi.y, y, reach.top, reach.bottom);
  const SampleRange columns = samples_near(roi.x, x, reach.left, reach.right);
  // Grids have at most kMostRotatedPixels rows and columns.
  const int first_row = static_cast<int>(rows.first), last_row = static_cast<int>(rows.last);
  const int first = static_cast<int>(columns.first), last = static_cast<int>(columns.last);
  Acc sums[most] = {};
  for (int row = first_row; row < last_row; ++row) {
    for (int column = first; column < last; ++column) {
      const RotatedSample<Acc> sample = rotated_sample(roi, y, x, row, column);
      if (!sample.on_map) continue;
      const T* corners[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        corners[i] = plane + sample.row(i) * m.row_stride + sample.column(i) * m.column_stride;
      }
#pragma unroll
      for (int c = 0; c < most; ++c) {
        if (c >= count) break;
        const auto term = [&](int i) {
          return sample.weight(i) * load_element(corners[i] + c * step);
        };
        sums[c] += term(0) + term(1) + term(2) + term(3);
      }
    }
  }
#pragma unroll
  for (int c = 0; c < most; ++c) means[c] = sums[c] / roi.samples;
}

template <class T, class Acc = typename Accumulate<T>::type>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 8 ? 2 : 4)
    roi_align_rotated(const __grid_constant__ RoiAlignParams p, const RotatedRoi<Acc>* rois) {
  const RoiMap& m = p.maps[0];
  for_each_bin(p, [&](const BinAt& at) {
    const RotatedRoi<Acc> roi = rois[at.box];
    Acc mean[1] = {};
    if (roi.valid) {
      const T* plane = map_pixel<const T>(m, roi.image, at.channel, 0, 0);
      mean_of_bin<1>(m, roi, plane, 1, 0, at.y, at.x, mean);
    }
    store_element(static_cast<T*>(p.bins) + bin_offset(p, at), mean[0]);
  });
}

constexpr int kGroup = 4;                       // channels of a lane
constexpr int kBlockChannels = kGroup * kWarp;  // ... and of a block
constexpr int kBlockWarps = kThreads / kWarp;

// Bins of a block: as many as fill 16 KiB.
template <class T>
constexpr int kBlockBins = 16384 / (kBlockChannels * int{sizeof(T)});

// Some bins of a box, for some of its channels.
struct BinBlocks {
  int64_t chunks, slices, count;
};

template <class T>
BinBlocks bin_blocks(const RoiAlignParams& p) {
  const int64_t chunks = parts_of(p.bins_y * p.bins_x, kBlockBins<T>);
  const int64_t slices = parts_of(p.channels, kBlockChannels);
  return {chunks, slices, chunks * slices * p.boxes.count};
}

template <class T, class Acc = typename Accumulate<T>::type>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 8 ? 2 : 4)
    roi_align_rotated_channels(const __grid_constant__ RoiAlignParams p,
                               const RotatedRoi<Acc>* rois, const BinBlocks blocks) {
  __shared__ T staged[kBlockBins<T>][kBlockChannels + 1];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const RoiMap& m = p.maps[0];
  for (int64_t i = blockIdx.x; i < blocks.count; i += gridDim.x) {
    const int64_t chunk = i % blocks.chunks, slices = i / blocks.chunks;
    const int64_t box = slices / blocks.slices;
    const int64_t first_bin = chunk * kBlockBins<T>;
    const int64_t first_channel = (slices - box * blocks.slices) * kBlockChannels;
    const int bins = at_most<kBlockBins<T>>(p.bins_y * p.bins_x - first_bin);
    const int channels = at_most<kBlockChannels>(p.channels - first_channel);
    const int own = channels > lane ? (channels - lane + kWarp - 1) / kWarp : 0;
    const RotatedRoi<Acc>& roi = rois[box];
    const T* plane = map_pixel<const T>(m, roi.image, first_channel + lane, 0, 0);
    for (int b = static_cast<int>(threadIdx.x) / kWarp; b < bins; b += kBlockWarps) {
      const int64_t y = (first_bin + b) / p.bins_x, x = first_bin + b - y * p.bins_x;
      Acc means[kGroup] = {};
      if (roi.valid) mean_of_bin<kGroup>(m, roi, plane, own, kWarp, y, x, means);
#pragma unroll
      for (int c = 0; c < kGroup; ++c) {
        if (c < own) store_element(&staged[b][c * kWarp + lane], means[c]);
      }
    }
    __syncthreads();
    const bool on_channels = p.channel_stride == 1;
    const int line = on_channels ? channels : bins;
    for (int e = static_cast<int>(threadIdx.x); e < bins * channels; e += kThreads) {
      const int across = e / line, along = e - across * line;
      const int b = on_channels ? across : along, channel = on_channels ? along : across;
      const int64_t y = (first_bin + b) / p.bins_x, x = first_bin + b - y * p.bins_x;
      static_cast<T*>(p.bins)[bin_offset(p, box, first_channel + channel, y, x)] =
          staged[b][channel];
    }
    __syncthreads();
  }
}

// The pixels that a box's samples may touch, as far as they are on the map.
template <class Acc>
__global__ void __launch_bounds__(kThreads)
    rotated_spans(const RotatedRoi<Acc>* rois, const int64_t count, const SpansOfBoxes to) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t k = int64_t{blockIdx.x} * kThreads + threadIdx.x; k < count; k += step) {
    const RotatedRoi<Acc> roi = rois[k];
    const RotatedBounds bounds = bounds_on_map(roi);
    to.map[k] = bounds.has_pixels ? roi.image : -1;
    to.spans[k] = {k, bounds.first_row, bounds.last_row, bounds.first_column, bounds.last_column};
  }
}

// The samples of a bin that may reach a tile.
struct TileBin {
  int64_t end;  // their number and that of all bins before
  int64_t box, y, x;
  int32_t first_row, first_column, width;
};

// A sample that reaches it.
template <class Acc>
struct TileSample {
  int64_t grad_at;       // of its bin in channel 0
  Acc samples;           // of its bin
  Acc weight[4];         // of its pixels, ...
  signed char pixel[4];  // which are these of the tile; -1: another tile's
};

template <class Acc>
__device__ TileBin samples_near_tile(const RoiAlignParams& p, const RotatedRoi<Acc>& roi,
                                     const Tile& tile, int64_t box, int64_t b) {
  const auto reach = reach_of(
      roi, static_cast<Acc>(tile.row - 1), static_cast<Acc>(tile.row + ChannelShape::kRows),
      static_cast<Acc>(tile.column - 1), static_cast<Acc>(tile.column + ChannelShape::kColumns));
  const int64_t y = b / p.bins_x, x = b - y * p.bins_x;
  const SampleRange rows = samples_near(roi.y, y, reach.top, reach.bottom);
  const SampleRange columns = samples_near(roi.x, x, reach.left, reach.right);
  const int64_t height = rows.last - rows.first, width = columns.last - columns.first;
  return {height > 0 && width > 0 ? height * width : 0,
          box,
          y,
          x,
          static_cast<int32_t>(rows.first),
          static_cast<int32_t>(columns.first),
          static_cast<int32_t>(width)};
}

// Whether sample i of a bin reaches the tile.
template <class Acc>
__device__ bool take_sample(const RoiAlignParams& p, const RotatedRoi<Acc>& roi, const Tile& tile,
                            const TileBin& bin, int64_t i, TileSample<Acc>* to) {
  const int64_t row = i / bin.width, column = i - row * bin.width;
  const RotatedSample<Acc> sample =
      rotated_sample(roi, bin.y, bin.x, bin.first_row + row, bin.first_column + column);
  bool reaches = false;
#pragma unroll
  for (int corner = 0; corner < 4; ++corner) {
    const int pixel = pixel_of_tile(tile, sample.row(corner), sample.column(corner));
    to->weight[corner] = sample.weight(corner);
    to->pixel[corner] = static_cast<signed char>(pixel);
    reaches = reaches || pixel >= 0;
  }
  to->grad_at = bin_offset(p, bin.box, 0, bin.y, bin.x);
  to->samples = roi.samples;
  return sample.on_map && reaches;
}

// The sum of the counts of this thread and of those before it; `total` is the block's. Called by
// all threads of the block, which synchronise here, and must do so again before the next call.
__device__ inline int64_t sum_until(int64_t count, int64_t* of_warp, int64_t* total) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int step = 1; step < kWarp; step *= 2) {
    const int64_t before = __shfl_up_sync(0xffffffffu, count, step);
    if (lane >= step) count += before;
  }
  if (lane == kWarp - 1) of_warp[warp] = count;
  __syncthreads();
  *total = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / kWarp; ++w) {
    if (w < warp) count += of_warp[w];
    *total += of_warp[w];
  }
  return count;
}

// The first of `count` bins whose end is beyond i.
__device__ inline int bin_of_sample(const TileBin* bins, int count, int64_t i) {
  int before = -1, found = count - 1;
  while (found - before > 1) {
    const int middle = (before + found) / 2;
    (bins[middle].end > i ? found : before) = middle;
  }
  return found;
}

template <class T, class Acc = typename Accumulate<T>::type>
__global__ void __launch_bounds__(kMostChannelThreads, sizeof(T) == 8 ? 4 : 7)
    roi_align_rotated_backward(const __grid_constant__ RoiAlignParams p, const BoxesOfMaps listed,
                               const RotatedRoi<Acc>* rois,
                               const __grid_constant__ ChannelGrid grid) {
  __shared__ TileBin bins[kMostChannelThreads];
  __shared__ TileSample<Acc> samples[kMostChannelThreads];
  __shared__ int64_t of_warp[kMostChannelWarps];
  __shared__ int in_warps[kMostChannelWarps];
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int64_t bins_of_box = p.bins_y * p.bins_x;

  // Adds the samples listed to this lane's channel.
  const auto add = [&](int count, const ChannelSums<Acc>& sums) {
    const T* grads = static_cast<const T*>(p.bins) + sums.channel * p.channel_stride;
    int64_t at = -1;
    Acc grad = 0;
    for (int n = 0; n < count; ++n) {
      const TileSample<Acc>& s = samples[n];
      if (s.grad_at != at) {
        at = s.grad_at;
        grad = load_element(grads + at) / s.samples;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (s.pixel[i] >= 0) sums.add(s.pixel[i], s.weight[i] * grad);
      }
    }
  };
  const auto use = [&](const Tile& tile, const int64_t* boxes, int count,
                       const ChannelSums<Acc>& sums) {
    const int64_t last = count * bins_of_box;
    for (int64_t first = 0; first < last; first += threads) {
      const int64_t own = first + thread, box = own / bins_of_box;
      TileBin bin = {};
      if (own < last) {
        bin = samples_near_tile(p, rois[boxes[box]], tile, boxes[box], own - box * bins_of_box);
      }
      int64_t total;
      bin.end = sum_until(bin.end, of_warp, &total);
      bins[thread] = bin;
      __syncthreads();
      for (int64_t start = 0; start < total; start += threads) {
        const int64_t i = start + thread;
        TileSample<Acc> sample = {};
        bool reaches = i < total;
        if (reaches) {
          const int found = bin_of_sample(bins, threads, i);
          const int64_t before = found > 0 ? bins[found - 1].end : 0;
          reaches = take_sample(p, rois[bins[found].box], tile, bins[found], i - before, &sample);
        }
        const int reaching = append_in_order(reaches, sample, 0, samples, in_warps);
        if (sums.channel < p.channels) add(reaching, sums);
      }
    }
  };
  sum_channel_tiles<Acc>(p, listed, grid, use);
}

template <class T>
void forward_as(const RoiAlignRotatedParams& rotated, Workspace& workspace) {
  using Acc = typename Accumulate<T>::type;
  const RoiAlignParams& p = rotated.align;
  const RotatedRoi<Acc>* rois = decoded_rois<Acc>(rotated, workspace);
  if (lanes_are_channels(p.maps[0], p.channels)) {
    const BinBlocks blocks = bin_blocks<T>(p);
    launch(roi_align_rotated_channels<T>, grid_for(blocks.count), dim3(kThreads), 0,
           workspace.stream(), p, rois, blocks);
  } else {
    launch(roi_align_rotated<T>, grid_for_bins(p), dim3(kThreads), 0, workspace.stream(), p, rois);
  }
}

void roi_align_rotated_cuda(const RoiAlignRotatedParams& p, Workspace& workspace) {
  with_element_type(p.align.dtype, [&](auto* element) {
    forward_as<std::remove_pointer_t<decltype(element)>>(p, workspace);
  });
}

template <class T>
void backward_as(const RoiAlignRotatedParams& rotated, Workspace& workspace) {
  using Acc = typename Accumulate<T>::type;
  const RoiAlignParams& p = rotated.align;
  const int64_t count = p.boxes.count;
  void* stream = workspace.stream();
  const RotatedRoi<Acc>* rois = decoded_rois<Acc>(rotated, workspace);
  const auto write_spans = [&](const SpansOfBoxes& spans) {
    launch(rotated_spans<Acc>, grid_for(parts_of(count, kThreads)), dim3(kThreads), 0, stream, rois,
           count, spans);
  };
  const BoxesOfMaps listed = list_boxes(count, p.images, workspace, write_spans);
  launch_channel_tiles<Acc>(roi_align_rotated_backward<T>, p, stream, p, listed, rois);
}

void roi_align_rotated_backward_cuda(const RoiAlignRotatedParams& p, Workspace& workspace) {
  with_floating_type(p.align.dtype, [&](auto* element) {
    backward_as<std::remove_pointer_t<decltype(element)>>(p, workspace);
  });
}

const bool registered =
    roi_align_rotated_stub.set(kCudaSlot, roi_align_rotated_cuda) &&
    roi_align_rotated_backward_stub.set(kCudaSlot, roi_align_rotated_backward_cuda);

}  // namespace
}  // namespace visops
