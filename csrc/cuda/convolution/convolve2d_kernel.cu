// NOTE [ Convolution on CUDA ]
// A block has a tile of the output, a thread eight neighbours of one of its rows, or of two, and of
// large elements four (NOTE [ Windows ] in cuda/convolution/window.h). Warps have whole rows, so
// that none works below a low plane. Shared memory holds the tile's part of the extended input and
// a piece of the kernel, both converted: the whole kernel if it fits, else as many rows as fit,
// else pieces of one row. So every sum has the order of NOTE [ Convolution's sums ]. No contraction
// (-fmad=false).
#include <algorithm>
#include <type_traits>

#include "core/convolution/convolve2d.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/arithmetic.h"
#include "cuda/convolution/window.h"

namespace visops {
namespace {

constexpr int kTileWidth = 64;
constexpr int kThreads = 256, kWarp = 32;

// What of a tile a thread has, by the type of its sums: neighbours, and rows, which are kWarpRows
// apart.
template <class Sum>
struct ThreadShare {
  static constexpr int kAlong = sizeof(Sum) <= 4 ? 8 : 4;
  static constexpr int kRows = sizeof(Sum) <= 8 ? 2 : 1;
  static constexpr int kAcross = kTileWidth / kAlong;  // threads
  static constexpr int kWarpRows = kWarp / kAcross;    // of threads
  static constexpr int kHeight = kThreads / kAcross * kRows;
  static constexpr int kBlocks = sizeof(Sum) <= 4 ? 4 : 2;  // of a multiprocessor: registers

  int row, column;  // of the tile: its first

  __device__ ThreadShare() {
    const WarpPlace<kAcross> place(static_cast<int>(threadIdx.x) % kWarp);
    row = static_cast<int>(threadIdx.x) / kWarp * kWarpRows * kRows + place.line;
    column = place.turn * kAlong;
  }
};

// Shared memory, at most: together what every GPU grants by default. Launches ask for what a piece
// takes, so that small kernels leave room for more blocks.
constexpr int64_t kInputBytes = 32 << 10;
constexpr int64_t kKernelBytes = 16 << 10;
constexpr int64_t kMostColumns = 32;  // of a piece, where a row of the kernel doesn't fit

// Rows and columns of the kernel in shared memory at a time.
struct Piece {
  int64_t rows, columns;
};

VISOPS_FN int64_t weight_stride(int64_t columns) { return parts_of(columns, kQuad) * kQuad; }

bool is_aligned(const void* data, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
}

// Whether quads of every row of the input are aligned.
template <class T>
bool has_aligned_quads(const ConvolveParams& p) {
  constexpr int64_t kEach = alignof(Quad<T>) / sizeof(T);  // elements
  bool aligned = is_aligned(p.input, alignof(Quad<T>)) && p.input_plane.column_stride == 1 &&
                 p.input_plane.row_stride % kEach == 0;
  for (int d = 0; d < p.batch.dims; ++d) aligned &= p.batch.strides[0][d] % kEach == 0;
  return aligned;
}

// The input's part for a tile of the output and so many columns of the kernel.
template <class Sum>
QuadLines lines_of(const ConvolveParams& p, int64_t columns, bool aligned) {
  return quad_lines<kThreads, Sum>(p.start_x, kTileWidth / kQuad + quads_beyond(columns), aligned);
}

template <class Sum>
Piece piece_of(const ConvolveParams& p, bool aligned) {
  const int64_t inputs = kInputBytes / sizeof(Sum), weights = kKernelBytes / sizeof(Sum);
  const ConvolvePlane& k = p.kernel_plane;
  const int64_t fitting =
      (inputs - kQuad) / lines_of<Sum>(p, std::min(k.width, inputs), aligned).stride -
      (ThreadShare<Sum>::kHeight - 1);
  const int64_t rows = std::min(fitting, weights / weight_stride(k.width));
  if (rows >= 1) return {std::min(rows, k.height), k.width};
  return {1, std::min(k.width, kMostColumns)};
}

struct ConvolveTiles {
  int64_t across, count;               // of an entry of the batch
  Divisor<int32_t> short_across;       // if 32 bits hold the count
  QuadLines lines;                     // of the input
  bool aligned_input, aligned_output;  // quads
};

template <class T>
struct Operands {
  const T* input;
  const T* kernel;
  T fill;
};

// Loads rows from y on and columns from x on. All threads of the block must call it.
template <class T, class Sum>
__device__ void load_input(const ConvolveParams& p, const Operands<T>& of, int64_t y, int64_t x,
                           int rows, const ConvolveTiles& tiles, Sum* to) {
  const ConvolvePlane& in = p.input_plane;
  const auto row = [&](int number) -> const T* {
    const int64_t at = pad_index(p.boundary, y + number, in.height);
    return at < 0 ? nullptr : of.input + at * in.row_stride;
  };
  const auto load = [&](int64_t first, const T* line) {
    Quad<T> quad;
    if (line != nullptr && first >= 0 && first + kQuad <= in.width) {
      const T* const from = line + first * in.column_stride;
      if (tiles.aligned_input) {
        quad = *reinterpret_cast<const Quad<T>*>(from);
      } else {
        for (int i = 0; i < kQuad; ++i) quad.value[i] = from[i * in.column_stride];
      }
    } else {
      for (int i = 0; i < kQuad; ++i) {
        const int64_t at = line == nullptr ? -1 : pad_index(p.boundary, first + i, in.width);
        quad.value[i] = at < 0 ? of.fill : line[at * in.column_stride];
      }
    }
    Quad<Sum> values;
    for (int i = 0; i < kQuad; ++i) values.value[i] = ConvolveElement<T>::load(&quad.value[i]);
    return values;
  };
  load_lines(tiles.lines, rows, [=](int column) { return x + column; }, row, load, to);
}

template <class T, class Sum>
__device__ void load_weights(const ConvolveParams& p, const Operands<T>& of, int64_t m, int64_t n,
                             int rows, int columns, Sum* to) {
  const ConvolvePlane& k = p.kernel_plane;
  const int stride = static_cast<int>(weight_stride(columns));
  for (int row = static_cast<int>(threadIdx.x) / kWarp; row < rows; row += kThreads / kWarp) {
    const T* const from = of.kernel + (m + row) * k.row_stride + n * k.column_stride;
    for (int i = static_cast<int>(threadIdx.x) % kWarp; i < stride; i += kWarp) {
      to[row * stride + i] =
          i < columns ? ConvolveElement<T>::load(from + i * k.column_stride) : Sum{};
    }
  }
}

// `input`: from this thread's first element on.
template <class Sum, int along, int count>
__device__ void add_piece(const Sum* input, int stride, const Sum* weights, int rows, int columns,
                          Several<Sum, count> (&sums)[along]) {
  const int weights_of_row = static_cast<int>(weight_stride(columns));
  for (int m = 0; m < rows; ++m, input += stride, weights += weights_of_row) {
    const auto load = [&](int at) {
      return quads_at<count>(input + at, ThreadShare<Sum>::kWarpRows * stride);
    };
    add_window(weights, columns, load, sums);
  }
}

template <class T>
using SumOf = typename ConvolveElement<T>::Sum;

template <class T>
__global__ void __launch_bounds__(kThreads, ThreadShare<SumOf<T>>::kBlocks)
    convolve2d(const __grid_constant__ ConvolveParams p, const Piece piece,
               const __grid_constant__ ConvolveTiles tiles) {
  using Sum = SumOf<T>;
  using Share = ThreadShare<Sum>;
  constexpr int kHeight = Share::kHeight, kRowsOfWarp = Share::kWarpRows * Share::kRows;
  const Share share;
  Sum* const weights = dynamic_shared<Sum>();
  Sum* const input = weights + piece.rows * weight_stride(piece.columns) + kQuad;
  const ConvolvePlane& k = p.kernel_plane;
  Operands<T> of;
  memcpy(&of.fill, p.fill, sizeof(T));
  for (int64_t entry = blockIdx.y; entry < p.batch.count; entry += gridDim.y) {
    const ConvolveOffsets offsets = offsets_of(p.batch, entry);
    of.input = static_cast<const T*>(p.input) + offsets.first;
    of.kernel = static_cast<const T*>(p.kernel) + offsets.second;
    for (int64_t tile = blockIdx.x; tile < tiles.count; tile += gridDim.x) {
      const int64_t of_row = tiles.count <= INT32_MAX
                                 ? tiles.short_across.divide(static_cast<int32_t>(tile))
                                 : tile / tiles.across;
      const int64_t y = of_row * kHeight, x = (tile - of_row * tiles.across) * kTileWidth;
      const int64_t below = parts_of(p.output_height - y, kRowsOfWarp) * kRowsOfWarp;
      const int height = static_cast<int>(below < kHeight ? below : kHeight);
      Several<Sum, Share::kRows> sums[Share::kAlong] = {};
      for (int64_t m = 0; m < k.height; m += piece.rows) {
        const int rows = static_cast<int>(k.height - m < piece.rows ? k.height - m : piece.rows);
        for (int64_t n = 0; n < k.width; n += piece.columns) {
          const int columns =
              static_cast<int>(k.width - n < piece.columns ? k.width - n : piece.columns);
          load_input(p, of, p.start_y + y + m, p.start_x + x + n, height + rows - 1, tiles, input);
          load_weights(p, of, m, n, rows, columns, weights);
          __syncthreads();
          if (share.row < height) {
            const int stride = tiles.lines.stride;
            add_piece(input + share.row * stride + share.column, stride, weights, rows, columns,
                      sums);
          }
          __syncthreads();
        }
      }
      T* const output = static_cast<T*>(p.output) + entry * p.output_height * p.output_width;
      for (int r = 0; r < Share::kRows; ++r) {
        const int64_t i = y + share.row + r * Share::kWarpRows;
        if (i >= p.output_height) break;
#pragma unroll
        for (int quad = 0; quad < Share::kAlong; quad += kQuad) {
          const int64_t j = x + share.column + quad;
          Quad<T> own;
          for (int n = 0; n < kQuad; ++n) {
            ConvolveElement<T>::store(&own.value[n], sums[quad + n].value[r]);
          }
          const int64_t left = p.output_width - j;
          if (left <= 0) break;
          store_quad(own, left, tiles.aligned_output, i * p.output_width + j, output);
        }
      }
    }
  }
}

template <class T, class Sum>
ConvolveTiles convolve_tiles(const ConvolveParams& p, const Piece& piece, bool aligned) {
  ConvolveTiles tiles;
  tiles.across = parts_of(p.output_width, kTileWidth);
  tiles.count = tiles.across * parts_of(p.output_height, ThreadShare<Sum>::kHeight);
  tiles.short_across = divisor_of<int32_t>(tiles.count <= INT32_MAX ? tiles.across : 1);
  tiles.lines = lines_of<Sum>(p, piece.columns, aligned);
  tiles.aligned_input = aligned;
  tiles.aligned_output = is_aligned(p.output, alignof(Quad<T>)) && p.output_width % kQuad == 0;
  return tiles;
}

void convolve2d_launch(const ConvolveParams& p, Workspace& workspace) {
  constexpr int64_t kMostEntries = kMostBlocks < 65535 ? kMostBlocks : 65535;  // of a grid
  with_convolve_type(p.kind, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    using Sum = SumOf<T>;
    const bool aligned = has_aligned_quads<T>(p);
    const Piece piece = piece_of<Sum>(p, aligned);
    const ConvolveTiles tiles = convolve_tiles<T, Sum>(p, piece, aligned);
    const int64_t elements = piece.rows * weight_stride(piece.columns) +
                             elements_of(tiles.lines, ThreadShare<Sum>::kHeight + piece.rows - 1);
    const dim3 grid(grid_for(tiles.count).x,
                    static_cast<unsigned>(std::min(p.batch.count, kMostEntries)));
    launch(convolve2d<T>, grid, dim3(kThreads), elements * sizeof(Sum), workspace.stream(), p,
           piece, tiles);
  });
}

const bool registered = convolve2d_stub.set(kCudaSlot, convolve2d_launch);

}  // namespace
}  // namespace visops
