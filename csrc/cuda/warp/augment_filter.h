// antialias where maps are upright; NOTE [ Upright filter on CUDA ].
//
// NOTE [ Upright filter on CUDA ]
// A filter of n x n taps is separable, and NOTE [ One augmented pixel ] sums tap rows first: for a
// tap column j, v_j = sum_i wy_i p_ij. Where the map is upright, all pixels of an output row have
// the same wy and share their tap columns. So a warp takes 32 pixels of a row. Each of its lanes
// sums two columns of the source, from top to bottom, into shared memory, kFilterColumns at a time;
// then each lane adds those to its pixel that are its taps, from left to right. Sums have the terms
// and the order of augment_forward(), and so its bits.
//
// Weights of a row's taps are computed once, and lie in shared memory with the places of their
// rows. Loads of a warp are of one source row, side by side, for planar and interleaved images
// alike. An element is read by as many warps as output rows have it as a tap (two, or four), most
// of them in one block; and by neighbours where their columns meet.
//
// In integers (IntegerPiece) a lane sums four elements of a row at once, and takes two tap rows at
// a time: loads are of 32 bits, and a dot product of two 16-bit weights with two bytes is exact.
// Weights of tap columns are computed once for all rows of the tile.
#pragma once

#include "core/element_types.h"
#include "cuda/warp/augment_filter_integers.h"
#include "cuda/warp/augment_modes.h"

namespace visops {
namespace {

constexpr int kFilterColumns = 2 * kWarp;  // tap columns that a warp sums at a time
constexpr int kFilterTaps = 64;            // tap rows whose weights a warp holds

// A warp's part of shared memory. Where the sample is filtered in integers, it holds their sums.
template <class Acc>
struct alignas(16) FilterScratch {
  int64_t offset[kFilterTaps];  // of tap rows, in bytes
  Acc weight[kFilterTaps];
  uint64_t column[kPixelGroup * kFilterColumns * sizeof(Acc) / sizeof(uint64_t)];
  int32_t end;  // of the tap columns that the warp's pixels have
};
static_assert(sizeof(FilterScratch<float>::column) >= kStaged * sizeof(uint64_t),
              "output is staged there");
static_assert(sizeof(FilterScratch<float>::column) >= kIntegerSums * sizeof(int32_t),
              "integer sums lie there");

// The element `offset` bytes on, as a term of the sums.
template <class T, class Acc>
__device__ inline Acc filter_element(const char* from, int64_t offset) {
  const T element = load_readonly(reinterpret_cast<const T*>(from + offset));
  return static_cast<Acc>(load_element(&element));
}

// Some pixels of an output row, as a warp sees them.
template <class T, Interpolation mode>
struct FilterPiece {
  using Acc = typename Accumulate<T>::type;
  const AugmentParams& p;
  const FilterTile<T, false>& tile;
  FilterScratch<Acc>* scratch;
  int row, lane;

  __device__ Acc* columns() const { return reinterpret_cast<Acc*>(scratch->column); }

  // Weights and places of up to kFilterTaps tap rows, from tap `from` on.
  __device__ void load_rows(int32_t from) const {
    const FilterTaps<Acc>& taps = tile.row[row].taps;
    for (int32_t i = lane; i < kFilterTaps && from + i < taps.count; i += kWarp) {
      const int32_t k = taps.first + from + i;
      scratch->weight[i] = filter_tap<mode>(taps, k) * taps.norm;
      scratch->offset[i] = filter_index(tile.y[row], tile.sample.y, p.padding, k) *
                           tile.sample.image.row_stride * int64_t{sizeof(T)};
    }
  }

  // Sums tap columns [from, from + kFilterColumns) of `count` channels.
  __device__ void sum_columns(const char* image, int count, int32_t from) const {
    const int32_t taps = tile.row[row].taps.count;
    const int step = step_of(count);
    for (int k = lane; k < count * kFilterColumns; k += 2 * kWarp) {
      const char* const one = image + position(k, step, from);
      const char* const two = image + position(k + kWarp, step, from);
      Acc sum_one = 0, sum_two = 0;
      for (int32_t first = 0; first < taps; first += kFilterTaps) {
        if (taps > kFilterTaps) {
          __syncwarp();  // all lanes have read the last weights
          load_rows(first);
          __syncwarp();  // these are there
        }
        const int32_t left = taps - first, some = left < kFilterTaps ? left : kFilterTaps;
#pragma unroll 4
        for (int32_t i = 0; i < some; ++i) {
          const Acc weight = scratch->weight[i];
          const int64_t offset = scratch->offset[i];
          sum_one = sum_one + weight * filter_element<T, Acc>(one, offset);
          sum_two = sum_two + weight * filter_element<T, Acc>(two, offset);
        }
      }
      columns()[k] = sum_one;
      columns()[k + kWarp] = sum_two;
    }
  }

  // `count` channels, before they are blended with fill; `column` is the tile's, and only lanes
  // that are `inside` need a value. `image` is the plane of the first channel.
  __device__ void filter(const char* image, int count, int column, bool inside,
                         Acc value[kPixelGroup]) const {
    const FilterLine<Acc>& line = tile.column[column];
    const int32_t wanted = inside ? line.taps.count : 0;
    const int32_t end = end_of_warp(line.taps.first, wanted);
    if (lane == 0) scratch->end = end;
    for (int c = 0; c < kPixelGroup; ++c) value[c] = static_cast<Acc>(0);
    load_rows(0);
    __syncwarp();  // weights and the end are there
    for (int32_t done = 0;;) {
      const int32_t next = line.taps.first + done;
      const int32_t from = least_of_warp(done < wanted ? next : INT32_MAX);
      if (from == INT32_MAX) break;
      sum_columns(image, count, from);
      __syncwarp();  // columns are there
      const FilterTaps<Acc> taps = line.taps;
      const int step = step_of(count);
      for (; done < wanted; ++done) {
        const uint32_t k = static_cast<uint32_t>(taps.first + done) - static_cast<uint32_t>(from);
        if (k >= kFilterColumns) break;
        const Acc weight = filter_tap<mode>(taps, taps.first + done) * taps.norm;
        const Acc* const at = columns() + static_cast<int>(k) * (step > 0 ? step : 1);
        for (int c = 0; c < kPixelGroup; ++c) {
          if (c >= count) break;
          value[c] = value[c] + weight * at[step > 0 ? c : c * kFilterColumns];
        }
      }
      __syncwarp();  // all lanes have read, before others take the columns' place
    }
  }

 private:
  // How sums of `count` channels lie: element k is of column k / step and channel k % step; or of
  // k % kFilterColumns and k / kFilterColumns if the image's planes lie apart (step is 0).
  __device__ int step_of(int count) const {
    return tile.sample.image.channel_stride == 1 ? count : 0;
  }

  // Where in the image element k of the sums begins, in bytes.
  __device__ int64_t position(int k, int step, int32_t from) const {
    const AugmentImage& image = tile.sample.image;
    const int column = step > 0 ? k / step : k % kFilterColumns;
    const int channel = step > 0 ? k - column * step : k / kFilterColumns;
    // What lies beyond the last tap does not matter.
    const int32_t last = scratch->end - 1, tap = from + column < last ? from + column : last;
    return (filter_index(tile.x, tile.sample.x, p.padding, tap) * image.column_stride +
            channel * image.channel_stride) *
           int64_t{sizeof(T)};
  }
};

template <Interpolation mode, class T, bool integers, class Acc>
__device__ void filter_group(const AugmentParams& p, const FilterTile<T, integers>& tile, int row,
                             int column, bool inside, int64_t first, int count,
                             FilterScratch<Acc>* scratch, Acc value[kPixelGroup]) {
  const AugmentImage& image = tile.sample.image;
  const char* const plane =
      static_cast<const char*>(image.data) + first * image.channel_stride * int64_t{sizeof(T)};
  const int lane = column % kWarp;
  if constexpr (integers) {
    auto* const sums = reinterpret_cast<int32_t*>(scratch->column);
    const IntegerPiece piece = {tile, sums, row, lane, count, plane};
    piece.filter(column, inside, value);
  } else {
    const FilterPiece<T, mode> piece = {p, tile, scratch, row, lane};
    piece.filter(plane, count, column, inside, value);
  }
}

// How much of a pixel is not the window's.
template <class T, bool integers, class Acc = typename Accumulate<T>::type>
__device__ Acc uncovered(const AugmentParams& p, const FilterTile<T, integers>& tile, int row,
                         int column) {
  if (!blends_edge(p, tile.sample)) return static_cast<Acc>(0);
  return static_cast<Acc>(1) - tile.column[column].cover * tile.row[row].cover;
}

// This thread's pixel: `row` and `column` of the tile. What follows from them is computed again
// after the filter, which needs the registers.
template <Interpolation mode, class T, bool integers, class Acc>
__device__ void filter_pixel_at(const AugmentParams& p, const FilterTile<T, integers>& tile,
                                int row, int column, FilterScratch<Acc>* scratch) {
  const auto is_erased_here = [&] {
    return tile.erased && is_erased(p, tile.index, tile.left + column, tile.top + row);
  };
  for (int first = 0; first < p.channels; first += kPixelGroup) {
    const ChannelGroup<0> channels = {first, group_size(p, first)};
    const int count = channels.count();
    Acc value[kPixelGroup] = {};
    const bool inside = tile.left + column < p.output_width && !is_erased_here() &&
                        uncovered(p, tile, row, column) < static_cast<Acc>(1);
    filter_group<mode>(p, tile, row, column, inside, first, count, scratch, value);
    const Acc out = uncovered(p, tile, row, column);
    for (int c = 0; c < kPixelGroup; ++c) {
      if (c >= count) break;
      value[c] = blend_fill(value[c], tile.values.fill[value_index(p, first + c)], out);
    }
    if (p.color_steps > 0) {
      color_group(p, tile.plan, p.color_steps, static_cast<int>(p.channels), value);
    }
    finish_group(p, tile.values, channels, is_erased_here(), value);
    const PixelOutput output =
        pixel_output(output_layout(p), tile.words, tile.index, tile.top + row, tile.left + column);
    store_group(p, output, channels, value, scratch->column);
  }
}

template <class T, Interpolation mode, bool integers>
__global__ void __launch_bounds__(kFilterThreads, 4)
    augment_filter(const __grid_constant__ AugmentParams p, const TileGrid grid,
                   const int64_t first) {
  using Acc = typename Accumulate<T>::type;
  __shared__ FilterTile<T, integers> tile;
  __shared__ FilterScratch<Acc> scratch[kFilterThreads / kWarp];
  constexpr SampleKind kMine = integers ? SampleKind::kIntegers : SampleKind::kUpright;
  const TileAt at = tile_at(grid, first + blockIdx.x);
  if (kind_of(p.samples[at.sample]) != kMine) return;
  prepare_filter<mode>(p, grid, at, &tile);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  constexpr int kPieces = kTileWidth / kWarp;  // of a row
  for (int piece = warp; piece < kPieces * kFilterRows; piece += kFilterThreads / kWarp) {
    const int row = piece / kPieces, column = piece % kPieces * kWarp;
    if (tile.top + row >= p.output_height || tile.left + column >= p.output_width) continue;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    filter_pixel_at<mode>(p, tile, row, column + lane, &scratch[warp]);
  }
}

template <class T, Interpolation mode, bool integers>
void filter_as(const AugmentParams& p, void* stream) {
  const TileGrid grid = tile_grid(p.batch, p.output_height, p.output_width, kFilterRows);
  each_grid(grid.count, [&](int64_t first, dim3 blocks) {
    launch(augment_filter<T, mode, integers>, blocks, dim3(kFilterThreads), 0, stream, p, grid,
           first);
  });
}

}  // namespace

template <Slot slot, Interpolation mode>
void launch_augment_filter(const AugmentParams& p, void* stream) {
  if (may_have(p, SampleKind::kUpright)) {
    with_element_type(p.dtype, [&](auto* element) {
      filter_as<std::remove_pointer_t<decltype(element)>, mode, false>(p, stream);
    });
  }
  if (p.dtype == DType::kUInt8 && p.integers && may_have(p, SampleKind::kIntegers)) {
    filter_as<uint8_t, mode, true>(p, stream);
  }
}

}  // namespace visops
