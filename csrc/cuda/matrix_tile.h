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

// The tile that begins at (first_row, first_column): rows problem.row(m) times columns
// problem.column(j), summed in ascending depth. All threads of the block must call it.
//
// Lanes read adjacent rows or columns; where an operand's numbers are adjacent `along_depth`, half
// a warp reads 16 of one row or column. A right operand of that kind may prepare itself: all
// threads call problem.begin(depth), and synchronise there before they read what it writes.
template <class Value, bool left_along_depth = false, bool right_along_depth = false, class Problem>
__device__ void multiply_tile(const Problem& problem, int64_t first_row, int64_t first_column) {
  constexpr int kLoaders = kTileThreads / kTileSide;  // threads that read a row or column together
  // Padded, at most two lanes of a warp store to a bank.
  constexpr int kPadding = 4;
  __shared__ Value left[kTileDepth][kTileSide + (left_along_depth ? kPadding : 0)];
  __shared__ Value right[kTileDepth][kTileSide + (right_along_depth ? kPadding : 0)];
  const int thread = static_cast<int>(threadIdx.x);
  const int own = thread % kTileSide, loader = thread / kTileSide;
  [[maybe_unused]] const auto row = problem.row(first_row + own);
  [[maybe_unused]] auto column = problem.column(first_column + own);  // may remember its samples
  const int m = thread / (kTileSide / kPerThread) * kPerThread;
  const int j = thread % (kTileSide / kPerThread);  // and every 16th after it: no bank is shared

  Value sum[kPerThread][kPerThread];
  for (int i = 0; i < kPerThread; ++i) {
    const Value start = problem.start(first_row + m + i);
    for (int l = 0; l < kPerThread; ++l) sum[i][l] = start;
  }
  for (int64_t depth = 0; depth < problem.depth; depth += kTileDepth) {
    __syncthreads();
    if constexpr (right_along_depth) problem.begin(depth);
    if constexpr (!left_along_depth || !right_along_depth) {
      for (int k = loader; k < kTileDepth; k += kLoaders) {
        const bool inside = depth + k < problem.depth;
        const auto at = problem.at(inside ? depth + k : 0);
        if constexpr (!left_along_depth) left[k][own] = inside ? problem.left(row, at) : Value{};
        if constexpr (!right_along_depth) {
          right[k][own] = inside ? problem.right(at, column) : Value{};
        }
      }
    }
    if constexpr (left_along_depth || right_along_depth) {
      const int k = thread % kTileDepth;
      const bool inside = depth + k < problem.depth;
      const auto at = problem.at(inside ? depth + k : 0);
      for (int i = thread / kTileDepth; i < kTileSide; i += kTileThreads / kTileDepth) {
        if constexpr (left_along_depth) {
          left[k][i] = inside ? problem.left(problem.row(first_row + i), at) : Value{};
        }
        if constexpr (right_along_depth) {
          right[k][i] = inside ? problem.right(at, problem.column(first_column + i)) : Value{};
        }
      }
    }
    __syncthreads();
    for (int k = 0; k < kTileDepth; ++k) {
      Value a[kPerThread], b[kPerThread];
      for (int i = 0; i < kPerThread; ++i) {
        a[i] = left[k][m + i];
        b[i] = right[k][j + i * (kTileSide / kPerThread)];
      }
      for (int i = 0; i < kPerThread; ++i) {
        for (int l = 0; l < kPerThread; ++l) sum[i][l] = multiply_add(a[i], b[l], sum[i][l]);
      }
    }
  }
  for (int i = 0; i < kPerThread; ++i) {
    for (int l = 0; l < kPerThread; ++l) {
      problem.store(first_row + m + i, first_column + j + l * (kTileSide / kPerThread), sum[i][l]);
    }
  }
}

}  // namespace
}  // namespace visops
