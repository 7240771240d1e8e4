// The affine warp on CUDA.
//
// NOTE [ Affine forward on CUDA ]
// Strategy: NOTE [ Tall tiles ]. A warp computes the map (an inversion in float64) and the origins
// of the tile's row segments, once per tile. Every thread then works in float32 (float64 for
// float64 images), a pixel at a time: coordinate, taps and weights once, then one blend per
// channel. NOTE [ Inner pixels ]: those inside the image skip the padding arithmetic. Bilinear
// pixels of at most four channels are read from shared memory: NOTE [ Staged pixels ].
//
// Split: blocks stride over the tiles of all samples, so any size fits any grid. Pixels share
// nothing; the result does not depend on the split.
//
// Memory: neighbouring threads have neighbouring columns, so writes of planar output coalesce. What
// isn't staged is read through the read-only cache, where a tile's taps overlap. Interleaved output
// of 2 to 4 channels would be written with a stride; instead a warp gathers its 32 pixels in shared
// memory and writes whole words.
//
// Rounding: NOTE [ One pixel ], without contraction (-fmad=false): the bits of the CPU kernels,
// except for NaN payloads.
//
// Assumes from check_affine(): sizes below 2^31, fill_count 1 or `channels`, channels <= kMaxFill
// unless fill_count is 1, bilinear and bicubic only for types that have load_element. It does not
// assume a finite or regular matrix: with another, a sample becomes `fill`, as does the output of
// an empty image.
#include "core/dispatch/workspace.h"
#include "core/warp/affine.h"
#include "cuda/launch.h"
#include "cuda/warp/inner_pixels.h"
#include "cuda/warp/staged_pixels.h"
#include "cuda/warp/tall_tiles.h"
#include "cuda/warp/tile_output.h"

namespace visops {
namespace {

// What a block of the affine kernel knows about its tile, prepared once in shared memory.

constexpr int kFills = 4;

// Whether pixels of a type are staged. float64 would take too much memory.
template <class T, Interpolation mode>
constexpr bool kStages = mode == Interpolation::kBilinear && sizeof(T) <= 4;

// The map, and the segment of each row of the tile: of inner pixels and of all others.
template <class T, class Acc = typename Accumulate<T>::type>
struct TileMap {
  AffineMap map;
  bool words;      // OutputLayout::writes_words()
  T fill[kFills];  // of the first channels
  SegmentOrigin<Acc> origin[kMostTileRows];
  InnerRow<Acc> inner[kMostTileRows];
};

// The boxes of the tile's parts, and one of them at a time.
template <class T>
struct Stage {
  StagedBox box[kStagedParts];
  StagedPixel<T> fill, pixel[kStagedPixels];
};

template <Interpolation mode, class T, class Acc>
__device__ inline void prepare_rows(const AffineParams& p, const AffineMap& map, const TileAt& at,
                                    int rows, TileMap<T, Acc>* tile) {
  const int lane = static_cast<int>(threadIdx.x);
  const auto step_x = static_cast<Acc>(map.m[0]), step_y = static_cast<Acc>(map.m[3]);
  const bool fits = map.valid && is_small_step(step_x) && is_small_step(step_y) &&
                    has_small_offsets(p.height, p.width, p.image_stride.row, p.image_stride.column);
  for (int row = lane; row < rows; row += kWarp) {
    const SegmentOrigin<Acc> origin = segment_origin<Acc>(map.m, at.x, at.y + row);
    tile->origin[row] = origin;
    const InnerAxis x = inner_axis<mode>(origin.x, 0, fits ? p.width - 1 : -1);
    const InnerAxis y = inner_axis<mode>(origin.y, 0, fits ? p.height - 1 : -1);
    tile->inner[row] = {x.origin,  y.origin, x.count, y.count, origin.fx,
                        origin.fy, step_x,   step_y,  0};
  }
}

template <class T>
__device__ inline OutputLayout output_layout(const AffineParams& p) {
  return {p.output, p.output_stride, static_cast<int>(sizeof(T)), p.channels, p.output_width};
}

// Called by all threads of the block, and synchronizes them. The first warp does the rows.
template <Interpolation mode, class T, class Acc>
__device__ inline void prepare_tile(const AffineParams& p, const TileAt& at, int rows,
                                    TileMap<T, Acc>* tile) {
  const int fill = static_cast<int>(threadIdx.x) - kWarp;  // of the second warp
  if (fill >= 0 && fill < kFills && fill < p.channels) {
    tile->fill[fill] = element_from_bits<T>(fill_bits(p.dtype, affine_fill(p, fill)));
  }
  if (threadIdx.x < kWarp) {
    const AffineMap map = affine_map(p, at.sample);
    if (map.integral) {
      prepare_rows<Interpolation::kNearest>(p, map, at, rows, tile);
    } else {
      prepare_rows<mode>(p, map, at, rows, tile);
    }
    if (threadIdx.x == 0) {
      tile->map = map;
      tile->words = output_layout<T>(p).writes_words();
    }
  }
  __syncthreads();
}

// One output pixel: the taps, computed once, and the value of any channel.
template <class T, Interpolation mode>
struct Pixel {
  using Acc = typename Accumulate<T>::type;
  PixelTaps<mode, Acc> taps;
  bool is_fill;

  // `plane` is the channel's.
  __device__ T value(const AffineParams& p, const T* plane, int64_t channel) const {
    if (is_fill) return element_from_bits<T>(fill_bits(p.dtype, affine_fill(p, channel)));
    if constexpr (mode == Interpolation::kNearest) {
      return load_readonly(plane + taps.y.index[0] * p.image_stride.row +
                           taps.x.index[0] * p.image_stride.column);
    } else {
      const Acc fill = static_cast<Acc>(affine_fill(p, channel));
      T element;
      store_element(&element, sample_pixel(plane, p.image_stride, taps, fill));
      return element;
    }
  }
};

// Where a thread's pixel of a tile is read and written.
template <class T>
struct PixelPointers {
  const T* image;
  T* out;
  int64_t step;  // between channels of `out`
};

// `kChannels` channels of an inner pixel, from the first that `pointers` names.
template <int kChannels, class T, Interpolation mode, class Acc, class ColumnStride>
__device__ void store_inner(const AffineParams& p, const InnerPixel<mode, Acc>& pixel,
                            const PixelPointers<T>& pointers, ColumnStride column_stride) {
  const InnerTaps<kChannels, T, mode, Acc, ColumnStride> taps(
      pixel, pointers.image, p.image_stride.channel, static_cast<int32_t>(p.image_stride.row),
      column_stride);
  for (int c = 0; c < kChannels; ++c) {
    if constexpr (mode == Interpolation::kNearest) {
      pointers.out[c * pointers.step] = taps.element[c][0][0];
    } else {
      store_element(pointers.out + c * pointers.step, taps.blend(pixel, c));
    }
  }
}

// Three channels at once, since photos have as many; else one by one.
template <class T, Interpolation mode, class Acc, class ColumnStride>
__device__ void inner_channels(const AffineParams& p, const InnerPixel<mode, Acc>& pixel,
                               PixelPointers<T> pointers, ColumnStride column_stride) {
  if constexpr (mode != Interpolation::kBicubic) {  // whose taps would take too many registers
    if (p.channels == 3) return store_inner<3>(p, pixel, pointers, column_stride);
  }
  for (int64_t c = 0; c < p.channels; ++c) {
    store_inner<1>(p, pixel, pointers, column_stride);
    pointers.image += p.image_stride.channel;
    pointers.out += pointers.step;
  }
}

// A pixel that may have taps beyond the border. Not inlined: it would take registers from those
// that nearly all pixels go through.
template <class T, Interpolation mode, class Acc>
__device__ VISOPS_NOINLINE void outer_pixel(const AffineParams& p, const TileMap<T, Acc>& tile,
                                            int row, int column, PixelPointers<T> pointers) {
  Pixel<T, mode> pixel;
  pixel.taps = pixel_taps<mode>(p, tile.map, tile.origin[row], column);
  pixel.is_fill = !tile.map.valid || pixel.taps.outside();
  for (int64_t c = 0; c < p.channels; ++c) {
    *pointers.out = pixel.value(p, pointers.image, c);
    pointers.out += pointers.step;
    pointers.image += p.image_stride.channel;
  }
}

// A pixel of this thread, of a tile's row.
template <class T, Interpolation mode, class Acc>
__device__ void warp_pixel(const AffineParams& p, const TileMap<T, Acc>& tile, int row, int column,
                           const PixelPointers<T>& pointers) {
  const auto column_stride = static_cast<int32_t>(p.image_stride.column);
  const auto inner = inner_pixel<mode>(tile.inner[row], from_centre<Acc>(column),
                                       static_cast<int32_t>(p.image_stride.row), column_stride);
  if (inner.is_inner) {
    if (column_stride == 1) return inner_channels(p, inner, pointers, UnitStride());
    return inner_channels(p, inner, pointers, column_stride);
  }
  if (p.padding == Padding::kConstant && p.channels <= kFills &&
      is_outside(tile.inner[row], inner)) {
    for (int c = 0; c < p.channels; ++c) pointers.out[c * pointers.step] = tile.fill[c];
    return;
  }
  outer_pixel<T, mode>(p, tile, row, column, pointers);
}

// The first pixel of a tile.
template <class T>
__device__ T* first_pixel(const AffineParams& p, const TileAt& at) {
  const Strides& stride = p.output_stride;
  return static_cast<T*>(p.output) + at.sample * stride.batch + at.y * stride.row +
         at.x * stride.column;
}

// This thread's pixels of one column: write(row, pointers) for every `step`-th row from walk.row
// on. All threads of a warp call it. `first` is the tile's first_pixel(), `staged` this warp's part
// of shared memory.
template <class T, class Acc, class Write>
__device__ void each_pixel(const AffineParams& p, const TileAt& at, const TileMap<T, Acc>& tile,
                           T* first, const TileWalk& walk, int rows, T* staged,
                           const Write& write) {
  const T* const image = static_cast<const T*>(p.image) + at.sample * p.image_stride.batch;
  if (!tile.words) {
    if (at.x + walk.column >= p.output_width) return;
    const Strides& stride = p.output_stride;
    T* out = first + walk.row * stride.row + walk.column * stride.column;
#pragma unroll(sizeof(T) == 1 ? 2 : 1)
    for (int row = walk.row; row < rows; row += walk.step, out += walk.step * stride.row) {
      write(row, PixelPointers<T>{image, out, stride.channel});
    }
    return;
  }
  for (int row = walk.row; row < rows; row += walk.step) {
    const PixelOutput to =
        pixel_output(output_layout<T>(p), true, at.sample, at.y + row, int64_t{at.x} + walk.column);
    const bool words = to.writes_words();
    T* const out = words ? staged + lane_of_warp() * p.channels : reinterpret_cast<T*>(to.at);
    if (to.exists) write(row, PixelPointers<T>{image, out, 1});
    if (words) store_words(to, staged);
  }
}

// The pixels of a tile.
template <class T, Interpolation mode, class Acc>
__device__ void warp_tile(const AffineParams& p, const TileAt& at, const TileMap<T, Acc>& tile,
                          int rows, T* staged) {
  const TileWalk walk = tile_walk(at, p.output_width);
  each_pixel(p, at, tile, first_pixel<T>(p, at), walk, rows, staged,
             [&](int row, const PixelPointers<T>& pointers) {
               warp_pixel<T, mode>(p, tile, row, walk.column, pointers);
             });
}

// Finds the boxes of a tile's parts, a warp each, and whether a fill can be staged.
template <class T, class Acc>
__device__ void prepare_stage(const AffineParams& p, const TileMap<T, Acc>& tile, int rows,
                              int skew, Stage<T>* stage) {
  const bool constant = p.padding == Padding::kConstant;
  StagedPixel<T> fill = {};
  bool folds = true;
  for (int c = 0; c < kStagedChannels && constant; ++c) {
    if (c >= p.channels) break;
    const auto given = static_cast<Acc>(affine_fill(p, c));
    const T element = tile.fill[c];
    fill.set(c, element);
    // Blends of -0 alone are 0, and those of an infinity are NaN.
    folds = folds && static_cast<Acc>(load_element(&element)) == given && given - given == 0 &&
            (given != 0 || 1 / given > 0);
  }
  const int part = static_cast<int>(threadIdx.x) / kWarp;
  StagedBox box = {};
  if (p.channels <= kStagedChannels) {
    box = staged_box(tile.inner, rows, part, skew, p.height, p.width, folds, constant);
  }
  if (lane_of_warp() == 0) stage->box[part] = box;
  if (threadIdx.x == 0) stage->fill = fill;
  __syncthreads();
}

// The channels of a pixel whose taps are staged: kCount of them, or 0: all.
template <int kCount, class T, class Acc>
__device__ void store_staged(const AffineParams& p,
                             const InnerPixel<Interpolation::kBilinear, Acc>& pixel,
                             const StagedTaps<T>& taps, const PixelPointers<T>& pointers) {
  T* out = pointers.out;
#pragma unroll
  for (int c = 0; c < (kCount > 0 ? kCount : kStagedChannels); ++c, out += pointers.step) {
    if (kCount == 0 && c >= p.channels) break;
    store_blend(out, taps.blend(pixel.taps, c));
  }
}

// The pixels of a tile, part by part.
template <class T, class Acc>
__device__ void warp_parts(const AffineParams& p, const TileAt& at, const TileMap<T, Acc>& tile,
                           int rows, T* staged, Stage<T>* stage) {
  constexpr Interpolation kMode = Interpolation::kBilinear;
  const T* const planes = static_cast<const T*>(p.image) + at.sample * p.image_stride.batch;
  const int skew = p.channels == 3 ? word_skew(planes, p.image_stride, p.width, 0) : -1;
  prepare_stage(p, tile, rows, skew, stage);
  const StagedImage<T> image = {
      planes,      p.image_stride, static_cast<int>(p.channels), p.height, p.width, p.padding,
      stage->fill, skew >= 0,
  };
  T* const first = first_pixel<T>(p, at);
  each_part(at, rows, p.output_width, [&](int part, const TileWalk& walk, int end) {
    const StagedBox box = stage->box[part];
    if (!box.fits) {
      each_pixel(p, at, tile, first, walk, end, staged,
                 [&](int row, const PixelPointers<T>& pointers) {
                   warp_pixel<T, kMode>(p, tile, row, walk.column, pointers);
                 });
      return;
    }
    stage_box(image, box, stage->pixel);
    __syncthreads();  // the box is there
    const Acc t = from_centre<Acc>(walk.column);
    const Acc across = tile.inner[0].step_x * t, down = tile.inner[0].step_y * t;  // in all rows
    const auto sample = [&](auto count) {
      each_pixel(p, at, tile, first, walk, end, staged,
                 [&](int row, const PixelPointers<T>& pointers) {
                   const auto pixel = inner_pixel<kMode>(tile.inner[row], across, down, 0, 0);
                   const StagedTaps<T> taps(stage->pixel, box, pixel.x, pixel.y);
                   store_staged<count.value>(p, pixel, taps, pointers);
                 });
    };
    if (p.channels == 3) {
      sample(std::integral_constant<int, 3>());
    } else {
      sample(std::integral_constant<int, 0>());
    }
    __syncthreads();  // all threads have read it
  });
}

// Blocks that a multiprocessor should hold, such that pixels inside the image spill no register.
template <class T, Interpolation mode>
constexpr int kForwardBlocks = mode == Interpolation::kNearest                     ? 4
                               : sizeof(T) == 8                                    ? 2
                               : mode == Interpolation::kBicubic || sizeof(T) == 1 ? 3
                                                                                   : 4;

template <class T, Interpolation mode>
__global__ void __launch_bounds__(kTileThreads, (kForwardBlocks<T, mode>))
    affine_forward(const __grid_constant__ AffineParams p, const TileGrid grid) {
  __shared__ TileMap<T> tile;
  __shared__ __align__(8) T staged[kTileThreads / kWarp][kMaxInterleaved * kWarp];
  __shared__ std::conditional_t<kStages<T, mode>, Stage<T>, char> stage;
  for (int round = 0;; ++round) {
    const int64_t i = blockIdx.x + static_cast<int64_t>(round) * gridDim.x;
    if (i >= grid.count) break;
    if (round > 0) __syncthreads();  // before this tile replaces the last one
    const TileAt at = tile_at(grid, i);
    const int rows = rows_of(grid, at, p.output_height);
    prepare_tile<mode>(p, at, rows, &tile);
    T* const mine = staged[threadIdx.x / kWarp];
    if (mode == Interpolation::kNearest || tile.map.integral) {
      warp_tile<T, Interpolation::kNearest>(p, at, tile, rows, mine);
    } else if constexpr (kStages<T, mode>) {
      warp_parts(p, at, tile, rows, mine, &stage);
    } else {
      warp_tile<T, mode>(p, at, tile, rows, mine);
    }
  }
}

template <class T, Interpolation mode>
void forward_as(const AffineParams& p, void* stream) {
  if (p.channels == 0) return;
  const TileGrid grid = tall_tiles(p.batch, p.output_height, p.output_width);
  launch(affine_forward<T, mode>, grid_for(grid.count), dim3(kTileThreads), 0, stream, p, grid);
}

// Copies elements by size, whatever they mean; but float64 has coordinates of its own.
void forward_nearest(const AffineParams& p, void* stream) {
  constexpr Interpolation kNearest = Interpolation::kNearest;
  if (p.dtype == DType::kFloat64) return forward_as<double, kNearest>(p, stream);
  switch (element_size(p.dtype)) {
    case 1: return forward_as<uint8_t, kNearest>(p, stream);
    case 2: return forward_as<uint16_t, kNearest>(p, stream);
    case 4: return forward_as<uint32_t, kNearest>(p, stream);
    default: return forward_as<uint64_t, kNearest>(p, stream);
  }
}

template <Interpolation mode>
void forward_blend(const AffineParams& p, void* stream) {
  switch (p.dtype) {
    case DType::kUInt8: return forward_as<uint8_t, mode>(p, stream);
    case DType::kInt16: return forward_as<int16_t, mode>(p, stream);
    case DType::kUInt16: return forward_as<uint16_t, mode>(p, stream);
    case DType::kFloat16: return forward_as<Half, mode>(p, stream);
    case DType::kBFloat16: return forward_as<BFloat16, mode>(p, stream);
    case DType::kFloat32: return forward_as<float, mode>(p, stream);
    case DType::kFloat64: return forward_as<double, mode>(p, stream);
    default: throw std::logic_error("visops.affine: no blending kernel for this dtype");
  }
}

void affine_cuda(const AffineParams& p, Workspace& workspace) {
  void* const stream = workspace.stream();
  switch (p.mode) {
    case Interpolation::kNearest: return forward_nearest(p, stream);
    case Interpolation::kBilinear: return forward_blend<Interpolation::kBilinear>(p, stream);
    default: return forward_blend<Interpolation::kBicubic>(p, stream);
  }
}

const bool registered = affine_stub.set(kCudaSlot, affine_cuda);

}  // namespace
}  // namespace visops
