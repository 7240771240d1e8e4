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
#include "core/element_types.h"
#include "core/parts.h"
#include "core/warp/remap_pixel.h"
#include "cuda/launch.h"
#include "cuda/with_mode.h"

namespace visops {
namespace {

constexpr int kTileWidth = 32;
constexpr int kTileHeight = 8;
constexpr int kThreads = kTileWidth * kTileHeight;

template <class Acc>
struct MapPixel {
  int32_t x, y;  // whole parts
  Acc right, below;
  bool is_inner;  // all taps lie in the image
};

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

template <class Acc, Interpolation mode>
__device__ MapPixel<Acc> find_pixel(const RemapParams& p, int64_t sample, int64_t row,
                                    int64_t column) {
  constexpr Reach kReach = reach_of(mode);
  Acc x, y;
  read_map(p, sample, row, column, &x, &y);
  x = x + static_cast<Acc>(p.relative ? column : 0);
  y = y + static_cast<Acc>(p.relative ? row : 0);
  if (p.matrix != nullptr) to_source(map_matrix<Acc>(p, sample), &x, &y);
  x = limited_position(x) + static_cast<Acc>(kReach.shift);
  y = limited_position(y) + static_cast<Acc>(kReach.shift);
  MapPixel<Acc> pixel;
  pixel.x = whole_part(x);
  pixel.y = whole_part(y);
  pixel.right = x - static_cast<Acc>(pixel.x);
  pixel.below = y - static_cast<Acc>(pixel.y);
  pixel.is_inner = pixel.x >= kReach.before && pixel.x + kReach.after < p.width &&
                   pixel.y >= kReach.before && pixel.y + kReach.after < p.height;
  return pixel;
}

// Where a pixel's taps lie in a plane, in elements; negative where constant padding supplies the
// value. Found once for all channels: padding divides.
template <Interpolation mode>
struct TapOffsets {
  static constexpr int kTaps = tap_count(mode);
  int32_t column[kTaps], row[kTaps];
};

// `stride` is positive or 0, and all offsets are below 2^31.
__device__ inline int32_t tap_offset(const RemapParams& p, bool is_inner, int64_t i, int64_t n,
                                     int64_t stride) {
  const int64_t pixel = is_inner ? i : pad_index(p.padding, i, n);
  return pixel < 0 ? -1 : static_cast<int32_t>(pixel * stride);
}

template <Interpolation mode, class Acc>
__device__ TapOffsets<mode> tap_offsets(const RemapParams& p, const MapPixel<Acc>& pixel) {
  TapOffsets<mode> taps;
#pragma unroll
  for (int k = 0; k < TapOffsets<mode>::kTaps; ++k) {
    const int64_t x = int64_t{pixel.x} + first_tap(mode) + k;
    const int64_t y = int64_t{pixel.y} + first_tap(mode) + k;
    taps.column[k] = tap_offset(p, pixel.is_inner, x, p.width, p.image_stride.column);
    taps.row[k] = tap_offset(p, pixel.is_inner, y, p.height, p.image_stride.row);
  }
  return taps;
}

// Samples a plane around a pixel, of which `at(column, row)` is a neighbour.
template <class Acc, Interpolation mode, class Neighbours>
__device__ Acc sample_at(const MapPixel<Acc>& pixel, const Neighbours& at) {
  if constexpr (mode == Interpolation::kNearest) {
    return at(0, 0);
  } else if constexpr (mode == Interpolation::kBilinear) {
    return bilinear_blend(at(0, 0), at(1, 0), at(0, 1), at(1, 1), pixel.right, pixel.below);
  } else {
    Acc across[4], down[4];
    cubic_weights(pixel.right, across);
    cubic_weights(pixel.below, down);
    return bicubic_blend(across, down,
                         [&](int column, int row) { return at(column - 1, row - 1); });
  }
}

template <class T, Interpolation mode>
__device__ void sample_channels(const RemapParams& p, int64_t sample, int64_t offset,
                                const MapPixel<typename Accumulate<T>::type>& pixel) {
  using Acc = typename Accumulate<T>::type;
  constexpr int kFirst = first_tap(mode);
  const TapOffsets<mode> taps = tap_offsets<mode>(p, pixel);
  const T* plane = static_cast<const T*>(p.image) + sample * p.image_stride.batch;
  for (int64_t c = 0; c < p.channels; ++c) {
    const Acc fill = static_cast<Acc>(remap_fill(p, c));
    const Acc value = sample_at<Acc, mode>(pixel, [&](int column, int row) -> Acc {
      const int32_t across = taps.column[column - kFirst], down = taps.row[row - kFirst];
      if (across < 0 || down < 0) return fill;
      const T element = load_readonly(plane + (across + down));
      return load_element(&element);
    });
    store_sample(p, static_cast<T*>(p.output), offset, value, float_scale<T>());
    plane += p.image_stride.channel;
    offset += p.output_stride.channel;
  }
}

template <class Bits, class Acc>
__device__ void copy_channels(const RemapParams& p, int64_t sample, int64_t offset,
                              const MapPixel<Acc>& pixel) {
  const auto taps = tap_offsets<Interpolation::kNearest>(p, pixel);
  const int32_t across = taps.column[0], down = taps.row[0];
  const Bits* plane = static_cast<const Bits*>(p.image) + sample * p.image_stride.batch;
  for (int64_t c = 0; c < p.channels; ++c) {
    static_cast<Bits*>(p.output)[offset] =
        across < 0 || down < 0 ? element_from_bits<Bits>(fill_bits(p.dtype, remap_fill(p, c)))
                               : load_readonly(plane + (across + down));
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
    const MapPixel<Acc> pixel = find_pixel<Acc, mode>(p, sample, row, column);
    if constexpr (is_copy) {
      copy_channels<T>(p, sample, offset, pixel);
    } else {
      sample_channels<T, mode>(p, sample, offset, pixel);
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
