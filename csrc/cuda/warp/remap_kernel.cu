// Images moved by a map, on CUDA.
//
// NOTE [ Maps on CUDA ]
// A block has a tile of kTileWidth x kTileHeight pixels, so that what a smooth map reads for it
// lies together; blocks stride over the tiles of all samples. A thread has a pixel: it reads its
// position once, or interpolates it between the points of a grid, which caches hold, and samples
// the channels in turn. Neighbouring threads read neighbouring numbers of the map and write
// neighbouring samples.
//
// Rounding: NOTE [ One pixel of a map ], without contraction (-fmad=false), so the bits are the
// CPU's. Assumes what check_remap() checks, and nothing of the numbers in a map or matrix.
#include "core/numbers/arithmetic.h"
#include "core/numbers/element.h"
#include "core/warp/remap.h"
#include "cuda/launch.h"
#include "cuda/pixel_gradient.h"

namespace visops {
namespace {

constexpr int kTileWidth = 32;
constexpr int kTileHeight = 8;
constexpr int kThreads = kTileWidth * kTileHeight;

// The map's numbers for a pixel, along x and y.
template <class Acc>
__device__ void read_map(const RemapParams& p, int64_t sample, int64_t row, int64_t column, Acc* x,
                         Acc* y) {
  const Acc* const map[2] = {static_cast<const Acc*>(p.map[0]) + sample * p.map_stride[0],
                             static_cast<const Acc*>(p.map[1]) + sample * p.map_stride[1]};
  if (p.grid == MapGrid::kDense) {
    *x = load_readonly(map[0] + row * p.columns + column);
    *y = load_readonly(map[1] + row * p.columns + column);
    return;
  }
  const GridTaps<Acc> down = grid_taps<Acc>(p.grid, row, p.output_height, p.rows);
  const GridTaps<Acc> across = grid_taps<Acc>(p.grid, column, p.output_width, p.columns);
  Acc sum[2];
#pragma unroll
  for (int axis = 0; axis < 2; ++axis) {
    sum[axis] = grid_sum(p.grid, across, [&](int32_t c) {
      return grid_column(p.grid, down, map[axis], p.columns, c);
    });
  }
  *x = sum[0];
  *y = sum[1];
}

// The taps of a pixel, found once for all channels: padding divides.
template <Interpolation mode, class Acc>
__device__ PixelTaps<mode, Acc> find_taps(const RemapParams& p, int64_t sample, int64_t row,
                                          int64_t column) {
  Acc x, y;
  read_map(p, sample, row, column, &x, &y);
  x = x + static_cast<Acc>(p.relative ? column : 0);
  y = y + static_cast<Acc>(p.relative ? row : 0);
  if (p.matrix != nullptr) to_source(map_matrix<Acc>(p, sample), &x, &y);
  return {axis_taps<mode>(map_sample<mode>(y), p.padding, p.height),
          axis_taps<mode>(map_sample<mode>(x), p.padding, p.width)};
}

template <class T, Interpolation mode, class Acc>
__device__ void sample_channels(const RemapParams& p, int64_t sample, int64_t offset,
                                const PixelTaps<mode, Acc>& taps) {
  const T* plane = static_cast<const T*>(p.image) + sample * p.image_stride.batch;
  for (int64_t c = 0; c < p.channels; ++c) {
    const Acc value = map_value(plane, p.image_stride, taps, static_cast<Acc>(remap_fill(p, c)));
    store_sample(p, static_cast<T*>(p.output), offset, value, float_scale<T>());
    plane += p.image_stride.channel;
    offset += p.output_stride.channel;
  }
}

template <class Bits, Interpolation mode, class Acc>
__device__ void copy_channels(const RemapParams& p, int64_t sample, int64_t offset,
                              const PixelTaps<mode, Acc>& taps) {
  const int64_t near =
      taps.y.index[0] * p.image_stride.row + taps.x.index[0] * p.image_stride.column;
  const Bits* plane = static_cast<const Bits*>(p.image) + sample * p.image_stride.batch;
  for (int64_t c = 0; c < p.channels; ++c) {
    static_cast<Bits*>(p.output)[offset] =
        taps.outside() ? element_from_bits<Bits>(fill_bits(p.dtype, remap_fill(p, c)))
                       : load_readonly(plane + near);
    plane += p.image_stride.channel;
    offset += p.output_stride.channel;
  }
}

// is_copy: T's bits are copied, whatever they hold.
template <class T, class Acc, Interpolation mode, bool is_copy>
__global__ void __launch_bounds__(kThreads)
    remap_pixels(const __grid_constant__ RemapParams p, const int64_t tiles) {
  const int64_t across = parts_of(p.output_width, kTileWidth);
  const int64_t down = parts_of(p.output_height, kTileHeight);
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t of_image = tile / across, sample = of_image / down;
    const int64_t column = (tile - of_image * across) * kTileWidth + threadIdx.x % kTileWidth;
    const int64_t row = (of_image - sample * down) * kTileHeight + threadIdx.x / kTileWidth;
    if (column >= p.output_width || row >= p.output_height) continue;
    const int64_t offset = sample * p.output_stride.batch + row * p.output_stride.row +
                           column * p.output_stride.column;
    const auto taps = find_taps<mode, Acc>(p, sample, row, column);
    if constexpr (is_copy) {
      copy_channels<T>(p, sample, offset, taps);
    } else {
      sample_channels<T>(p, sample, offset, taps);
    }
  }
}

template <class T, class Acc, Interpolation mode, bool is_copy>
void start(const RemapParams& p, void* stream) {
  const int64_t tiles =
      p.batch * parts_of(p.output_width, kTileWidth) * parts_of(p.output_height, kTileHeight);
  launch(remap_pixels<T, Acc, mode, is_copy>, grid_for(tiles), dim3(kThreads), 0, stream, p, tiles);
}

template <class Bits, class Acc>
void copy(const RemapParams& p, void* stream) {
  start<Bits, Acc, Interpolation::kNearest, true>(p, stream);
}

void remap_cuda(const RemapParams& p, Workspace& workspace) {
  void* const stream = workspace.stream();
  if (p.mode == Interpolation::kNearest && !p.to_float) {
    switch (element_size(p.dtype)) {
      case 1: return copy<uint8_t, float>(p, stream);
      case 2: return copy<uint16_t, float>(p, stream);
      case 4: return copy<uint32_t, float>(p, stream);
      default:
        if (p.dtype == DType::kFloat64) return copy<uint64_t, double>(p, stream);
        return copy<uint64_t, float>(p, stream);
    }
  }
  with_element_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    with_mode(p.mode, [&](auto mode) {
      start<T, typename Accumulate<T>::type, mode.value, false>(p, stream);
    });
  });
}

const bool registered = remap_stub.set(kCudaSlot, remap_cuda);

}  // namespace
}  // namespace visops
