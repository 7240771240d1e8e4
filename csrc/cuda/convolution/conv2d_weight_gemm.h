// NOTE [ The weight's gradient by matrix units ]
// A row is an output channel, a column a weight's (kernel row, kernel column, input channel), and a
// sum goes over the pixels of all images: a piece (NOTE [ Tiles for the matrix units ]) is some
// adjacent pixels of a line. The last piece of a line is filled up with zeros, in both operands, so
// that nothing infinite beside it counts.
//
// Where adjacent pixels are adjacent in memory, adjacent threads take adjacent pieces; otherwise
// adjacent channels.
#pragma once

#include "core/convolution/conv2d.h"
#include "cuda/convolution/conv2d_pieces.h"
#include "cuda/depth_slices.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// What the host knows of a launch.
struct WeightGemm {
  DepthSlices slices;  // the depth: steps
  int pieces;          // of a line
  int rows, columns;
  int grad_stride, input_stride;  // from one pixel of the output to the next
  bool whole;                     // whether `grad` is read in whole pieces
  bool left_along_depth, right_along_depth;
  float* sums;  // [slices, groups * rows, columns as the weight's]
};

template <class Element>
struct WeightGemmProblem {
  using Stored = typename Element::Stored;
  static constexpr bool whole_right = false;

  const Conv2dWeightParams& p;
  const WeightGemm& g;
  GemmAxis y, x;
  int height, width;  // of the output
  int64_t group, slice;
  bool whole_left, left_along_depth, right_along_depth;

  struct Run {
    int image, line, piece;
  };
  struct Left {
    bool inside;
    const Stored* channel;
  };
  struct Right {
    const Stored* channel;
    int y, x;  // what output pixel (0, 0) reads
  };

  __device__ Run cursor_at(int piece) const {
    const uint32_t first = static_cast<uint32_t>(slice * g.slices.each * kGemmPieces + piece);
    const uint32_t all_lines = first / static_cast<uint32_t>(g.pieces);
    const uint32_t image = all_lines / static_cast<uint32_t>(height);
    return {static_cast<int>(image),
            static_cast<int>(all_lines - image * static_cast<uint32_t>(height)),
            static_cast<int>(first - all_lines * static_cast<uint32_t>(g.pieces))};
  }
  __device__ void go_on(Run* run) const {
    run->piece += kGemmPieces;
    while (run->piece >= g.pieces) {
      run->piece -= g.pieces;
      if (++run->line == height) {
        run->line = 0;
        ++run->image;
      }
    }
  }
  // How many numbers of the piece lie in the line.
  __device__ int numbers_of(const Run& run) const {
    return run.image < p.batch ? width - run.piece * Element::kNumbers : 0;
  }

  __device__ Left left_at(int64_t row) const {
    const auto* const grad = static_cast<const Stored*>(p.grad.data);
    const int64_t channel = group * p.out_channels + row;
    return {row < g.rows, grad + channel * p.grad.channel_stride};
  }
  __device__ void load_left(const Left& at, const Run& run, GemmPiece<Element>* piece) const {
    const int count = at.inside ? numbers_of(run) : 0;
    if (count <= 0) return piece->clear();
    const Stored* const element = at.channel + run.image * p.grad.batch_stride +
                                  run.line * p.grad.row_stride +
                                  run.piece * Element::kNumbers * int64_t{g.grad_stride};
    if (whole_left) {
      piece->load_whole(element);
    } else {
      piece->load(element, g.grad_stride, count);
    }
  }

  __device__ Right right_at(int64_t column) const {
    const auto* const input = static_cast<const Stored*>(p.input.data);
    if (column >= g.columns) return {input, kOutside, 0};
    const uint32_t channels = static_cast<uint32_t>(p.in_channels);
    const uint32_t tap = static_cast<uint32_t>(column) / channels;
    const uint32_t v = tap / static_cast<uint32_t>(x.taps);
    const int64_t channel =
        group * p.in_channels + (static_cast<uint32_t>(column) - tap * channels);
    return {input + channel * p.input.channel_stride, y.first + static_cast<int>(v) * y.tap_step,
            x.first + static_cast<int>(tap - v * static_cast<uint32_t>(x.taps)) * x.tap_step};
  }
  __device__ void load_right(const Right& at, const Run& run, GemmPiece<Element>* piece) const {
    const int row = at.y + run.line * y.step, count = numbers_of(run);
    if (count <= 0 || !is_within(row, y.size)) return piece->clear();
    const int col = at.x + run.piece * Element::kNumbers * x.step;
    const Stored* const element = at.channel + run.image * p.input.batch_stride +
                                  row * p.input.row_stride + col * p.input.column_stride;
    for (int i = 0; i < Element::kNumbers; ++i) {
      const bool inside = i < count && is_within(col + i * x.step, x.size);
      piece->word[i] = inside ? number_bits(element + int64_t{g.input_stride} * i) : 0;
    }
  }

  __device__ float start(int64_t) const { return 0.0f; }
  // In the weight, taps follow channels.
  __device__ int64_t target(int64_t column) const {
    if (column >= g.columns) return -1;
    const uint32_t channels = static_cast<uint32_t>(p.in_channels);
    const uint32_t tap = static_cast<uint32_t>(column) / channels;
    const uint32_t channel = static_cast<uint32_t>(column) - tap * channels;
    return int64_t{channel} * (y.taps * x.taps) + tap;
  }
  __device__ void store(int64_t row, int64_t target, float sum) const {
    if (row >= g.rows) return;
    g.sums[((slice * p.groups + group) * g.rows + row) * g.columns + target] = sum;
  }
};

template <class Element>
__global__ void __launch_bounds__(kGemmThreads, kGemmBlocks)
    gemm_conv2d_weight(const __grid_constant__ Conv2dWeightParams p,
                       const __grid_constant__ WeightGemm g, const int64_t row_tiles,
                       const int64_t column_tiles, const int64_t all_steps, const int64_t tiles) {
  const ConvAxis y = forward_axis(p.y), x = forward_axis(p.x);
  GemmTurn turn;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t column_tile = tile % column_tiles, rest = tile / column_tiles;
    const int64_t row_tile = rest % row_tiles, which = rest / row_tiles;
    const int64_t slice = which / p.groups, left = all_steps - slice * g.slices.each;
    const WeightGemmProblem<Element> problem = {p,
                                                g,
                                                gemm_axis(y),
                                                gemm_axis(x),
                                                static_cast<int>(y.count),
                                                static_cast<int>(x.count),
                                                which - slice * p.groups,
                                                slice,
                                                g.whole,
                                                g.left_along_depth,
                                                g.right_along_depth};
    gemm_tile<Element>(problem, row_tile * kGemmRows, column_tile * kGemmColumns,
                       static_cast<int>(left < g.slices.each ? left : g.slices.each), &turn);
  }
}

// Whether the kernel above takes this problem; otherwise conv2d_backward_weight_kernel.cu's own
// does. Strides have a say only in tensors of terabytes.
static inline bool takes_gemm(const Conv2dWeightParams& p) {
  constexpr int64_t kMost = int64_t{1} << 31;
  // One channel would leave most columns empty.
  if (!has_gemm_element(p.kind, p.allow_tf32) || !fills_pieces(p.kind, p.x.output) ||
      p.in_channels < 2) {
    return false;
  }
  const int64_t pieces = gemm_pieces(p.kind, p.x.output);
  return fits_gemm(p.y) && fits_gemm(p.x) && p.y.kernel * p.x.kernel < kMost &&
         p.in_channels < kMost && p.y.kernel * p.x.kernel * p.in_channels < kMost - kGemmColumns &&
         p.out_channels < kMost - kGemmRows && p.batch < kMost && p.batch * p.y.output < kMost &&
         p.batch * p.y.output * pieces < kMost - 2 * kGemmPieces &&
         fits_stride(p.grad.column_stride) && fits_stride(p.input.column_stride) &&
         fits_stride(p.x.stride * p.input.column_stride) &&
         has_matrix_units(gemm_conv2d_weight<GemmElement<float, Tf32>>);
}

// Writes sums for each slice of `limits`, whose depth is pixels; returns the slices.
static inline DepthSlices launch_weight_gemm(const Conv2dWeightParams& p, Workspace& workspace,
                                             DepthLimits limits, float** sums) {
  const int64_t pieces = gemm_pieces(p.kind, p.x.output);
  const int64_t columns = p.in_channels * p.y.kernel * p.x.kernel;
  const int64_t row_tiles = parts_of(p.out_channels, kGemmRows);
  const int64_t column_tiles = parts_of(columns, kGemmColumns);
  const int64_t slice_tiles = p.groups * row_tiles * column_tiles;
  const int64_t steps = parts_of(p.batch * p.y.output * pieces, kGemmPieces);
  const int64_t count = p.groups * p.out_channels * columns;
  limits.least = parts_of(limits.least, kGemmPieces * 16 / element_size(p.kind));
  const DepthSlices slices =
      cut_depth(steps, slice_tiles, count * static_cast<int64_t>(sizeof(float)), limits);
  *sums = allocate<float>(workspace, slices.count * count);
  WeightGemm g = {};
  g.slices = slices;
  g.pieces = static_cast<int>(pieces);
  g.rows = static_cast<int>(p.out_channels);
  g.columns = static_cast<int>(columns);
  g.grad_stride = static_cast<int>(p.grad.column_stride);
  g.input_stride = static_cast<int>(p.x.stride * p.input.column_stride);
  g.whole = lies_in_pieces(p.grad, p.kind, p.x.output, p.grad.column_stride, p.grad.channel_stride,
                           p.grad.row_stride);
  g.left_along_depth = p.grad.column_stride <= p.grad.channel_stride;
  g.right_along_depth = p.input.column_stride <= p.input.channel_stride;
  g.sums = *sums;
  const int64_t tiles = slices.count * slice_tiles;
  with_gemm_element(p.kind, [&](auto element) {
    launch(gemm_conv2d_weight<decltype(element)>, grid_for(tiles), dim3(kGemmThreads), 0,
           workspace.stream(), p, g, row_tiles, column_tiles, steps, tiles);
  });
  return slices;
}

}  // namespace
}  // namespace visops
