// NOTE [ Convolution on CUDA ]
// A block has a tile of the output, a thread kRowsOfThread elements of one of its columns. Shared
// memory holds the tile's part of the extended input and a piece of the kernel, both converted: the
// whole kernel if it fits, else as many rows as fit, else pieces of one row. So every sum has the
// order of NOTE [ Convolution's sums ]. No contraction (-fmad=false).
#include <type_traits>

#include "core/convolution/convolve2d.h"
#include "core/convolution/convolve2d_element.h"
#include "core/dispatch/workspace.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kTileWidth = 32;
constexpr int kThreadRows = 8;
constexpr int kThreads = kTileWidth * kThreadRows;
constexpr int kRowsOfThread = 4;
constexpr int kTileHeight = kThreadRows * kRowsOfThread;

// Shared memory, at most: together what every GPU grants by default. Launches ask for what a piece
// takes, so that small kernels leave room for more blocks.
constexpr int64_t kInputBytes = 32 << 10;
constexpr int64_t kKernelBytes = 16 << 10;
constexpr int64_t kMostColumns = 32;  // of a piece, where a row of the kernel doesn't fit

// Rows and columns of the kernel in shared memory at a time.
struct Piece {
  int64_t rows, columns;
};

template <class Sum>
Piece piece_of(const ConvolveParams& p) {
  const int64_t inputs = kInputBytes / sizeof(Sum), weights = kKernelBytes / sizeof(Sum);
  const ConvolvePlane& k = p.kernel_plane;
  const int64_t rows_of_input = inputs / (kTileWidth + k.width - 1);
  const int64_t fitting = rows_of_input - (kTileHeight - 1);
  const int64_t rows = fitting < weights / k.width ? fitting : weights / k.width;
  if (rows >= 1) return {rows < k.height ? rows : k.height, k.width};
  return {1, k.width < kMostColumns ? k.width : kMostColumns};
}

// The elements of the input that a piece needs for a tile.
VISOPS_FN int64_t inputs_of(const Piece& piece) {
  return (kTileHeight + piece.rows - 1) * (kTileWidth + piece.columns - 1);
}

template <class T>
struct Operands {
  const T* input;
  const T* kernel;
  T fill;
};

// Loads rows from y on and columns from x on. All threads of the block must call it.
template <class T, class Sum>
__device__ void load_input(const ConvolveParams& p, const Operands<T>& of, int64_t y, int64_t x,
                           int rows, int columns, Sum* to) {
  const ConvolvePlane& in = p.input_plane;
  const bool inside = y >= 0 && x >= 0 && y + rows <= in.height && x + columns <= in.width;
  for (int at = static_cast<int>(threadIdx.x); at < rows * columns; at += kThreads) {
    int64_t from_y = y + at / columns, from_x = x + at % columns;
    if (!inside) {
      from_y = pad_index(p.boundary, from_y, in.height);
      from_x = pad_index(p.boundary, from_x, in.width);
    }
    const T* from = from_y < 0 || from_x < 0
                        ? &of.fill
                        : of.input + from_y * in.row_stride + from_x * in.column_stride;
    to[at] = ConvolveElement<T>::load(from);
  }
}

template <class T, class Sum>
__device__ void load_weights(const ConvolveParams& p, const Operands<T>& of, int64_t m, int64_t n,
                             int rows, int columns, Sum* to) {
  const ConvolvePlane& k = p.kernel_plane;
  for (int at = static_cast<int>(threadIdx.x); at < rows * columns; at += kThreads) {
    to[at] = ConvolveElement<T>::load(of.kernel + (m + at / columns) * k.row_stride +
                                      (n + at % columns) * k.column_stride);
  }
}

template <class Sum>
__device__ void add_piece(const Sum* input, const Sum* weights, int rows, int columns,
                          Sum (&sums)[kRowsOfThread]) {
  const int row = static_cast<int>(threadIdx.x) / kTileWidth;
  const int column = static_cast<int>(threadIdx.x) % kTileWidth;
  const int stride = kTileWidth + columns - 1;
  for (int m = 0; m < rows; ++m) {
    const Sum* values = input + (row + m) * stride + column;
    for (int n = 0; n < columns; ++n) {
      const Sum weight = weights[m * columns + n];
      for (int r = 0; r < kRowsOfThread; ++r) {
        add_product(sums[r], weight, values[r * kThreadRows * stride + n]);
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    convolve2d(const __grid_constant__ ConvolveParams p, Piece piece, int64_t tiles) {
  using Sum = typename ConvolveElement<T>::Sum;
  Sum* input = dynamic_shared<Sum>();
  Sum* weights = input + inputs_of(piece);
  const ConvolvePlane& k = p.kernel_plane;
  const int64_t across = (p.output_width + kTileWidth - 1) / kTileWidth;
  const int64_t down = (p.output_height + kTileHeight - 1) / kTileHeight;
  Operands<T> of;
  memcpy(&of.fill, p.fill, sizeof(T));
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t entry = tile / (across * down);
    const int64_t y = tile / across % down * kTileHeight, x = tile % across * kTileWidth;
    const ConvolveOffsets offsets = offsets_of(p.batch, entry);
    of.input = static_cast<const T*>(p.input) + offsets.first;
    of.kernel = static_cast<const T*>(p.kernel) + offsets.second;
    Sum sums[kRowsOfThread] = {};
    for (int64_t m = 0; m < k.height; m += piece.rows) {
      const int rows = static_cast<int>(k.height - m < piece.rows ? k.height - m : piece.rows);
      for (int64_t n = 0; n < k.width; n += piece.columns) {
        const int columns =
            static_cast<int>(k.width - n < piece.columns ? k.width - n : piece.columns);
        load_input(p, of, p.start_y + y + m, p.start_x + x + n, kTileHeight + rows - 1,
                   kTileWidth + columns - 1, input);
        load_weights(p, of, m, n, rows, columns, weights);
        __syncthreads();
        add_piece(input, weights, rows, columns, sums);
        __syncthreads();
      }
    }
    const int64_t j = x + static_cast<int64_t>(threadIdx.x) % kTileWidth;
    T* output = static_cast<T*>(p.output) + entry * p.output_height * p.output_width + j;
    for (int r = 0; r < kRowsOfThread; ++r) {
      const int64_t i = y + static_cast<int64_t>(threadIdx.x) / kTileWidth + r * kThreadRows;
      if (i < p.output_height && j < p.output_width) {
        ConvolveElement<T>::store(output + i * p.output_width, sums[r]);
      }
    }
  }
}

void convolve2d_launch(const ConvolveParams& p, Workspace& workspace) {
  const int64_t across = (p.output_width + kTileWidth - 1) / kTileWidth;
  const int64_t down = (p.output_height + kTileHeight - 1) / kTileHeight;
  const int64_t tiles = p.batch.count * across * down;
  with_convolve_type(p.kind, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    using Sum = typename ConvolveElement<T>::Sum;
    const Piece piece = piece_of<Sum>(p);
    const int64_t elements = inputs_of(piece) + piece.rows * piece.columns;
    launch(convolve2d<T>, grid_for(tiles), dim3(kThreads), elements * sizeof(Sum),
           workspace.stream(), p, piece, tiles);
  });
}

const bool registered = convolve2d_stub.set(kCudaSlot, convolve2d_launch);

}  // namespace
}  // namespace visops
