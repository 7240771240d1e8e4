// NOTE [ Separable filters on CUDA ]
// A block has a tile of a channel. It reads what the tile and its rim need into shared memory, as
// float32, filters the rows where they are, and sums down the columns. A thread has eight
// neighbours of a row, then four of each of four columns (NOTE [ Windows ] in
// cuda/convolution/window.h). Sums in pairs go outwards from the middle.
//
// Weights travel by value. If they differ between images, a launch takes as many images as fit.
//
// Rounding: NOTE [ Separable filters ] (core/pixels/filters/filter.h), without contraction
// (-fmad=false): the bits of the CPU.
#include <algorithm>

#include "core/images/pixel.h"
#include "core/numbers/arithmetic.h"
#include "core/pixels/filters/filter.h"
#include "cuda/byte_products.h"
#include "cuda/convolution/window.h"

namespace visops {
namespace {

constexpr int kTileWidth = 64, kTileHeight = 64;
constexpr int kLanes = 32, kThreads = 128, kWarps = kThreads / kLanes;
constexpr int kAlong = 8;                     // of a thread in a row
constexpr int kDown = 4;                      // of a thread in each of four columns
constexpr int kQuads = kTileWidth / kQuad;    // of a row of the tile
constexpr int kAcross = kTileWidth / kAlong;  // threads of a row
constexpr int kBeside = 2;                    // rows of a thread
constexpr int kWarpRows = kLanes / kAcross * kBeside;
constexpr int kRound = kThreads / kQuads * kDown;  // rows that all threads have at once
constexpr int kMost = static_cast<int>(kMostFilterTaps + 3) / kQuad * kQuad;
#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostWeights = 2 * static_cast<int>(kMostFilterTaps);  // tests see several launches
#else
constexpr int kMostWeights = 768;
#endif
static_assert(kTileWidth == 2 * kLanes, "a lane has two columns, in pairs");
static_assert(kTileHeight % kRound == 0, "threads share the tile");

struct FilterTiles {
  Divisor<int32_t> across;  // of a channel
  int32_t count;            // of a channel
  int64_t channels;         // of all images
  int32_t height, width;    // of a channel
  bool aligned;             // quads of the images
  QuadLines lines;
};

// Rows that so many of a tile need: those of whole threads, and of whole warps.
VISOPS_FN int rows_read(unsigned own, unsigned column_taps) {
  const auto round_up = [](unsigned count, unsigned to) { return (count + to - 1) / to * to; };
  const unsigned beyond = (column_taps + kQuad - 2) / kQuad * kQuad;
  return static_cast<int>(round_up(round_up(own, kDown) + beyond, kWarpRows));
}

struct FilterWeights {
  int64_t first, count;           // images
  bool shared;                    // one set for all of them
  bool copies[kMostWeights / 2];  // of [sets]: weights that leave an image as it is
  float weight[kMostWeights];     // [sets, row_taps + column_taps]
};

// Where four neighbours of a row are.
struct Columns {
  int32_t at[kQuad];
  bool together;  // an aligned quad
};

// An aligned quad.
template <class T>
__device__ Quad<float> load_quad(const T* from) {
  const Quad<T> quad = *reinterpret_cast<const Quad<T>*>(from);
  Quad<float> values;
  for (int i = 0; i < kQuad; ++i) values.value[i] = load_element(&quad.value[i]);
  return values;
}
__device__ inline Quad<float> load_quad(const uint8_t* from) {
  const uint32_t word = load_readonly(reinterpret_cast<const uint32_t*>(from));
  Quad<float> values;
  for (int i = 0; i < kQuad; ++i) values.value[i] = offset_byte(word, i) - kByteOffset;
  return values;
}

// Reads rows of values from (y, x) on, mirrored at the rim.
template <class T>
__device__ void load_tile(const T* channel, int32_t y, int32_t x, const FilterTiles& tiles,
                          int rows, float* to) {
  const int32_t height = tiles.height, width = tiles.width;
  const bool aligned = tiles.aligned;
  const auto place = [=](int column) {
    const int32_t first = x + column;
    Columns columns = {{first}, aligned && first >= 0 && first + kQuad <= width};
    if (columns.together) return columns;
    for (int i = 0; i < kQuad; ++i) columns.at[i] = mirrored(first + i, width);
    return columns;
  };
  const auto row = [=](int number) {
    return channel + int64_t{mirrored(y + number, height)} * width;
  };
  const auto load = [](const Columns& columns, const T* from) {
    if (columns.together) return load_quad(from + columns.at[0]);
    Quad<T> quad;
    for (int i = 0; i < kQuad; ++i) quad.value[i] = load_readonly(from + columns.at[i]);
    Quad<float> values;
    for (int i = 0; i < kQuad; ++i) values.value[i] = load_element(&quad.value[i]);
    return values;
  };
  load_lines(tiles.lines, rows, place, row, load, to);
}

template <class T>
__device__ void copy_tile(const FilterTiles& tiles, const T* from, int32_t y, int32_t x, T* to) {
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kTileHeight * kTileWidth; i += kThreads) {
    const int32_t row = y + i / kTileWidth, column = x + i % kTileWidth;
    const int64_t at = int64_t{row} * tiles.width + column;
    if (row < tiles.height && column < tiles.width) to[at] = from[at];
  }
}

// sums[i] = the sum in pairs over taps of weights[k] value(i, k), each number of it by itself.
template <int count, int width, class Value>
__device__ void add_pairs(const float* weights, int taps, const Value& value,
                          Several<float, width> (&sums)[count]) {
  const int middle = taps >> 1;
  for (int i = 0; i < count; ++i) {
    const auto own = value(i, middle);
    for (int j = 0; j < width; ++j) sums[i].value[j] = weights[middle] * own.value[j];
  }
  for (int k = 1; k <= middle; ++k) {
    const float weight = weights[middle + k];
    for (int i = 0; i < count; ++i) {
      const auto before = value(i, middle - k), after = value(i, middle + k);
      for (int j = 0; j < width; ++j) {
        sums[i].value[j] += weight * (before.value[j] + after.value[j]);
      }
    }
  }
}

// A sum that begins with -0 instead of 0 differs only in being -0 itself where all its products
// are: compilers see that adding the first of them changes nothing. Of sums of such sums it is
// enough to add 0 to the last, and integers have no sign to their 0.
template <int count, int width>
__device__ void begin_sums(Several<float, width> (&sums)[count]) {
  for (auto& sum : sums) {
    for (auto& value : sum.value) value = -0.0f;
  }
}
template <class T, int count, int width>
__device__ void end_sums(Several<float, width> (&sums)[count]) {
  if constexpr (!std::is_integral_v<T>) {
    for (auto& sum : sums) {
      for (auto& value : sum.value) value += 0.0f;
    }
  }
}

__device__ inline Quad<float>* quad_at(float* values) {
  return reinterpret_cast<Quad<float>*>(values);
}
__device__ inline const Quad<float>& quad_at(const float* values) {
  return *reinterpret_cast<const Quad<float>*>(values);
}

// Filters rows of values, a multiple of kWarpRows, each in its place.
__device__ inline void filter_rows(float* values, int stride, int rows, const float* weights,
                                   int taps) {
  constexpr int kApart = kWarpRows / kBeside;  // rows of a thread
  const WarpPlace<kAcross> place(static_cast<int>(threadIdx.x % kLanes));
  for (int first = static_cast<int>(threadIdx.x / kLanes) * kWarpRows; first < rows;
       first += kWarps * kWarpRows) {
    float* const own = values + (first + place.line) * stride + place.turn * kAlong;
    const auto load = [&](int at) {
      return quads_at<kBeside>(static_cast<const float*>(own + at), kApart * stride);
    };
    Several<float, kBeside> sums[kAlong];
    begin_sums(sums);
    add_window(weights, taps, load, sums);
    __syncwarp();  // all lanes have read the rows
#pragma unroll
    for (int line = 0; line < kBeside; ++line) {
#pragma unroll
      for (int i = 0; i < kAlong; i += kQuad) {
        Quad<float> quad;
        for (int j = 0; j < kQuad; ++j) quad.value[j] = sums[i + j].value[line];
        *quad_at(own + line * kApart * stride + i) = quad;
      }
    }
  }
}

__device__ inline void filter_rows_in_pairs(float* values, int stride, int rows,
                                            const float* weights, int taps) {
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  for (int row = static_cast<int>(threadIdx.x / kLanes); row < rows; row += kWarps) {
    float* const own = values + row * stride + lane;
    Several<float, 2> sums[1];
    const auto value = [&](int, int k) -> Several<float, 2> { return {own[k], own[k + kLanes]}; };
    add_pairs(weights, taps, value, sums);
    __syncwarp();  // all lanes have read the row
    for (int i = 0; i < 2; ++i) own[i * kLanes] = sums[0].value[i];
  }
}

// Sums down the columns, and stores the tile.
template <class T>
__device__ void filter_columns(const FilterTiles& tiles, const float* values, const float* weights,
                               int taps, bool pairs, int32_t y, int32_t x, T* to) {
  const int stride = tiles.lines.stride, quad = static_cast<int>(threadIdx.x % kQuads);
  const int32_t column = x + quad * kQuad, left = tiles.width - column;
  if (left <= 0) return;
  int32_t row = y + static_cast<int>(threadIdx.x / kQuads) * kDown;
  const float* from = values + (row - y) * stride + quad * kQuad;
  const int32_t end = y + kTileHeight < tiles.height ? y + kTileHeight : tiles.height;
#pragma unroll 1
  for (; row < end; row += kRound, from += kRound * stride) {
    Quad<float> sums[kDown];
    if (pairs) {
      const auto value = [&](int i, int k) { return quad_at(from + (i + k) * stride); };
      add_pairs(weights, taps, value, sums);
    } else {
      const auto load = [&](int at) {
        Quad<Quad<float>> quads;
        for (int i = 0; i < kQuad; ++i) quads.value[i] = quad_at(from + (at + i) * stride);
        return quads;
      };
      begin_sums(sums);
      add_window(weights, taps, load, sums);
      end_sums<T>(sums);
    }
    T* out = to + int64_t{row} * tiles.width + column;
#pragma unroll
    for (int i = 0; i < kDown; ++i, out += tiles.width) {
      if (row + i >= end) break;
      Quad<T> results;
      for (int j = 0; j < kQuad; ++j) store_element(&results.value[j], sums[i].value[j]);
      store_quad(results, left, tiles.aligned, 0, out);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    filter_separable(const __grid_constant__ SeparableParams p,
                     const __grid_constant__ FilterWeights weights,
                     const __grid_constant__ FilterTiles tiles) {
  __shared__ __align__(16) float row[kMost], column[kMost];
  const int row_taps = static_cast<int>(p.row_taps), column_taps = static_cast<int>(p.column_taps);
  const int stride = tiles.lines.stride;
  float* const values = dynamic_shared<float>() + kQuad;
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t channel = blockIdx.y; channel < tiles.channels; channel += gridDim.y) {
    const int64_t set = weights.shared ? 0 : channel / p.channels;
    const float* const weight = weights.weight + set * (row_taps + column_taps);
    const int64_t position = (weights.first * p.channels + channel) * p.pixels();
    const T* const from = static_cast<const T*>(p.images) + position;
    T* const to = static_cast<T*>(p.output) + position;
    for (int32_t tile = static_cast<int32_t>(blockIdx.x); tile < tiles.count;
         tile += static_cast<int32_t>(gridDim.x)) {
      const int32_t of_row = tiles.across.divide(tile);
      const int32_t y = of_row * kTileHeight;
      const int32_t x = (tile - of_row * tiles.across.value) * kTileWidth;
      if (weights.copies[set]) {
        copy_tile(tiles, from, y, x, to);
        continue;
      }
      if (thread < kMost) {
        row[thread] = thread < row_taps ? weight[thread] : 0.0f;
        column[thread] = thread < column_taps ? weight[row_taps + thread] : 0.0f;
      }
      const int32_t below = tiles.height - y;
      const int rows = rows_read(below < kTileHeight ? below : kTileHeight, column_taps);
      load_tile(from, y - (column_taps >> 1), x - (row_taps >> 1), tiles, rows, values);
      __syncthreads();
      if (p.pairs) {
        filter_rows_in_pairs(values, stride, rows, row, row_taps);
      } else {
        filter_rows(values, stride, rows, row, row_taps);
      }
      __syncthreads();
      filter_columns(tiles, values, column, column_taps, p.pairs, y, x, to);
      __syncthreads();  // before the next tile's weights replace these
    }
  }
}

FilterTiles filter_tiles(const SeparableParams& p, int64_t images) {
  const int64_t across = parts_of(p.width, kTileWidth), down = parts_of(p.height, kTileHeight);
  FilterTiles tiles;
  tiles.across = divisor_of<int32_t>(across);
  tiles.count = static_cast<int32_t>(across * down);
  tiles.channels = images * p.channels;
  tiles.height = static_cast<int32_t>(p.height);
  tiles.width = static_cast<int32_t>(p.width);
  const auto is_aligned = [&](const void* data) {
    return reinterpret_cast<uintptr_t>(data) % (kQuad * element_size(p.dtype)) == 0;
  };
  tiles.aligned = p.width % kQuad == 0 && is_aligned(p.images) && is_aligned(p.output);
  tiles.lines = quad_lines<kThreads, float>(-(p.row_taps / 2), kQuads + quads_beyond(p.row_taps),
                                            tiles.aligned);
  return tiles;
}

void launch_part(const SeparableParams& p, const FilterWeights& weights, Workspace& workspace) {
  constexpr int64_t kMostChannels = kMostBlocks < 65535 ? kMostBlocks : 65535;  // of a grid
  const FilterTiles tiles = filter_tiles(p, weights.count);
  const int64_t channels = std::min(tiles.channels, kMostChannels);
  const dim3 grid(grid_for(tiles.count).x, static_cast<unsigned>(channels));
  const int64_t floats = elements_of(tiles.lines, rows_read(kTileHeight, p.column_taps));
  with_filter_type(p.dtype, [&](auto* type) {
    launch(filter_separable<std::remove_pointer_t<decltype(type)>>, grid, dim3(kThreads),
           static_cast<size_t>(floats) * sizeof(float), workspace.stream(), p, weights, tiles);
  });
}

void separable_cuda(const SeparableParams& p, Workspace& workspace) {
  const int64_t taps = p.row_taps + p.column_taps;
  const bool shared = p.sets == 1;
  const int64_t at_once = shared ? p.batch : kMostWeights / taps;
  for (int64_t first = 0; first < p.batch; first += at_once) {
    FilterWeights weights = {};
    weights.first = first;
    weights.count = std::min(at_once, p.batch - first);
    weights.shared = shared;
    for (int64_t i = 0; i < (shared ? 1 : weights.count); ++i) {
      float* const to = weights.weight + i * taps;
      weights.copies[i] = copies_images(p, first + i);
      std::copy_n(p.rows + (first + i) * p.row_taps, p.row_taps, to);
      std::copy_n(p.columns + (first + i) * p.column_taps, p.column_taps, to + p.row_taps);
    }
    launch_part(p, weights, workspace);
  }
}

const bool registered = separable_stub.set(kCudaSlot, separable_cuda);

}  // namespace
}  // namespace visops
