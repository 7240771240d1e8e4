// NOTE [ Crops on CUDA ]
// Blocks are tiles of 64 x 16 pixels and stride over all patches; a thread has four pixels of a
// column. The position of a column, or row, takes float64, and all its pixels share it: a tile's
// 64 + 16 threads compute each once and leave its taps in shared memory. A pixel then takes one
// blend per channel.
//
// Rounding: NOTE [ One pixel ] (core/images/pixel.h), without contraction (-fmad=false): the
// bits of the CPU kernels. Boxes that are not valid, and images without pixels, give `fill`.
#include "core/dispatch/workspace.h"
#include "core/roi/crops_pixel.h"
#include "cuda/launch.h"
#include "cuda/tile_grid.h"

namespace visops {
namespace {

constexpr int kMapThreads = 128;
constexpr int kTileHeight = 16;
constexpr int kTileStep = 4;  // a thread has every fourth row of a column
constexpr int kTileThreads = kTileWidth * kTileStep;

// The taps of a tile's columns and rows.
template <Interpolation mode, class Acc>
struct TileTaps {
  AxisTaps<mode, Acc> across[kTileWidth], down[kTileHeight];
};

__global__ void __launch_bounds__(kMapThreads)
    roi_crop_maps(const __grid_constant__ RoiCropParams p) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kMapThreads;
  for (int64_t k = static_cast<int64_t>(blockIdx.x) * kMapThreads + threadIdx.x; k < p.boxes.count;
       k += stride) {
    p.maps[k] = crop_map(p, k);
  }
}

template <class T, Interpolation mode, class Acc>
__device__ void crop_pixel(const RoiCropParams& p, int64_t image, const PixelTaps<mode, Acc>& taps,
                           T* out) {
  const bool is_fill = taps.outside();
  const T* planes = static_cast<const T*>(p.images) + image * p.image_stride.batch;
  for (int64_t c = 0; c < p.channels; ++c) {
    T* element = out + c * p.patch_stride.channel;
    const T* plane = planes + c * p.image_stride.channel;
    if (is_fill) {
      *element = element_from_bits<T>(fill_bits(p.dtype, crop_fill(p, c)));
    } else if constexpr (mode == Interpolation::kNearest) {
      *element = load_readonly(plane + taps.y.index[0] * p.image_stride.row +
                               taps.x.index[0] * p.image_stride.column);
    } else {
      const Acc fill = static_cast<Acc>(crop_fill(p, c));
      store_element(element, sample_pixel(plane, p.image_stride, taps, fill));
    }
  }
}

// Called by all threads of the block, and synchronizes them.
template <class T, Interpolation mode, class Acc>
__device__ void crop_tile(const RoiCropParams& p, const CropMap& map, const TileAt& at,
                          TileTaps<mode, Acc>& taps) {
  const int thread = static_cast<int>(threadIdx.x);
  const int column = thread % kTileWidth, first = thread / kTileWidth;
  if (first == 0) {
    taps.across[column] = grid_taps<mode, Acc>(map.x, int64_t{at.x} + column, p.padding, p.width);
  } else if (first == 1 && column < kTileHeight) {
    taps.down[column] = grid_taps<mode, Acc>(map.y, int64_t{at.y} + column, p.padding, p.height);
  }
  __syncthreads();
  T* out = static_cast<T*>(p.patches) + at.sample * p.patch_stride.batch +
           (int64_t{at.x} + column) * p.patch_stride.column;
  for (int row = first; row < kTileHeight; row += kTileStep) {
    const int64_t i = int64_t{at.y} + row;
    if (i >= p.patch_height || int64_t{at.x} + column >= p.patch_width) break;
    const PixelTaps<mode, Acc> pixel = {taps.down[row], taps.across[column]};
    crop_pixel(p, map.image, pixel, out + i * p.patch_stride.row);
  }
  __syncthreads();  // before the next tile's taps replace these
}

template <class T>
__device__ void fill_tile(const RoiCropParams& p, const TileAt& at) {
  const int64_t j = int64_t{at.x} + threadIdx.x % kTileWidth;
  for (int row = threadIdx.x / kTileWidth; row < kTileHeight; row += kTileStep) {
    const int64_t i = int64_t{at.y} + row;
    if (i >= p.patch_height || j >= p.patch_width) return;
    T* out = static_cast<T*>(p.patches) + at.sample * p.patch_stride.batch +
             i * p.patch_stride.row + j * p.patch_stride.column;
    for (int64_t c = 0; c < p.channels; ++c) {
      out[c * p.patch_stride.channel] = element_from_bits<T>(fill_bits(p.dtype, crop_fill(p, c)));
    }
  }
}

template <class T, Interpolation mode>
__global__ void __launch_bounds__(kTileThreads, sizeof(typename Accumulate<T>::type) == 8 ? 3 : 4)
    roi_crops(const __grid_constant__ RoiCropParams p, const TileGrid grid) {
  using Acc = typename Accumulate<T>::type;
  __shared__ union {
    TileTaps<mode, Acc> blended;
    TileTaps<Interpolation::kNearest, Acc> copied;
  } taps;
  for (int64_t tile = blockIdx.x; tile < grid.count; tile += gridDim.x) {
    const TileAt at = tile_at(grid, tile);
    const CropMap& map = p.maps[at.sample];
    if (map.image < 0 || p.height == 0 || p.width == 0) {
      fill_tile<T>(p, at);
    } else if (mode == Interpolation::kNearest || map.integral) {
      crop_tile<T>(p, map, at, taps.copied);
    } else {
      crop_tile<T>(p, map, at, taps.blended);
    }
  }
}

template <class T, Interpolation mode>
void crops_as(const RoiCropParams& p, void* stream) {
  const TileGrid grid = tile_grid(p.boxes.count, p.patch_height, p.patch_width, kTileHeight);
  launch(roi_crops<T, mode>, grid_for(grid.count), dim3(kTileThreads), 0, stream, p, grid);
}

void crops_nearest(const RoiCropParams& p, void* stream) {
  constexpr Interpolation kNearest = Interpolation::kNearest;
  switch (element_size(p.dtype)) {
    case 1: return crops_as<uint8_t, kNearest>(p, stream);
    case 2: return crops_as<uint16_t, kNearest>(p, stream);
    case 4: return crops_as<uint32_t, kNearest>(p, stream);
    default: return crops_as<uint64_t, kNearest>(p, stream);
  }
}

template <Interpolation mode>
void crops_blend(const RoiCropParams& p, void* stream) {
  switch (p.dtype) {
    case DType::kUInt8: return crops_as<uint8_t, mode>(p, stream);
    case DType::kInt16: return crops_as<int16_t, mode>(p, stream);
    case DType::kUInt16: return crops_as<uint16_t, mode>(p, stream);
    case DType::kFloat16: return crops_as<Half, mode>(p, stream);
    case DType::kBFloat16: return crops_as<BFloat16, mode>(p, stream);
    case DType::kFloat32: return crops_as<float, mode>(p, stream);
    case DType::kFloat64: return crops_as<double, mode>(p, stream);
    default: throw std::logic_error("visops.crop_rois: no blending kernel for this dtype");
  }
}

void roi_crops_cuda(const RoiCropParams& p, Workspace& workspace) {
  void* const stream = workspace.stream();
  switch (p.mode) {
    case Interpolation::kNearest: return crops_nearest(p, stream);
    case Interpolation::kBilinear: return crops_blend<Interpolation::kBilinear>(p, stream);
    default: return crops_blend<Interpolation::kBicubic>(p, stream);
  }
}

void roi_crop_maps_cuda(const RoiCropParams& p, Workspace& workspace) {
  launch(roi_crop_maps, grid_for((p.boxes.count + kMapThreads - 1) / kMapThreads),
         dim3(kMapThreads), 0, workspace.stream(), p);
}

const bool registered = roi_crop_maps_stub.set(kCudaSlot, roi_crop_maps_cuda) &&
                        roi_crops_stub.set(kCudaSlot, roi_crops_cuda);

}  // namespace
}  // namespace visops
