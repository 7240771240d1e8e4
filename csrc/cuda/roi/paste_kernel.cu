// NOTE [ Pasting on CUDA ]
// A block has 32 x 8 pixels of an image and four channels; a thread keeps its pixel's values. The
// threads go through the boxes together, one each at a time, and list those that cover some of the
// tile; each thread blends them into its own pixel, by index. A pixel is read and written once.
//
// Rounding: NOTE [ Pasted pixels ] (core/roi/paste.h), without contraction (-fmad=false), so the
// bits are the CPU's.
#include "core/roi/paste_pixel.h"
#include "cuda/roi/crops_lists.h"
#include "cuda/roi/crops_transpose.h"

namespace visops {
namespace {

constexpr int kMapThreads = 128;

__global__ void __launch_bounds__(kMapThreads)
    roi_paste_maps(const __grid_constant__ RoiPasteParams p) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kMapThreads;
  for (int64_t k = static_cast<int64_t>(blockIdx.x) * kMapThreads + threadIdx.x; k < p.boxes.count;
       k += stride) {
    p.maps[k] = paste_map(p, k);
  }
}

template <class T, Interpolation mode>
__global__ void __launch_bounds__(kListThreads)
    roi_paste(const __grid_constant__ RoiPasteParams p, const TargetGrid grid) {
  using Acc = typename Accumulate<T>::type;
  __shared__ BoxList<kListThreads> list;
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t piece = blockIdx.x; piece < grid.count; piece += gridDim.x) {
    const TargetTile at = target_tile(grid, piece);
    const int64_t y = at.y + thread / kTargetWidth, x = at.x + thread % kTargetWidth;
    const Span rows = {at.y, at.y + kTargetHeight}, columns = {at.x, at.x + kTargetWidth};
    const int channels = channels_of_group(p.channels, at.channel);
    const bool is_inside = y < p.height && x < p.width;
    Acc value[kChannelGroup] = {};
    T given[kChannelGroup] = {};
    bool is_covered = false;
    if (is_inside) {
      const T* image = static_cast<const T*>(p.images) + at.sample * p.image_stride.batch +
                       at.channel * p.image_stride.channel + y * p.image_stride.row +
                       x * p.image_stride.column;
      for (int c = 0; c < kChannelGroup; ++c) {
        if (c < channels) given[c] = load_readonly(image + c * p.image_stride.channel);
        value[c] = load_element(&given[c]);
      }
    }
    for (int64_t first = 0; first < p.boxes.count; first += kListThreads) {
      clear_list(&list);
      const int64_t mine = first + thread;
      bool is_wanted = false;
      if (mine < p.boxes.count) {
        const CropMap& map = p.maps[mine];
        is_wanted =
            map.image == at.sample && overlap(map.rows, rows) && overlap(map.columns, columns);
      }
      append_box(is_wanted, static_cast<int32_t>(mine), &list);
      for (int n = 0; n < list.count; ++n) {
        const int64_t k = list.boxes[n];
        const CropMap& map = p.maps[k];
        if (!is_inside || !covers(map, at.sample, y, x)) continue;
        is_covered = true;
        const Acc weight = paste_weight<mode, Acc>(p, map, k, y, x);
        for (int c = 0; c < kChannelGroup; ++c) {
          if (c < channels) {
            value[c] = pasted<T, mode, Acc>(p, map, k, at.channel + c, y, x, weight, value[c]);
          }
        }
      }
      __syncthreads();  // before the list is cleared
    }
    if (!is_inside) continue;
    T* out = static_cast<T*>(p.output) + at.sample * p.output_stride.batch +
             at.channel * p.output_stride.channel + y * p.output_stride.row +
             x * p.output_stride.column;
    for (int c = 0; c < kChannelGroup; ++c) {
      if (c >= channels) continue;
      T* element = out + c * p.output_stride.channel;
      if (is_covered) {
        store_element(element, value[c]);
      } else {
        *element = given[c];
      }
    }
  }
}

template <class T, Interpolation mode>
void paste_as(const RoiPasteParams& p, void* stream) {
  const TargetGrid grid = target_grid(p.batch, p.channels, p.height, p.width);
  launch(roi_paste<T, mode>, grid_for(grid.count), dim3(kListThreads), 0, stream, p, grid);
}

template <class T>
void paste_of(const RoiPasteParams& p, void* stream) {
  switch (p.mode) {
    case Interpolation::kNearest: return paste_as<T, Interpolation::kNearest>(p, stream);
    case Interpolation::kBilinear: return paste_as<T, Interpolation::kBilinear>(p, stream);
    case Interpolation::kBicubic: return paste_as<T, Interpolation::kBicubic>(p, stream);
  }
}

void roi_paste_cuda(const RoiPasteParams& p, void* stream) {
  switch (p.dtype) {
    case DType::kUInt8: return paste_of<uint8_t>(p, stream);
    case DType::kInt16: return paste_of<int16_t>(p, stream);
    case DType::kUInt16: return paste_of<uint16_t>(p, stream);
    case DType::kFloat16: return paste_of<Half>(p, stream);
    case DType::kBFloat16: return paste_of<BFloat16>(p, stream);
    case DType::kFloat64: return paste_of<double>(p, stream);
    default: return paste_of<float>(p, stream);
  }
}

void roi_paste_maps_cuda(const RoiPasteParams& p, void* stream) {
  launch(roi_paste_maps, grid_for((p.boxes.count + kMapThreads - 1) / kMapThreads),
         dim3(kMapThreads), 0, stream, p);
}

const bool registered = roi_paste_maps_stub.set(kCudaSlot, roi_paste_maps_cuda) &&
                        roi_paste_stub.set(kCudaSlot, roi_paste_cuda);

}  // namespace
}  // namespace visops
