// NOTE [ Separable filters on CUDA ]
// A block has a tile of a channel. It reads what the tile and its rim need into shared memory, as
// float32, filters the rows into a second part of it, and sums down the columns. Four sums of a
// thread share each weight.
//
// Weights travel by value. If they differ between images, a launch takes as many images as fit.
//
// Rounding: NOTE [ Separable filters ] (core/convolution/separable.h), without contraction
// (-fmad=false): the bits of the CPU.
#include <algorithm>

#include "core/convolution/separable.h"
#include "core/numbers/ceil_div.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kTileWidth = 64, kTileHeight = 32;
constexpr int kLanes = 32, kThreads = 256, kWarps = kThreads / kLanes;
constexpr int kSums = 4;  // of a thread at once
constexpr int kMost = static_cast<int>(kMostFilterTaps);
#if defined(VISOPS_SMALL_CONSTANTS)
constexpr int kMostWeights = 2 * kMost;  // so that tests see several launches
#else
constexpr int kMostWeights = 768;
#endif
static_assert(kTileWidth == 2 * kLanes, "a lane has two columns");
static_assert(kTileHeight * kTileWidth % (kThreads * kSums) == 0, "threads have whole sums");

struct FilterWeights {
  int64_t first, count;           // images
  bool shared;                    // one set for all of them
  bool copies[kMostWeights / 2];  // of [sets]: weights that leave an image as it is
  float weight[kMostWeights];     // [sets, row_taps + column_taps]
};

// Reads rows of values from (y, x) on, mirrored at the rim.
template <class T>
__device__ void load_tile(const SeparableParams& p, const T* channel, int32_t y, int32_t x,
                          int rows, int columns, float* to) {
  const auto height = static_cast<int32_t>(p.height), width = static_cast<int32_t>(p.width);
  const bool inside = x >= 0 && x + columns <= width;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int row = static_cast<int>(threadIdx.x) / kLanes; row < rows; row += kWarps) {
    const T* const line = channel + mirrored(y + row, height) * p.width;
    for (int column = lane; column < columns; column += kLanes) {
      const int32_t from = inside ? x + column : mirrored(x + column, width);
      to[row * columns + column] = load_element(line + from);
    }
  }
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

// sums[i] = the sum over taps of weights[k] value(i, k).
template <class Value>
__device__ void add_taps(const float* weights, int taps, bool pairs, float (&sums)[kSums],
                         const Value& value) {
  if (pairs) {
    const int middle = taps / 2;
    for (int i = 0; i < kSums; ++i) sums[i] = weights[middle] * value(i, middle);
    for (int k = 1; k <= middle; ++k) {
      const float weight = weights[middle + k];
      for (int i = 0; i < kSums; ++i) {
        sums[i] += weight * (value(i, middle - k) + value(i, middle + k));
      }
    }
    return;
  }
  for (int i = 0; i < kSums; ++i) sums[i] = 0.0f;
  for (int k = 0; k < taps; ++k) {
    const float weight = weights[k];
    for (int i = 0; i < kSums; ++i) sums[i] += weight * value(i, k);
  }
}

// Filters rows of `stride` values into rows of kTileWidth.
__device__ inline void filter_rows(const float* values, int stride, int rows, const float* weights,
                                   int taps, bool pairs, float* to) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int row = static_cast<int>(threadIdx.x) / kLanes; row < rows; row += 2 * kWarps) {
    const int other = row + kWarps < rows ? row + kWarps : row;
    const float* const upper = values + row * stride + lane;
    const float* const lower = values + other * stride + lane;
    float sums[kSums];
    add_taps(weights, taps, pairs, sums,
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
                               int taps, int64_t y, int64_t x, T* channel) {
  constexpr int kRowsAtOnce = kThreads / kTileWidth;
  const int column = static_cast<int>(threadIdx.x) % kTileWidth;
  for (int first = static_cast<int>(threadIdx.x) / kTileWidth; first < kTileHeight;
       first += kSums * kRowsAtOnce) {
    const float* const from = values + first * kTileWidth + column;
    float sums[kSums];
    add_taps(weights, taps, p.pairs, sums,
             [&](int i, int k) { return from[(k + i * kRowsAtOnce) * kTileWidth]; });
    if (x + column >= p.width) continue;
    for (int i = 0; i < kSums; ++i) {
      const int64_t row = y + first + i * kRowsAtOnce;
      if (row < p.height) store_element(channel + row * p.width + x + column, sums[i]);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    filter_separable(const __grid_constant__ SeparableParams p,
                     const __grid_constant__ FilterWeights weights, const int64_t across,
                     const int64_t down, const int64_t tiles) {
  __shared__ float row[kMost], column[kMost];
  const int row_taps = static_cast<int>(p.row_taps), column_taps = static_cast<int>(p.column_taps);
  const int rows = kTileHeight + column_taps - 1, columns = kTileWidth + row_taps - 1;
  float* const values = dynamic_shared<float>();
  float* const sums = values + rows * columns;
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t channel = tile / (across * down);
    const auto y = static_cast<int32_t>(tile / across % down * kTileHeight);
    const auto x = static_cast<int32_t>(tile % across * kTileWidth);
    const int64_t set = weights.shared ? 0 : channel / p.channels;
    const float* const own = weights.weight + set * (row_taps + column_taps);
    const int64_t position = (weights.first * p.channels + channel) * p.pixels();
    if (weights.copies[set]) {
      copy_tile(p, static_cast<const T*>(p.images) + position, y, x,
                static_cast<T*>(p.output) + position);
      continue;
    }
    if (thread < row_taps) row[thread] = own[thread];
    if (thread < column_taps) column[thread] = own[row_taps + thread];
    load_tile(p, static_cast<const T*>(p.images) + position, y - column_taps / 2, x - row_taps / 2,
              rows, columns, values);
    __syncthreads();
    filter_rows(values, columns, rows, row, row_taps, p.pairs, sums);
    __syncthreads();
    filter_columns(p, sums, column, column_taps, y, x, static_cast<T*>(p.output) + position);
    __syncthreads();  // before the next tile's weights replace these
  }
}

void launch_part(const SeparableParams& p, const FilterWeights& weights, Workspace& workspace) {
  const int64_t across = parts_of(p.width, kTileWidth), down = parts_of(p.height, kTileHeight);
  const int64_t tiles = weights.count * p.channels * across * down;
  const int64_t rows = kTileHeight + p.column_taps - 1;
  const int64_t floats = rows * (kTileWidth + p.row_taps - 1 + kTileWidth);
  with_filter_type(p.dtype, [&](auto* type) {
    launch(filter_separable<std::remove_pointer_t<decltype(type)>>, grid_for(tiles), dim3(kThreads),
           static_cast<size_t>(floats) * sizeof(float), workspace.stream(), p, weights, across,
           down, tiles);
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
