// A tile of a product of matrices by the matrix units: NOTE [ Matrix units ] in cuda/mma.h.
//
// NOTE [ Tiles for the matrix units ]
// A block of 8 warps computes 64 rows by 128 columns, a warp 32 by 32. The operands' elements lie
// along the depth in pieces of 16 bytes, 8 halves or 4 float32: a step of the sum takes 4 pieces of
// each row and column. Shared memory has two steps: while the warps multiply one, each thread's
// loads of its three pieces of the next are under way; it then writes them to the other half. So
// there is one barrier a step: a half is written again only after the barrier that all warps reach
// when they have read it.
//
// Two rows of 4 pieces fill all banks once. Piece k of row r lies at k ^ (r / 2 % 4): eight rows of
// one piece (what load_matrices() reads at a time), and two rows of four pieces, share no bank.
#pragma once

#include "core/arithmetic.h"
#include "cuda/mma.h"

namespace visops {
namespace {

constexpr int kGemmBlocks = 2;  // on a multiprocessor, at least
constexpr int kGemmRows = 64, kGemmColumns = 128, kGemmThreads = 256;
constexpr int kGemmPieces = 4;     // of a row or column in a step
constexpr int kGemmWarpSide = 32;  // rows and columns of a warp
constexpr int kGemmColumnWarps = kGemmColumns / kGemmWarpSide;

// Elements in memory, and which instruction multiplies them.
template <class Stored_, class Unit_>
struct GemmElement {
  using Stored = Stored_;
  using Unit = Unit_;
  static constexpr int kNumbers = 16 / static_cast<int>(sizeof(Stored));  // in a piece
};

// Calls work(GemmElement<...>{}) for halves and float32.
template <class Work>
static inline void with_gemm_element(Arithmetic kind, const Work& work) {
  if (kind == Arithmetic::kFloat16) work(GemmElement<Half, Half>{});
  if (kind == Arithmetic::kBFloat16) work(GemmElement<BFloat16, BFloat16>{});
  if (kind == Arithmetic::kFloat32) work(GemmElement<float, Tf32>{});
}

static inline bool has_gemm_element(Arithmetic kind, bool allow_tf32) {
  return kind == Arithmetic::kFloat16 || kind == Arithmetic::kBFloat16 ||
         (kind == Arithmetic::kFloat32 && allow_tf32);
}

// Operands are not written while a kernel runs.
__device__ inline uint32_t number_bits(const float* at) { return bit_cast<uint32_t>(__ldg(at)); }
template <class T>
__device__ inline uint32_t number_bits(const T* at) {
  return __ldg(&at->bits);
}

// A piece as it was loaded: its 16 bytes, or a number a word. Nothing is made of it before it goes
// to shared memory, so that no thread waits for it earlier.
template <class Element>
struct GemmPiece {
  uint32_t word[Element::kNumbers];

  __device__ void clear() {
    for (uint32_t& w : word) w = 0;
  }
  __device__ void load_whole(const void* at) {
    const Words words = load_words(at);
    for (int i = 0; i < 4; ++i) word[i] = words.word[i];
  }
  // The first `count` numbers; those after them are 0.
  __device__ void load(const typename Element::Stored* at, int stride, int count) {
    if (count >= Element::kNumbers) {
      for (int i = 0; i < Element::kNumbers; ++i) word[i] = number_bits(at + int64_t{stride} * i);
    } else {
      for (int i = 0; i < Element::kNumbers; ++i) {
        word[i] = i < count ? number_bits(at + int64_t{stride} * i) : 0;
      }
    }
  }
  __device__ Words packed([[maybe_unused]] bool whole) const {
    Words words;
    for (int i = 0; i < 4; ++i) {
      if constexpr (Element::kNumbers == 4) {
        words.word[i] = to_tf32(bit_cast<float>(word[i]));
      } else {
        words.word[i] = whole ? word[i] : word[2 * i] | word[2 * i + 1] << 16;
      }
    }
    return words;
  }
};

// Which of the two parts of shared memory comes next; a block begins with 0, and keeps it from tile
// to tile.
struct GemmTurn {
  int step = 0, tile = 0;
};

__device__ inline int gemm_position(int row, int piece) { return piece ^ (row / 2 % 4); }

// The tile that begins at (first_row, first_column), summed over `steps` >= 1 steps. All threads of
// the block must call it. The problem has
//   cursor_at(piece), go_on(&cursor): a piece's place in the depth, at the first and the next step
//   left_at(row), right_at(column): a place in an operand (Right), across the depth
//   load_left(place, cursor, &piece), load_right(place, cursor, &piece): what lies outside is 0
//   whole_left, whole_right: whether pieces are loaded by load_whole()
//   left_along_depth, right_along_depth: whether adjacent threads take adjacent pieces or rows
//   start(row): where the sum begins
//   target(column): where its results go, below 0 for none, and store(row, target, sum).
template <class Element, class Problem>
__device__ void gemm_tile(const Problem& problem, int64_t first_row, int64_t first_column,
                          int steps, GemmTurn* turn) {
  __shared__ Words left[2][kGemmRows][kGemmPieces];
  __shared__ Words right[2][kGemmColumns][kGemmPieces];
  __shared__ int64_t targets[2][kGemmColumns];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;

  // A thread loads a piece of a row, and one of two columns.
  const bool left_along = problem.left_along_depth, right_along = problem.right_along_depth;
  const int left_row = left_along ? thread / kGemmPieces : thread % kGemmRows;
  const int left_piece = left_along ? thread % kGemmPieces : thread / kGemmRows;
  const int right_row = right_along ? thread / kGemmPieces : thread % kGemmRows;
  const int right_piece = right_along ? thread % kGemmPieces : thread / kGemmRows;
  const auto left_at = problem.left_at(first_row + left_row);
  const typename Problem::Right right_at[2] = {
      problem.right_at(first_column + right_row),
      problem.right_at(first_column + right_row + kGemmRows)};
  auto left_cursor = problem.cursor_at(left_piece), right_cursor = problem.cursor_at(right_piece);
  GemmPiece<Element> from_left, from_right[2];
  const auto load = [&] {
    problem.load_left(left_at, left_cursor, &from_left);
    for (int i = 0; i < 2; ++i) problem.load_right(right_at[i], right_cursor, &from_right[i]);
    problem.go_on(&left_cursor);
    problem.go_on(&right_cursor);
  };
  load();
  if (thread < kGemmColumns) targets[turn->tile][thread] = problem.target(first_column + thread);

  // What this lane tells load_matrices(): its row and piece in 16 rows by two pieces.
  const int warp_row = thread / 32 / kGemmColumnWarps * kGemmWarpSide;
  const int warp_column = thread / 32 % kGemmColumnWarps * kGemmWarpSide;
  const int own_row = warp_row + lane % 16, own_left = lane / 16;
  const int own_column = warp_column + lane % 8 + lane / 16 * 8, own_right = lane / 8 % 2;

  float sum[2][4][4];
  for (int i = 0; i < 2; ++i) {
    for (int n = 0; n < 4; ++n) {
      for (int c = 0; c < 4; ++c) {
        sum[i][n][c] = problem.start(first_row + warp_row + 16 * i + lane / 4 + c / 2 * 8);
      }
    }
  }
  for (int step = 0; step < steps; ++step) {
    const int now = turn->step;
    turn->step = 1 - now;
    left[now][left_row][gemm_position(left_row, left_piece)] = from_left.packed(problem.whole_left);
    for (int i = 0; i < 2; ++i) {
      right[now][right_row + i * kGemmRows][gemm_position(right_row, right_piece)] =
          from_right[i].packed(problem.whole_right);
    }
    __syncthreads();
    if (step + 1 < steps) load();
    for (int half = 0; half < 2; ++half) {
      uint32_t a[2][4], b[2][4];
      for (int i = 0; i < 2; ++i) {
        load_matrices(&left[now][own_row + 16 * i][gemm_position(own_row, 2 * half + own_left)],
                      a[i]);
      }
      for (int i = 0; i < 2; ++i) {
        load_matrices(
            &right[now][own_column + 16 * i][gemm_position(own_column, 2 * half + own_right)],
            b[i]);
      }
      for (int i = 0; i < 2; ++i) {
        for (int n = 0; n < 4; ++n) {
          const uint32_t column[2] = {b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]};
          gemm_step(typename Element::Unit{}, sum[i][n], a[i], column);
        }
      }
    }
  }
  for (int n = 0; n < 4; ++n) {
    for (int c = 0; c < 2; ++c) {
      const int64_t target = targets[turn->tile][warp_column + 8 * n + lane % 4 * 2 + c];
      if (target < 0) continue;
      for (int i = 0; i < 4; ++i) {
        problem.store(first_row + warp_row + 8 * i + lane / 4, target,
                      sum[i / 2][n][i % 2 * 2 + c]);
      }
    }
  }
  turn->tile = 1 - turn->tile;
}

}  // namespace
}  // namespace visops
