// NOTE [ The networks' convolution by matrix units ]
// Like NOTE [ The networks' convolution on CUDA ], but a sum goes over (kernel row, kernel column,
// input channel): a piece (NOTE [ Tiles for the matrix units ]) is some channels of one pixel. So a
// piece has one test for whether it lies in the image, and with channels_last it is one load. The
// last piece of a kernel element is filled up with zeros.
//
// The weights are copied in that order, pieces of adjacent rows side by side. All counts and
// indices but those of memory fit 32 bits.
#pragma once

#include "core/convolution/conv2d_matrix.h"
#include "core/workspace.h"
#include "cuda/convolution/conv2d_pieces.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// What the host knows of a launch.
struct ConvGemm {
  const Words* weights;  // [groups, kernel rows, kernel columns, pieces, rows]
  int pieces;            // of a kernel element
  int rows, planes;
  int channel_stride;  // of the input
};

// `whole`: whether the input is read in whole pieces.
template <class Element, bool whole>
struct ConvGemmProblem {
  using Stored = typename Element::Stored;
  static constexpr bool whole_left = true, left_along_depth = false;
  static constexpr bool whole_right = whole, right_along_depth = whole;

  const Conv2dParams& p;
  const ConvGemm& g;
  const ConvAxis &long_y, &long_x;
  GemmAxis y, x;
  int64_t group;
  int64_t columns;

  struct Tap {
    int v, u, piece;
  };
  struct Left {
    bool inside;
    const Words* weights;
  };
  struct Right {
    const Stored* image;
    int y, x;  // what tap 0 reads
  };

  __device__ void go_on(Tap* tap, int pieces = kGemmPieces) const {
    tap->piece += pieces;
    while (tap->piece >= g.pieces) {
      tap->piece -= g.pieces;
      if (++tap->u == x.taps) {
        tap->u = 0;
        ++tap->v;
      }
    }
  }
  __device__ Tap cursor_at(int piece) const {
    Tap tap = {0, 0, 0};
    go_on(&tap, piece);
    return tap;
  }
  __device__ bool is_tap(const Tap& tap) const { return tap.v < y.taps && tap.u < x.taps; }

  __device__ Left left_at(int64_t row) const {
    const int64_t kernels = p.y.kernel * p.x.kernel;
    return {row < g.rows, g.weights + group * kernels * g.pieces * g.rows + row};
  }
  __device__ void load_left(const Left& at, const Tap& tap, GemmPiece<Element>* piece) const {
    if (!at.inside || !is_tap(tap)) return piece->clear();
    const int v = y.kernel_first + tap.v * y.kernel_step;
    const int u = x.kernel_first + tap.u * x.kernel_step;
    const int line = (v * static_cast<int>(p.x.kernel) + u) * g.pieces + tap.piece;
    piece->load_whole(at.weights + int64_t{line} * g.rows);
  }

  struct Pixel {
    uint32_t image, line, column;
  };
  __device__ Pixel pixel_at(int64_t number) const {
    const uint32_t n = static_cast<uint32_t>(number), width = static_cast<uint32_t>(long_x.count);
    const uint32_t height = static_cast<uint32_t>(long_y.count);
    const uint32_t all_lines = n / width, image = all_lines / height;
    return {image, all_lines - image * height, n - all_lines * width};
  }
  __device__ Right right_at(int64_t column) const {
    const auto* const from = static_cast<const Stored*>(p.from.data);
    if (column >= columns) return {from, kOutside, 0};
    const Pixel pixel = pixel_at(column);
    return {
        from + pixel.image * p.from.batch_stride + group * p.from_channels * p.from.channel_stride,
        y.first + static_cast<int>(pixel.line) * y.step,
        x.first + static_cast<int>(pixel.column) * x.step};
  }
  __device__ void load_right(const Right& at, const Tap& tap, GemmPiece<Element>* piece) const {
    const int row = at.y + tap.v * y.tap_step, col = at.x + tap.u * x.tap_step;
    if (!is_tap(tap) || !is_within(row, y.size) || !is_within(col, x.size)) return piece->clear();
    const int plane = tap.piece * Element::kNumbers;
    const Stored* const element = at.image + row * p.from.row_stride + col * p.from.column_stride +
                                  int64_t{plane} * g.channel_stride;
    if constexpr (whole) {
      piece->load_whole(element);
    } else {
      piece->load(element, g.channel_stride, g.planes - plane);
    }
  }

  __device__ float start(int64_t row) const {
    return row < g.rows ? bias_value<ConvElement<Stored, float, 1>>(p, group, row) : 0.0f;
  }
  __device__ int64_t target(int64_t column) const {
    if (column >= columns) return -1;
    const Pixel pixel = pixel_at(column);
    return pixel.image * p.to.batch_stride + long_y.out_index(pixel.line) * p.to.row_stride +
           long_x.out_index(pixel.column) * p.to.column_stride;
  }
  __device__ void store(int64_t row, int64_t target, float sum) const {
    if (row >= g.rows) return;
    const int64_t channel = group * p.to_channels + row;
    conv_store(static_cast<Stored*>(p.to.data) + target + channel * p.to.channel_stride, sum);
  }
};

template <class Element, bool whole>
__global__ void __launch_bounds__(kGemmThreads, kGemmBlocks)
    gemm_conv2d(const __grid_constant__ Conv2dParams p, const __grid_constant__ ConvGemm g,
                const int64_t row_tiles, const int64_t column_tiles, const int64_t tiles) {
  const int64_t count_x = phases_x(p);
  GemmTurn turn;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t column_tile = tile % column_tiles, rest = tile / column_tiles;
    const int64_t row_tile = rest % row_tiles, which = rest / row_tiles;
    const int64_t group = which % p.groups, phase = which / p.groups;
    const ConvAxis y = axis_of(p, p.y, phase / count_x), x = axis_of(p, p.x, phase % count_x);
    const int64_t columns = p.batch * y.count * x.count;
    if (column_tile * kGemmColumns >= columns) continue;  // other phases have more
    const ConvGemmProblem<Element, whole> problem = {
        p, g, y, x, gemm_axis(y), gemm_axis(x), group, columns};
    const int pieces = static_cast<int>(y.taps * x.taps) * g.pieces;
    const int steps = (pieces + kGemmPieces - 1) / kGemmPieces;
    gemm_tile<Element>(problem, row_tile * kGemmRows, column_tile * kGemmColumns,
                       steps > 0 ? steps : 1, &turn);
  }
}

// A copy of the weights for the kernel above: `count` pieces.
template <class Stored>
__global__ void __launch_bounds__(kGemmThreads)
    conv2d_pack_weights(const __grid_constant__ Conv2dParams p, const __grid_constant__ ConvGemm g,
                        const int64_t count, Words* const packed) {
  constexpr int kNumbers = 16 / static_cast<int>(sizeof(Stored));
  const int64_t step = int64_t{gridDim.x} * kGemmThreads;
  for (int64_t i = int64_t{blockIdx.x} * kGemmThreads + threadIdx.x; i < count; i += step) {
    const int64_t line = i / g.rows, row = i - line * g.rows;
    const int64_t element = line / g.pieces, plane = (line - element * g.pieces) * kNumbers;
    const int64_t all_v = element / p.x.kernel, u = element - all_v * p.x.kernel;
    const int64_t group = all_v / p.y.kernel, v = all_v - group * p.y.kernel;
    const Stored* const from = static_cast<const Stored*>(p.weight) + group * p.weight_group +
                               row * p.weight_to + v * p.weight_row + u * p.weight_column;
    uint32_t bits[kNumbers];
    for (int n = 0; n < kNumbers; ++n) {
      bits[n] = plane + n < g.planes ? number_bits(from + (plane + n) * p.weight_from) : 0;
    }
    Words words;
    for (int n = 0; n < 4; ++n) {
      words.word[n] =
          kNumbers == 4 ? bits[n] : bits[2 * n % kNumbers] | bits[(2 * n + 1) % kNumbers] << 16;
    }
    packed[i] = words;
  }
}

// Whether the kernels above take this problem; otherwise conv2d_kernel.cu's own do. Strides change
// no bit of the result: they have a say only in tensors of terabytes.
static inline bool takes_gemm(const Conv2dParams& p) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (!has_gemm_element(p.kind, p.allow_tf32) || !fills_pieces(p.kind, p.from_channels)) {
    return false;
  }
  const int64_t pieces = gemm_pieces(p.kind, p.from_channels);
  return fits_gemm(p.y) && fits_gemm(p.x) && p.y.kernel * p.x.kernel < kMost / kGemmPieces &&
         p.y.kernel * p.x.kernel * pieces < kMost / kGemmPieces && p.to_channels < kMost &&
         fits_stride(p.from.channel_stride) && p.batch < kMost && p.batch * p.y.input < kMost &&
         p.batch * p.y.input * p.x.input < kMost && p.batch * p.y.output < kMost &&
         p.batch * p.y.output * p.x.output < kMost &&
         has_matrix_units(gemm_conv2d<GemmElement<float, Tf32>, false>);
}

static inline void launch_gemm(const Conv2dParams& p, Workspace& workspace) {
  const int64_t pixels = axis_of(p, p.y, 0).count * axis_of(p, p.x, 0).count;
  const int64_t row_tiles = parts_of(p.to_channels, kGemmRows);
  const int64_t column_tiles = parts_of(p.batch * pixels, kGemmColumns);
  const int64_t tiles = phases_y(p) * phases_x(p) * p.groups * row_tiles * column_tiles;
  const int64_t pieces = gemm_pieces(p.kind, p.from_channels);
  const int64_t count = p.groups * p.y.kernel * p.x.kernel * pieces * p.to_channels;
  Words* const weights = allocate<Words>(workspace, count);
  const ConvGemm g = {weights, static_cast<int>(pieces), static_cast<int>(p.to_channels),
                      static_cast<int>(p.from_channels), static_cast<int>(p.from.channel_stride)};
  const bool whole = lies_in_pieces(p.from, p.kind, p.from_channels, p.from.channel_stride,
                                    p.from.column_stride, p.from.row_stride);
  with_gemm_element(p.kind, [&](auto element) {
    using Element = decltype(element);
    launch(conv2d_pack_weights<typename Element::Stored>, grid_for(parts_of(count, kGemmThreads)),
           dim3(kGemmThreads), 0, workspace.stream(), p, g, count, weights);
    launch(whole ? gemm_conv2d<Element, true> : gemm_conv2d<Element, false>, grid_for(tiles),
           dim3(kGemmThreads), 0, workspace.stream(), p, g, row_tiles, column_tiles, tiles);
  });
}

}  // namespace
}  // namespace visops
