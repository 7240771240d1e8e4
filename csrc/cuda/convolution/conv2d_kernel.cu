// NOTE [ The networks' convolution on CUDA ]
// A block computes a tile of 64 output channels by 64 pixels of any images, with its operands in
// shared memory; elements of im2col's matrix are read from the image when needed. Each phase of the
// input's gradient (NOTE [ A convolution as a matrix product ]) has its own tiles. One thread
// computes a sum, from the first k to the last, in float32 for halves.
//
// Halves, and float32 where TF32 is allowed, go to NOTE [ The networks' convolution by matrix units
// ] where that is worth it.
#include "core/convolution/conv2d_matrix.h"
#include "core/workspace.h"
#include "cuda/convolution/conv2d_gemm.h"
#include "cuda/launch.h"
#include "cuda/matrix_tile.h"

namespace visops {
namespace {

template <class Element>
struct ConvProblem {
  using Value = typename Element::Value;
  using Stored = typename Element::Stored;
  static constexpr int kParts = Element::kParts;

  const Conv2dParams& p;
  ConvAxis y, x;
  int64_t group;
  int64_t rows, columns, depth;  // depth: planes * taps

  struct Column {
    bool inside;
    int64_t at;    // where the image begins, in elements
    int64_t y, x;  // what tap 0 reads
  };
  struct At {
    int64_t plane, v, u;
  };

  __device__ int64_t row(int64_t m) const { return m; }
  __device__ Value start(int64_t m) const {
    return m < rows ? bias_value<Element>(p, group, m) : Value{};
  }
  __device__ Column column(int64_t j) const {
    const int64_t pixels = y.count * x.count, image = j / pixels, pixel = j - image * pixels;
    const int64_t line = pixel / x.count;
    return {j < columns,
            image * p.from.batch_stride + group * p.from_channels * p.from.channel_stride,
            y.first + line * y.step, x.first + (pixel - line * x.count) * x.step};
  }
  __device__ At at(int64_t k) const {
    const int64_t taps = y.taps * x.taps, plane = k / taps, tap = k - plane * taps;
    const int64_t v = tap / x.taps;
    return {plane, v, tap - v * x.taps};
  }
  __device__ void go_on(At* at, int count) const {
    at->u += count;
    while (at->u >= x.taps) {
      at->u -= x.taps;
      if (++at->v < y.taps) continue;
      at->v = 0;
      ++at->plane;
    }
  }
  __device__ Value left(int64_t m, const At& at) const {
    if (m >= rows) return Value{};
    return weight_value<Element>(p, m, at.plane,
                                 group * p.weight_group + y.kernel_index(at.v) * p.weight_row +
                                     x.kernel_index(at.u) * p.weight_column);
  }
  __device__ Value right(const At& at, const Column& column) const {
    const int64_t row = column.y + at.v * y.tap_step, col = column.x + at.u * x.tap_step;
    if (!column.inside || row < 0 || row >= y.size || col < 0 || col >= x.size) return Value{};
    const int64_t element = column.at + at.plane / kParts * p.from.channel_stride +
                            row * p.from.row_stride + col * p.from.column_stride;
    return conv_value(
        static_cast<const Stored*>(p.from.data)[element * kParts + at.plane % kParts]);
  }
  __device__ void store(int64_t m, int64_t j, Value value) const {
    if (m >= rows || j >= columns) return;
    const int64_t pixels = y.count * x.count, image = j / pixels, pixel = j - image * pixels;
    const int64_t line = pixel / x.count;
    const int64_t element = image * p.to.batch_stride +
                            (group * p.to_channels + m / kParts) * p.to.channel_stride +
                            y.out_index(line) * p.to.row_stride +
                            x.out_index(pixel - line * x.count) * p.to.column_stride;
    conv_store(static_cast<Stored*>(p.to.data) + element * kParts + m % kParts, value);
  }
};

template <class Element>
__global__ void __launch_bounds__(kTileThreads)
    conv2d(const __grid_constant__ Conv2dParams p, const int64_t row_tiles,
           const int64_t column_tiles, const int64_t tiles) {
  const int64_t count_x = phases_x(p);
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t column_tile = tile % column_tiles, rest = tile / column_tiles;
    const int64_t row_tile = rest % row_tiles, which = rest / row_tiles;
    const int64_t group = which % p.groups, phase = which / p.groups;
    const ConvAxis y = axis_of(p, p.y, phase / count_x), x = axis_of(p, p.x, phase % count_x);
    const int64_t columns = p.batch * y.count * x.count;
    if (column_tile * kTileSide >= columns) continue;  // other phases have more
    const ConvProblem<Element> problem = {
        p, y, x, group, matrix_rows(p), columns, matrix_planes(p) * y.taps * x.taps};
    multiply_tile<typename Element::Value>(problem, row_tile * kTileSide, column_tile * kTileSide);
  }
}

void conv2d_launch(const Conv2dParams& p, Workspace& workspace) {
  if (takes_gemm(p)) return launch_gemm(p, workspace);
  // The first phase has the most pixels.
  const int64_t pixels = axis_of(p, p.y, 0).count * axis_of(p, p.x, 0).count;
  const int64_t row_tiles = (matrix_rows(p) + kTileSide - 1) / kTileSide;
  const int64_t column_tiles = (p.batch * pixels + kTileSide - 1) / kTileSide;
  const int64_t tiles = phases_y(p) * phases_x(p) * p.groups * row_tiles * column_tiles;
  with_conv_element(p.kind, [&](auto element) {
    launch(conv2d<decltype(element)>, grid_for(tiles), dim3(kTileThreads), 0, workspace.stream(), p,
           row_tiles, column_tiles, tiles);
  });
}

const bool registered = conv2d_stub.set(kCudaSlot, conv2d_launch);

}  // namespace
}  // namespace visops
