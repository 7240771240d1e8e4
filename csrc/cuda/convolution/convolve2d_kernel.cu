// NOTE [ Convolution on CUDA ]
// A block has a tile of the output, a thread four neighbours of one of its rows, or of two
// (NOTE [ Windows ] in cuda/convolution/window.h). Shared memory holds the tile's part of the
// extended input and a piece of the kernel, both converted: the whole kernel if it fits, else as
// many rows as fit, else pieces of one row. So every sum has the order of NOTE [ Convolution's sums
// ]. No contraction (-fmad=false).
#include <algorithm>
#include <type_traits>

#include "core/convolution/convolve2d.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/ceil_div.h"
#include "cuda/convolution/window.h"

namespace visops {
namespace {

constexpr int kTileWidth = 32;
constexpr int kThreads = 256, kWarp = 32;
constexpr int kQuads = kTileWidth / kQuad;  // of a row of the tile
constexpr int kThreadRows = kThreads / kQuads;

// Rows of a tile that a thread has, kThreadRows apart.
template <class Sum>
constexpr int kRowsOfThread = sizeof(Sum) <= 4 ? 2 : 1;
template <class Sum>
constexpr int kTileHeight = kThreadRows * kRowsOfThread<Sum>;

// Shared memory, at most: together what every GPU grants by default. Launches ask for what a piece
// takes, so that small kernels leave room for more blocks.
constexpr int64_t kInputBytes = 32 << 10;
constexpr int64_t kKernelBytes = 16 << 10;
constexpr int64_t kMostColumns = 32;  // of a piece, where a row of the kernel doesn't fit

// Rows and columns of the kernel in shared memory at a time.
struct Piece {
  int64_t rows, columns;
};

// Elements of a row of a tile's input, and of a piece's row: whole quads.
VISOPS_FN int64_t input_stride(int64_t columns) {
  return kTileWidth + quads_beyond(columns) * kQuad;
}
VISOPS_FN int64_t weight_stride(int64_t columns) { return parts_of(columns, kQuad) * kQuad; }

template <class Sum>
Piece piece_of(const ConvolveParams& p) {
  const int64_t inputs = kInputBytes / sizeof(Sum), weights = kKernelBytes / sizeof(Sum);
  const ConvolvePlane& k = p.kernel_plane;
  const int64_t fitting = inputs / input_stride(k.width) - (kTileHeight<Sum> - 1);
  const int64_t rows = std::min(fitting, weights / weight_stride(k.width));
  if (rows >= 1) return {std::min(rows, k.height), k.width};
  return {1, std::min(k.width, kMostColumns)};
}

// The elements of the input that a piece needs for a tile.
template <class Sum>
VISOPS_FN int64_t inputs_of(const Piece& piece) {
  return (kTileHeight<Sum> + piece.rows - 1) * input_stride(piece.columns);
}

struct ConvolveTiles {
  int64_t across, count;          // of an entry of the batch
  Divisor<int32_t> short_across;  // if 32 bits hold the count
  Divisor<int32_t> quads[2];  // of a row of input: of whole pieces, and of the last one of a row
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
                           int rows, const Divisor<int32_t>& quads, Sum* to) {
  const ConvolvePlane& in = p.input_plane;
  const auto load = [&](int row, int column) {
    int64_t from_y = y + row;
    const int64_t from_x = x + column;
    Quad<Sum> quad;
    if (from_y >= 0 && from_y < in.height && from_x >= 0 && from_x + kQuad <= in.width) {
      const T* const from = of.input + from_y * in.row_stride + from_x * in.column_stride;
      for (int i = 0; i < kQuad; ++i) {
        quad.value[i] = ConvolveElement<T>::load(from + i * in.column_stride);
      }
      return quad;
    }
    from_y = pad_index(p.boundary, from_y, in.height);
    for (int i = 0; i < kQuad; ++i) {
      const int64_t at = pad_index(p.boundary, from_x + i, in.width);
      const T* const from = from_y < 0 || at < 0
                                ? &of.fill
                                : of.input + from_y * in.row_stride + at * in.column_stride;
      quad.value[i] = ConvolveElement<T>::load(from);
    }
    return quad;
  };
  store_quads<kThreads>(rows, quads, load, to);
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

// `input` has quads: row by row, `stride` elements each.
template <class Sum, int count>
__device__ void add_piece(const Sum* input, int stride, const Sum* weights, int rows, int columns,
                          Quad<Sum> (&sums)[count]) {
  const int row = static_cast<int>(threadIdx.x) / kQuads;
  const int column = static_cast<int>(threadIdx.x) % kQuads * kQuad;
  const int weights_of_row = static_cast<int>(weight_stride(columns));
  for (int m = 0; m < rows; ++m) {
#pragma unroll
    for (int r = 0; r < count; ++r) {
      const Sum* const values = input + (row + r * kThreadRows + m) * stride + column;
      const auto load = [&](int at) { return *reinterpret_cast<const Quad<Sum>*>(values + at); };
      add_window(weights + m * weights_of_row, columns, load, sums[r].value);
    }
  }
}

template <class T, class Sum>
__device__ void store_sums(const ConvolveParams& p, const Quad<Sum>& sums, int64_t j, T* to) {
  Quad<T> quad;
  for (int i = 0; i < kQuad; ++i) ConvolveElement<T>::store(&quad.value[i], sums.value[i]);
  if (j + kQuad <= p.output_width && reinterpret_cast<uintptr_t>(to) % alignof(Quad<T>) == 0) {
    *reinterpret_cast<Quad<T>*>(to) = quad;
    return;
  }
  for (int i = 0; i < kQuad; ++i) {
    if (j + i < p.output_width) to[i] = quad.value[i];
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    convolve2d(const __grid_constant__ ConvolveParams p, const Piece piece,
               const __grid_constant__ ConvolveTiles tiles) {
  using Sum = typename ConvolveElement<T>::Sum;
  constexpr int kRows = kRowsOfThread<Sum>, kHeight = kTileHeight<Sum>;
  Sum* const input = dynamic_shared<Sum>();
  Sum* const weights = input + inputs_of<Sum>(piece);
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
      Quad<Sum> sums[kRows] = {};
      for (int64_t m = 0; m < k.height; m += piece.rows) {
        const int rows = static_cast<int>(k.height - m < piece.rows ? k.height - m : piece.rows);
        for (int64_t n = 0; n < k.width; n += piece.columns) {
          const bool is_last = n + piece.columns >= k.width;
          const int columns = static_cast<int>(is_last ? k.width - n : piece.columns);
          const Divisor<int32_t>& quads = tiles.quads[is_last ? 1 : 0];
          load_input(p, of, p.start_y + y + m, p.start_x + x + n, kHeight + rows - 1, quads, input);
          load_weights(p, of, m, n, rows, columns, weights);
          __syncthreads();
          add_piece(input, quads.value * kQuad, weights, rows, columns, sums);
          __syncthreads();
        }
      }
      const int64_t j = x + static_cast<int64_t>(threadIdx.x) % kQuads * kQuad;
      T* const output = static_cast<T*>(p.output) + entry * p.output_height * p.output_width + j;
      for (int r = 0; r < kRows; ++r) {
        const int64_t i = y + static_cast<int64_t>(threadIdx.x) / kQuads + r * kThreadRows;
        if (i < p.output_height && j < p.output_width) {
          store_sums(p, sums[r], j, output + i * p.output_width);
        }
      }
    }
  }
}

template <class Sum>
ConvolveTiles convolve_tiles(const ConvolveParams& p, const Piece& piece) {
  const int64_t last = (p.kernel_plane.width - 1) % piece.columns + 1;
  ConvolveTiles tiles;
  tiles.across = parts_of(p.output_width, kTileWidth);
  tiles.count = tiles.across * parts_of(p.output_height, kTileHeight<Sum>);
  tiles.short_across = divisor_of<int32_t>(tiles.count <= INT32_MAX ? tiles.across : 1);
  tiles.quads[0] = divisor_of<int32_t>(input_stride(piece.columns) / kQuad);
  tiles.quads[1] = divisor_of<int32_t>(input_stride(last) / kQuad);
  return tiles;
}

void convolve2d_launch(const ConvolveParams& p, Workspace& workspace) {
  constexpr int64_t kMostEntries = kMostBlocks < 65535 ? kMostBlocks : 65535;  // of a grid
  with_convolve_type(p.kind, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    using Sum = typename ConvolveElement<T>::Sum;
    const Piece piece = piece_of<Sum>(p);
    const ConvolveTiles tiles = convolve_tiles<Sum>(p, piece);
    const int64_t elements = inputs_of<Sum>(piece) + piece.rows * weight_stride(piece.columns);
    const dim3 grid(grid_for(tiles.count).x,
                    static_cast<unsigned>(std::min(p.batch.count, kMostEntries)));
    launch(convolve2d<T>, grid, dim3(kThreads), elements * sizeof(Sum), workspace.stream(), p,
           piece, tiles);
  });
}

const bool registered = convolve2d_stub.set(kCudaSlot, convolve2d_launch);

}  // namespace
}  // namespace visops
