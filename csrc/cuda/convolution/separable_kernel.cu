// NOTE [ Separable filters on CUDA ]
// A block has a tile of a channel. It reads what the tile and its rim need into shared memory, as
// float32, filters the rows into a second part of it, and sums down the columns. A thread has four
// neighbours of a row, then eight of a column (NOTE [ Windows ] in cuda/convolution/window.h). Sums
// in pairs go outwards from the middle: there, four sums of a thread share each weight.
//
// Weights travel by value. If they differ between images, a launch takes as many images as fit.
//
// Rounding: NOTE [ Separable filters ] (core/pixels/filters/separable.h), without contraction
// (-fmad=false): the bits of the CPU.
#include <algorithm>

#include "core/images/image.h"
#include "core/numbers/ceil_div.h"
#include "core/pixels/filters/separable.h"
#include "cuda/convolution/window.h"

namespace visops {
namespace {

constexpr int kTileWidth = 64, kTileHeight = 32;
constexpr int kLanes = 32, kThreads = 256, kWarps = kThreads / kLanes;
constexpr int kSums = 4;                                    // of a thread at once, in pairs
constexpr int kDown = kTileHeight * kTileWidth / kThreads;  // of a thread in a column
constexpr int kMost = static_cast<int>(kMostFilterTaps + 3) / kQuad * kQuad;
#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostWeights = 2 * static_cast<int>(kMostFilterTaps);  // tests see several launches
#else
constexpr int kMostWeights = 768;
#endif
static_assert(kTileWidth == 2 * kLanes, "a lane has two columns");
static_assert(kDown % kSums == 0 && kDown % kQuad == 0, "threads have whole sums");

struct FilterTiles {
  Divisor<int32_t> across;  // of a channel
  int32_t count;            // of a channel
  int64_t channels;         // of all images
  int32_t rows;             // that a tile reads
  Divisor<int32_t> quads;   // of a row
};

struct FilterWeights {
  int64_t first, count;           // images
  bool shared;                    // one set for all of them
  bool copies[kMostWeights / 2];  // of [sets]: weights that leave an image as it is
  float weight[kMostWeights];     // [sets, row_taps + column_taps]
};

// Reads rows of values from (y, x) on, mirrored at the rim.
template <class T>
__device__ void load_tile(const SeparableParams& p, const T* channel, int32_t y, int32_t x,
                          const FilterTiles& tiles, float* to) {
  const auto height = static_cast<int32_t>(p.height), width = static_cast<int32_t>(p.width);
  const auto load = [&](int row, int column) {
    const T* const line = channel + mirrored(y + row, height) * p.width;
    const int32_t first = x + column;
    Quad<T> quad;
    if (first >= 0 && first + kQuad <= width) {
      for (int i = 0; i < kQuad; ++i) quad.value[i] = load_readonly(line + first + i);
    } else {
      for (int i = 0; i < kQuad; ++i) {
        int32_t at = first + i < 0 ? -(first + i) : first + i;
        at = at < width ? at : 2 * (width - 1) - at;
        if (at < 0) at = mirrored(at, width);  // of narrow images
        quad.value[i] = load_readonly(line + at);
      }
    }
    Quad<float> values;
    for (int i = 0; i < kQuad; ++i) values.value[i] = load_element(&quad.value[i]);
    return values;
  };
  store_quads<kThreads>(tiles.rows, tiles.quads, load, to);
}

template <class T>
__device__ void copy_tile(const SeparableParams& p, const T* from, int64_t y, int64_t x, T* to) {
  for (int i = static_cast<int>(threadIdx.x); i < kTileHeight * kTileWidth; i += kThreads) {
    const int64_t row = y + i / kTileWidth, column = x + i % kTileWidth;
    if (row < p.height && column < p.width) {
      to[row * p.width + column] = from[row * p.width + column];
    }
  }
}

// sums[i] = the sum in pairs over taps of weights[k] value(i, k).
template <class Value>
__device__ void add_pairs(const float* weights, int taps, float (&sums)[kSums],
                          const Value& value) {
  const int middle = taps / 2;
  for (int i = 0; i < kSums; ++i) sums[i] = weights[middle] * value(i, middle);
  for (int k = 1; k <= middle; ++k) {
    const float weight = weights[middle + k];
    for (int i = 0; i < kSums; ++i)
      sums[i] += weight * (value(i, middle - k) + value(i, middle + k));
  }
}

// Filters rows of `stride` values into rows of kTileWidth.
__device__ inline void filter_rows(const float* values, int stride, int rows, const float* weights,
                                   int taps, float* to) {
  constexpr int kQuads = kTileWidth / kQuad;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kQuads; i += kThreads) {
    const float* const from = values + i / kQuads * stride + i % kQuads * kQuad;
    Quad<float> sums = {};
    add_window(
        weights, taps, [&](int at) { return *reinterpret_cast<const Quad<float>*>(from + at); },
        sums.value);
    reinterpret_cast<Quad<float>*>(to)[i] = sums;
  }
}

__device__ inline void filter_rows_in_pairs(const float* values, int stride, int rows,
                                            const float* weights, int taps, float* to) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int row = static_cast<int>(threadIdx.x) / kLanes; row < rows; row += 2 * kWarps) {
    const int other = row + kWarps < rows ? row + kWarps : row;
    const float* const upper = values + row * stride + lane;
    const float* const lower = values + other * stride + lane;
    float sums[kSums];
    add_pairs(weights, taps, sums,
              [&](int i, int k) { return (i < 2 ? upper : lower)[k + (i % 2) * kLanes]; });
    to[row * kTileWidth + lane] = sums[0];
    to[row * kTileWidth + lane + kLanes] = sums[1];
    to[other * kTileWidth + lane] = sums[2];
    to[other * kTileWidth + lane + kLanes] = sums[3];
  }
}

// Sums down the columns, and stores the tile.
template <class T>
__device__ void filter_columns(const SeparableParams& p, const float* values, const float* weights,
                               int taps, int32_t y, int32_t x, T* channel) {
  const int column = static_cast<int>(threadIdx.x) % kTileWidth;
  const int first = static_cast<int>(threadIdx.x) / kTileWidth * kDown;
  const float* const from = values + first * kTileWidth + column;
  float sums[kDown] = {};
  if (p.pairs) {
#pragma unroll
    for (int i = 0; i < kDown; i += kSums) {
      float part[kSums];
      add_pairs(weights, taps, part, [&](int n, int k) { return from[(i + n + k) * kTileWidth]; });
      for (int n = 0; n < kSums; ++n) sums[i + n] = part[n];
    }
  } else {
    const auto load = [&](int at) {
      Quad<float> quad;
      for (int i = 0; i < kQuad; ++i) quad.value[i] = from[(at + i) * kTileWidth];
      return quad;
    };
    add_window(weights, taps, load, sums);
  }
  if (x + column >= p.width) return;
  T* to = channel + (y + first) * p.width + (x + column);
  const int64_t rows = p.height - y - first;
#pragma unroll
  for (int i = 0; i < kDown; ++i, to += p.width) {
    if (i < rows) store_element(to, sums[i]);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    filter_separable(const __grid_constant__ SeparableParams p,
                     const __grid_constant__ FilterWeights weights,
                     const __grid_constant__ FilterTiles tiles) {
  __shared__ __align__(16) float row[kMost], column[kMost];
  const int row_taps = static_cast<int>(p.row_taps), column_taps = static_cast<int>(p.column_taps);
  const int stride = tiles.quads.value * kQuad;
  float* const values = dynamic_shared<float>();
  float* const sums = values + tiles.rows * stride;
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t channel = blockIdx.y; channel < tiles.channels; channel += gridDim.y) {
    const int64_t set = weights.shared ? 0 : channel / p.channels;
    const float* const own = weights.weight + set * (row_taps + column_taps);
    const int64_t position = (weights.first * p.channels + channel) * p.pixels();
    const T* const from = static_cast<const T*>(p.images) + position;
    T* const to = static_cast<T*>(p.output) + position;
    for (int32_t tile = static_cast<int32_t>(blockIdx.x); tile < tiles.count;
         tile += static_cast<int32_t>(gridDim.x)) {
      const int32_t of_row = tiles.across.divide(tile);
      const int32_t y = of_row * kTileHeight;
      const int32_t x = (tile - of_row * tiles.across.value) * kTileWidth;
      if (weights.copies[set]) {
        copy_tile(p, from, y, x, to);
        continue;
      }
      if (thread < kMost) {
        row[thread] = thread < row_taps ? own[thread] : 0.0f;
        column[thread] = thread < column_taps ? own[row_taps + thread] : 0.0f;
      }
      load_tile(p, from, y - column_taps / 2, x - row_taps / 2, tiles, values);
      __syncthreads();
      if (p.pairs) {
        filter_rows_in_pairs(values, stride, tiles.rows, row, row_taps, sums);
      } else {
        filter_rows(values, stride, tiles.rows, row, row_taps, sums);
      }
      __syncthreads();
      filter_columns(p, sums, column, column_taps, y, x, to);
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
  tiles.rows = static_cast<int32_t>(kTileHeight + quads_beyond(p.column_taps) * kQuad);
  tiles.quads = divisor_of<int32_t>(kTileWidth / kQuad + quads_beyond(p.row_taps));
  return tiles;
}

void launch_part(const SeparableParams& p, const FilterWeights& weights, Workspace& workspace) {
  constexpr int64_t kMostChannels = kMostBlocks < 65535 ? kMostBlocks : 65535;  // of a grid
  const FilterTiles tiles = filter_tiles(p, weights.count);
  const int64_t channels = std::min(tiles.channels, kMostChannels);
  const dim3 grid(grid_for(tiles.count).x, static_cast<unsigned>(channels));
  const int64_t floats = int64_t{tiles.rows} * (tiles.quads.value * kQuad + kTileWidth);
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
