// A tiled product of matrices whose elements are looked up when needed.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "core/platform.h"

namespace visops {
namespace {

// A block computes kTileSide * kTileSide sums, kPerThread squared in each thread; shared memory
// holds kTileDepth columns and rows of the operands.
constexpr int kTileSide = 64, kTileDepth = 16, kPerThread = 4;
constexpr int kTileThreads = (kTileSide / kPerThread) * (kTileSide / kPerThread);

// Rounded once, under emulation too.
VISOPS_FN float multiply_add(float a, float b, float sum) { return fmaf(a, b, sum); }
VISOPS_FN double multiply_add(double a, double b, double sum) { return fma(a, b, sum); }
// uint16_t would be promoted to int, whose product may overflow.
VISOPS_FN uint16_t multiply_add(uint16_t a, uint16_t b, uint16_t sum) {
  return static_cast<uint16_t>(sum + static_cast<uint32_t>(a) * b);
}
VISOPS_FN uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t sum) { return sum + a * b; }
VISOPS_FN uint64_t multiply_add(uint64_t a, uint64_t b, uint64_t sum) { return sum + a * b; }

// Numbers that a thread reads at once: the fewer instructions read shared memory, the better.
template <class Value>
struct alignas(sizeof(Value) < 4 ? kPerThread * sizeof(Value) : 16) Neighbours {
  Value value[kPerThread];
};

// The tile that begins at (first_row, first_column): rows problem.row(m) times columns
// problem.column(j), summed in ascending depth. All threads of the block must call it.
//
// Lanes read adjacent rows or columns; where the left operand's numbers are adjacent `along_depth`,
// half a warp reads 16 of one row.
//
// problem.at(k) is a place in the depth, and problem.go_on(&at, n) moves it on by n: divisions are
// for the first place only. Shared memory has two steps of the sum: while threads multiply one,
// their loads of the next are under way.
template <class Value, bool left_along_depth = false, class Problem>
__device__ void multiply_tile(const Problem& problem, int64_t first_row, int64_t first_column) {
  constexpr int kLoaders = kTileThreads / kTileSide;  // threads that read a row or column together
  constexpr int kLines = kTileThreads / kTileDepth;   // rows read at once along_depth
  constexpr int kLoads = kTileSide * kTileDepth / kTileThreads;  // of a thread and operand
  // Padded, few lanes of a warp store to a bank.
  constexpr int kPadding = 16 / static_cast<int>(sizeof(Value));  // rows stay aligned
  __shared__ __align__(16) Value left[2][kTileDepth][kTileSide + (left_along_depth ? kPadding : 0)];
  __shared__ __align__(16) Value right[2][kTileDepth][kTileSide];
  const int thread = static_cast<int>(threadIdx.x);
  const int own = thread % kTileSide, loader = thread / kTileSide;
  const int deep = thread % kTileDepth, line = thread / kTileDepth;
  [[maybe_unused]] const auto row = problem.row(first_row + own);
  [[maybe_unused]] auto column = problem.column(first_column + own);  // may remember its samples
  decltype(problem.at(0)) across = {}, along = {};
  if (problem.depth > 0) {  // else there may be nothing to divide by
    across = problem.at(loader);
    if constexpr (left_along_depth) along = problem.at(deep);
  }

  Value from_left[kLoads], from_right[kLoads];
  const auto load = [&](int64_t depth) {
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
      const bool inside = depth + loader + n * kLoaders < problem.depth;
      if constexpr (!left_along_depth) {
        from_left[n] = inside ? problem.left(row, across) : Value{};
      }
      from_right[n] = inside ? problem.right(across, column) : Value{};
      problem.go_on(&across, kLoaders);
    }
    if constexpr (left_along_depth) {
      const bool inside = depth + deep < problem.depth;
#pragma unroll
      for (int n = 0; n < kLoads; ++n) {
        const int64_t i = line + n * kLines;
        from_left[n] = inside ? problem.left(problem.row(first_row + i), along) : Value{};
      }
      problem.go_on(&along, kTileDepth);
    }
  };
  const auto keep = [&](int now) {
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
      const int k = loader + n * kLoaders, i = line + n * kLines;
      left[now][left_along_depth ? deep : k][left_along_depth ? i : own] = from_left[n];
      right[now][k][own] = from_right[n];
    }
  };

  // Four rows times four columns: lanes read a row of the operand side by side, or the same place.
  const int m = thread / (kTileSide / kPerThread) * kPerThread;
  const int j = thread % (kTileSide / kPerThread) * kPerThread;
  Value sum[kPerThread][kPerThread];
  for (int i = 0; i < kPerThread; ++i) {
    const Value start = problem.start(first_row + m + i);
    for (int l = 0; l < kPerThread; ++l) sum[i][l] = start;
  }
  if (problem.depth > 0) load(0);
  __syncthreads();  // the block's last tile has been read
  int now = 0;
  for (int64_t depth = 0; depth < problem.depth; depth += kTileDepth, now = 1 - now) {
    keep(now);
    __syncthreads();  // this step is there, and the one before it has been read
    if (depth + kTileDepth < problem.depth) load(depth + kTileDepth);
    for (int k = 0; k < kTileDepth; ++k) {
      const auto a = *reinterpret_cast<const Neighbours<Value>*>(&left[now][k][m]);
      const auto b = *reinterpret_cast<const Neighbours<Value>*>(&right[now][k][j]);
      for (int i = 0; i < kPerThread; ++i) {
        for (int l = 0; l < kPerThread; ++l) {
          sum[i][l] = multiply_add(a.value[i], b.value[l], sum[i][l]);
        }
      }
    }
  }
  for (int i = 0; i < kPerThread; ++i) {
    for (int l = 0; l < kPerThread; ++l) {
      problem.store(first_row + m + i, first_column + j + l, sum[i][l]);
    }
  }
}

}  // namespace
}  // namespace visops
