// NOTE [ Crops on CUDA ]
// Blocks are tiles of up to 224 x 32 pixels and stride over all patches. The position of a column,
// or row, takes float64, and all its pixels share it: each of a tile's 224 + 32 threads computes
// one and leaves its taps in shared memory. The tile's pixels are then dealt out to the threads by
// number, so that tiles of any width keep all of them busy.
//
// Nearly all tiles of boxes within their image are inner ones: no tap is beyond the border, so
// neither padding nor fill matters, and where the columns of image and patch are adjacent, a place
// of the plane needs 32 bits. Four pixels of a row then make a thread's piece, stored at once.
// Positions rise along an axis, so the first and the last one tell.
//
// Rounding: NOTE [ One pixel ] (core/images/pixel.h), without contraction (-fmad=false): the
// bits of the CPU kernels. Boxes that are not valid, and images without pixels, give `fill`.
#include "core/dispatch/workspace.h"
#include "core/roi/crops.h"
#include "cuda/byte_products.h"
#include "cuda/divisor.h"
#include "cuda/launch.h"
#include "cuda/small_offsets.h"
#include "cuda/tile_grid.h"

namespace visops {
namespace {

constexpr int kMapThreads = 128;
constexpr int kMostColumns = 224, kTileRows = 32;  // of a tile
constexpr int kTileThreads = kMostColumns + kTileRows;
constexpr int kPiece = 4;  // pixels of a row that a thread has at once in inner tiles

// The taps of a tile's columns and rows.
template <Interpolation mode, class Acc>
struct TileTaps {
  AxisTaps<mode, Acc> across[kMostColumns], down[kTileRows];
};

// A column or a row of an inner tile: where its first tap lies in a plane, and the fraction from
// there towards the next one.
template <class Acc>
struct Place {
  uint32_t offset;
  Acc t;
};
template <class Acc>
struct alignas(16) PiecePlaces {
  Place<Acc> column[kPiece];
};
template <class Acc>
struct TilePlaces {
  PiecePlaces<Acc> across[kMostColumns / kPiece];
  Place<Acc> down[kTileRows];
};

struct CropTiles {
  TileGrid grid;
  Divisor<int32_t> columns, pieces;  // of a tile's row
  bool has_inner;   // columns are adjacent in images and patches, and 32 bits suffice
  bool is_aligned;  // pieces of patches can be stored at once
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

// The tile's pixel of this number: its row and column within the tile.
struct PixelAt {
  int row, column;

  __device__ PixelAt(const Divisor<int32_t>& columns, int i)
      : row(columns.divide(i)), column(i - row * columns.value) {}
};

// Called by all threads of the block, and synchronizes them.
template <class T, Interpolation mode, class Acc>
__device__ void crop_tile(const RoiCropParams& p, const CropMap& map, const CropTiles& tiles,
                          const TileAt& at, TileTaps<mode, Acc>& taps) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < tiles.columns.value) {
    taps.across[thread] = grid_taps<mode, Acc>(map.x, int64_t{at.x} + thread, p.padding, p.width);
  } else if (thread >= kMostColumns) {
    const int row = thread - kMostColumns;
    taps.down[row] = grid_taps<mode, Acc>(map.y, int64_t{at.y} + row, p.padding, p.height);
  }
  __syncthreads();
  T* patch = static_cast<T*>(p.patches) + at.sample * p.patch_stride.batch;
  for (int i = thread; i < tiles.columns.value * kTileRows; i += kTileThreads) {
    const PixelAt pixel(tiles.columns, i);
    const int64_t y = int64_t{at.y} + pixel.row, x = int64_t{at.x} + pixel.column;
    if (y >= p.patch_height) break;
    if (x >= p.patch_width) continue;
    crop_pixel(p, map.image, PixelTaps<mode, Acc>{taps.down[pixel.row], taps.across[pixel.column]},
               patch + y * p.patch_stride.row + x * p.patch_stride.column);
  }
  __syncthreads();  // before the next tile's taps replace these
}

// Whether the bilinear taps of places [first, last] are within [0, size).
__device__ inline bool has_inner_taps(const GridAxis& axis, int64_t first, int64_t last,
                                      int64_t size) {
  return grid_position(axis, first) >= 0.0 &&
         grid_position(axis, last) < static_cast<double>(size - 1);
}

template <class T>
struct alignas(sizeof(T) * kPiece < 16 ? sizeof(T) * kPiece : 16) Piece {
  T element[kPiece];
};

// Blends a piece's neighbours in one plane: those of its pixel i are at upper[i], lower[i] and
// beside them.
template <class T, class Acc>
__device__ Piece<T> blend_piece(const T* const* upper, const T* const* lower, Acc y_t,
                                const Acc* x_t) {
  constexpr Interpolation kBilinear = Interpolation::kBilinear;
  T element[kPiece][2][2];
  for (int i = 0; i < kPiece; ++i) {
    for (int j = 0; j < 2; ++j) {
      element[i][0][j] = load_readonly(upper[i] + j);
      element[i][1][j] = load_readonly(lower[i] + j);
    }
  }
  Piece<T> piece;
  for (int i = 0; i < kPiece; ++i) {
    Acc value[2][2];
    for (int j = 0; j < 2; ++j) {
      value[0][j] = load_element(&element[i][0][j]);
      value[1][j] = load_element(&element[i][1][j]);
    }
    PixelTaps<kBilinear, Acc> taps;
    taps.y.t = y_t;
    taps.x.t = x_t[i];
    store_element(&piece.element[i], blend_taps<kBilinear>(taps, value));
  }
  return piece;
}

// At once if it `is_whole` and aligned; else the first `count` of its elements.
template <class T>
__device__ void store_piece(T* to, const Piece<T>& piece, bool is_whole, int count) {
  if (is_whole) {
    *reinterpret_cast<Piece<T>*>(to) = piece;
  } else {
    for (int i = 0; i < kPiece; ++i) {
      if (i < count) to[i] = piece.element[i];
    }
  }
}

// For bytes, in fewer instructions and with the same bits; a piece is a word. Bytes become floats
// as in offset_byte(). A blend of bytes needs no bounds: with t in [0, 1] each step lies between
// its operands, but for a last place that rounding to integers takes away. Adding 1.5 * 2^23 rounds
// to an integer in the lowest bits.
__device__ inline uint32_t blend_piece(const uint8_t* const* upper, const uint8_t* const* lower,
                                       float y_t, const float* x_t) {
  uint32_t byte[kPiece][2][2];
  for (int i = 0; i < kPiece; ++i) {
    for (int j = 0; j < 2; ++j) {
      byte[i][0][j] = load_readonly(upper[i] + j);
      byte[i][1][j] = load_readonly(lower[i] + j);
    }
  }
  uint32_t rounded[kPiece];
  for (int i = 0; i < kPiece; ++i) {
    float down[2];  // the blends of either column
    for (int j = 0; j < 2; ++j) {
      const float top = offset_byte(byte[i][0][j], 0), bottom = offset_byte(byte[i][1][j], 0);
      down[j] = (top - kByteOffset) + y_t * (bottom - top);
    }
    rounded[i] = bit_cast<uint32_t>((down[0] + x_t[i] * (down[1] - down[0])) + 12582912.0f);
  }
  return __byte_perm(__byte_perm(rounded[0], rounded[1], 0x0040),
                     __byte_perm(rounded[2], rounded[3], 0x0040), 0x5410);
}

__device__ inline void store_piece(uint8_t* to, uint32_t piece, bool is_whole, int count) {
  if (is_whole) {
    *reinterpret_cast<uint32_t*>(to) = piece;
  } else {
    for (int i = 0; i < kPiece; ++i) {
      if (i < count) to[i] = static_cast<uint8_t>(piece >> (8 * i));
    }
  }
}

// crop_tile() where all taps are inside the image. Called by all threads of the block, and
// synchronizes them.
template <class T, class Acc>
__device__ void crop_inner_tile(const RoiCropParams& p, const CropMap& map, const CropTiles& tiles,
                                const TileAt& at, TilePlaces<Acc>& places) {
  constexpr Interpolation kBilinear = Interpolation::kBilinear;
  const int thread = static_cast<int>(threadIdx.x);
  const int32_t width = static_cast<int32_t>(p.patch_width) - at.x;
  const int32_t height = static_cast<int32_t>(p.patch_height) - at.y;
  if (thread < tiles.columns.value) {
    const int32_t column = thread < width ? thread : width - 1;  // beyond the patch: the last one
    const auto sample = grid_sample<kBilinear, Acc>(map.x, at.x + column);
    places.across[thread / kPiece].column[thread % kPiece] = {static_cast<uint32_t>(sample.tap),
                                                              sample.weight};
  } else if (thread >= kMostColumns && thread - kMostColumns < height) {
    const int row = thread - kMostColumns;
    const auto sample = grid_sample<kBilinear, Acc>(map.y, at.y + row);
    places.down[row] = {static_cast<uint32_t>(sample.tap * p.image_stride.row), sample.weight};
  }
  __syncthreads();
  const T* const image = static_cast<const T*>(p.images) + map.image * p.image_stride.batch;
  T* const patch = static_cast<T*>(p.patches) + at.sample * p.patch_stride.batch +
                   at.y * p.patch_stride.row + at.x;
  const int32_t rows = height < kTileRows ? height : kTileRows;
  for (int i = thread; i < tiles.pieces.value * rows; i += kTileThreads) {
    const PixelAt first(tiles.pieces, i);
    const int32_t left = width - first.column * kPiece;
    if (left <= 0) continue;
    const bool is_whole = tiles.is_aligned && left >= kPiece;
    const Place<Acc> row = places.down[first.row];
    const PiecePlaces<Acc> columns = places.across[first.column];
    const T *upper[kPiece], *lower[kPiece];
    Acc x_t[kPiece];
    for (int j = 0; j < kPiece; ++j) {
      upper[j] = image + (row.offset + columns.column[j].offset);
      lower[j] = upper[j] + p.image_stride.row;
      x_t[j] = columns.column[j].t;
    }
    T* out = patch + (static_cast<uint32_t>(first.row) * static_cast<uint32_t>(p.patch_stride.row) +
                      static_cast<uint32_t>(first.column * kPiece));
    for (int32_t c = 0; c < static_cast<int32_t>(p.channels); ++c) {
      store_piece(out, blend_piece(upper, lower, row.t, x_t), is_whole, left);
      out += p.patch_stride.channel;
      for (int j = 0; j < kPiece; ++j) {
        upper[j] += p.image_stride.channel;
        lower[j] += p.image_stride.channel;
      }
    }
  }
  __syncthreads();  // before the next tile's places replace these
}

template <class T>
__device__ void fill_tile(const RoiCropParams& p, const CropTiles& tiles, const TileAt& at) {
  for (int i = static_cast<int>(threadIdx.x); i < tiles.columns.value * kTileRows;
       i += kTileThreads) {
    const PixelAt pixel(tiles.columns, i);
    const int64_t y = int64_t{at.y} + pixel.row, x = int64_t{at.x} + pixel.column;
    if (y >= p.patch_height) return;
    if (x >= p.patch_width) continue;
    T* out = static_cast<T*>(p.patches) + at.sample * p.patch_stride.batch +
             y * p.patch_stride.row + x * p.patch_stride.column;
    for (int64_t c = 0; c < p.channels; ++c) {
      out[c * p.patch_stride.channel] = element_from_bits<T>(fill_bits(p.dtype, crop_fill(p, c)));
    }
  }
}

template <class T, Interpolation mode>
__global__ void __launch_bounds__(kTileThreads, sizeof(typename Accumulate<T>::type) == 8 ? 3 : 4)
    roi_crops(const __grid_constant__ RoiCropParams p, const __grid_constant__ CropTiles tiles) {
  using Acc = typename Accumulate<T>::type;
  __shared__ union {
    TileTaps<mode, Acc> blended;
    TileTaps<Interpolation::kNearest, Acc> copied;
    TilePlaces<Acc> inner;
  } taps;
  for (int64_t tile = blockIdx.x; tile < tiles.grid.count; tile += gridDim.x) {
    const TileAt at = tile_at(tiles.grid, tile);
    const CropMap& map = p.maps[at.sample];
    if (map.image < 0 || p.height == 0 || p.width == 0) {
      fill_tile<T>(p, tiles, at);
      continue;
    }
    if (mode == Interpolation::kNearest || map.integral) {
      crop_tile<T>(p, map, tiles, at, taps.copied);
      continue;
    }
    if constexpr (mode == Interpolation::kBilinear) {
      const int64_t right = int64_t{at.x} + tiles.grid.width, down = int64_t{at.y} + kTileRows;
      const int64_t last_x = (right < p.patch_width ? right : p.patch_width) - 1;
      const int64_t last_y = (down < p.patch_height ? down : p.patch_height) - 1;
      if (tiles.has_inner && has_inner_taps(map.x, at.x, last_x, p.width) &&
          has_inner_taps(map.y, at.y, last_y, p.height)) {
        crop_inner_tile<T>(p, map, tiles, at, taps.inner);
        continue;
      }
    }
    crop_tile<T>(p, map, tiles, at, taps.blended);
  }
}

// Tiles of even width, a multiple of a piece's.
CropTiles crop_tiles(const RoiCropParams& p) {
  const int64_t across = parts_of(p.patch_width, kMostColumns);
  const int64_t pieces = parts_of(p.patch_width, across * kPiece);
  const int64_t size = element_size(p.dtype), bytes = size * kPiece < 16 ? size * kPiece : 16;
  const Strides &from = p.image_stride, &to = p.patch_stride;
  const auto divides = [&](int64_t elements) { return elements * size % bytes == 0; };
  CropTiles tiles;
  tiles.grid = tile_grid(p.boxes.count, p.patch_height, p.patch_width, kTileRows,
                         static_cast<int>(pieces * kPiece));
  tiles.columns = divisor_of<int32_t>(pieces * kPiece);
  tiles.pieces = divisor_of<int32_t>(pieces);
  tiles.has_inner = from.column == 1 && to.column == 1 && p.channels < kInnerLimit &&
                    has_small_offsets(p.height, p.width, from.row, from.column) &&
                    has_small_offsets(p.patch_height, p.patch_width, to.row, to.column);
  tiles.is_aligned = reinterpret_cast<uintptr_t>(p.patches) % static_cast<uintptr_t>(bytes) == 0 &&
                     divides(to.batch) && divides(to.channel) && divides(to.row);
  return tiles;
}

template <class T, Interpolation mode>
void crops_as(const RoiCropParams& p, void* stream) {
  const CropTiles tiles = crop_tiles(p);
  launch(roi_crops<T, mode>, grid_for(tiles.grid.count), dim3(kTileThreads), 0, stream, p, tiles);
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
