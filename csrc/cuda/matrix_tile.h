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
// for the first place only. Where problem.kSharesPositions is true, there is no go_on: a few
// threads look up the places of the next step, for all of them. What is at(k) beyond the depth must
// exist; it is not multiplied. Shared memory has two steps of the sum: while threads multiply one,
// their loads of the next are under way.
template <class Value, bool left_along_depth = false, class Problem>
__device__ void multiply_tile(const Problem& problem, int64_t first_row, int64_t first_column) {
  constexpr int kLoaders = kTileThreads / kTileSide;  // threads that read a row or column together
  constexpr int kLines = kTileThreads / kTileDepth;   // rows read at once along_depth
  constexpr int kLoads = kTileSide * kTileDepth / kTileThreads;  // of a thread and operand
  // Padded, few lanes of a warp store to a bank.
  constexpr int kPadding = 16 / static_cast<int>(sizeof(Value));  // rows stay aligned
  constexpr bool kShares = Problem::kSharesPositions;
  [[maybe_unused]] constexpr int kUnrolled = kShares ? kTileDepth : 4;  // others need the registers
  static_assert(!kShares || !left_along_depth);
  using Position = decltype(problem.at(0));
  struct alignas(16) Step {
    Position positions[kShares ? kTileDepth : 1];  // first: their addresses take no addition
    alignas(16) Value left[kTileDepth][kTileSide + (left_along_depth ? kPadding : 0)];
    alignas(16) Value right[kTileDepth][kTileSide];
  };
  __shared__ Step steps[2];
  const int thread = static_cast<int>(threadIdx.x);
  const int own = thread % kTileSide, loader = thread / kTileSide;
  const int deep = thread % kTileDepth, line = thread / kTileDepth;
  [[maybe_unused]] const auto row = problem.row(first_row + own);
  [[maybe_unused]] auto column = problem.column(first_column + own);  // may remember its samples
  [[maybe_unused]] Position across = {}, along = {};
  if (!kShares && problem.depth > 0) {  // else there may be nothing to divide by
    across = problem.at(loader);
    if constexpr (left_along_depth) along = problem.at(deep);
  }
  const auto position = [&](int64_t depth, Step* step) {
    if (kShares && thread < kTileDepth) step->positions[thread] = problem.at(depth + thread);
  };

  Value from_left[kLoads], from_right[kLoads];
  const auto load = [&](int64_t depth, [[maybe_unused]] const Step& step) {
    if constexpr (kShares) {
#pragma unroll
      for (int n = 0; n < kLoads; ++n) {
        const Position at = step.positions[loader + n * kLoaders];
        from_left[n] = problem.left(row, at);
        from_right[n] = problem.right(at, column);
      }
    } else {
#pragma unroll
      for (int n = 0; n < kLoads; ++n) {
        const bool inside = depth + loader + n * kLoaders < problem.depth;
        if constexpr (!left_along_depth) {
          from_left[n] = inside ? problem.left(row, across) : Value{};
        }
        from_right[n] = inside ? problem.right(across, column) : Value{};
        problem.go_on(&across, kLoaders);
      }
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
  const auto keep = [&](Step* step) {
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
      const int k = loader + n * kLoaders, i = line + n * kLines;
      step->left[left_along_depth ? deep : k][left_along_depth ? i : own] = from_left[n];
      step->right[k][own] = from_right[n];
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
  const auto multiply = [&](const Step& step, int k) {
    const auto a = *reinterpret_cast<const Neighbours<Value>*>(&step.left[k][m]);
    const auto b = *reinterpret_cast<const Neighbours<Value>*>(&step.right[k][j]);
    for (int i = 0; i < kPerThread; ++i) {
      for (int l = 0; l < kPerThread; ++l) {
        sum[i][l] = multiply_add(a.value[i], b.value[l], sum[i][l]);
      }
    }
  };
  if (problem.depth > 0) position(0, &steps[0]);
  __syncthreads();  // the block's last tile has been read, and the first places are there
  if (problem.depth > 0) load(0, steps[0]);
  int now = 0, other = 1;
  for (int64_t depth = 0; depth < problem.depth; depth += kTileDepth) {
    const int64_t remaining = problem.depth - depth;
    keep(&steps[now]);
    if (remaining > kTileDepth) position(depth + kTileDepth, &steps[other]);
    __syncthreads();  // this step is there, and the one before it has been read
    if (remaining > kTileDepth) load(depth + kTileDepth, steps[other]);
    if (remaining >= kTileDepth) {
#pragma unroll kUnrolled
      for (int k = 0; k < kTileDepth; ++k) multiply(steps[now], k);
    } else {
#pragma unroll 1
      for (int k = 0; k < remaining; ++k) multiply(steps[now], k);
    }
    const int last = now;
    now = other;
    other = last;
  }
  for (int l = 0; l < kPerThread; ++l) {
    const auto to = problem.result(first_column + j + l);
    for (int i = 0; i < kPerThread; ++i) problem.store(first_row + m + i, to, sum[i][l]);
  }
}

}  // namespace
}  // namespace visops
