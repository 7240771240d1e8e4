// NOTE [ The weight's gradient on CUDA ]
// Like NOTE [ The networks' convolution on CUDA ], but a row is an output channel, a column is a
// weight's (input channel, kernel row, kernel column), and a sum goes over the pixels of all
// images, the batch outermost. One thread computes a sum, so its order depends only on the shapes.
#include "core/convolution/conv2d_matrix.h"
#include "core/workspace.h"
#include "cuda/launch.h"
#include "cuda/matrix_tile.h"

namespace visops {
namespace {

template <class Element>
struct WeightProblem {
  using Value = typename Element::Value;
  using Stored = typename Element::Stored;
  static constexpr int kParts = Element::kParts;

  const Conv2dWeightParams& p;
  ConvAxis y, x;
  int64_t group;
  int64_t rows, columns, depth;  // depth: images * pixels * parts

  struct Column {
    bool inside;
    int64_t at;    // where the channel begins, in elements
    int64_t v, u;  // from an output to what it reads
  };
  struct At {
    int64_t image, line, pixel, part;
  };

  __device__ int64_t row(int64_t m) const { return m; }
  __device__ Value start(int64_t) const { return Value{}; }
  __device__ Column column(int64_t j) const {
    const int64_t taps = y.taps * x.taps, channel = j / taps, tap = j - channel * taps;
    const int64_t v = tap / x.taps;
    return {j < columns, (group * p.in_channels + channel) * p.input.channel_stride,
            y.first + v * y.tap_step, x.first + (tap - v * x.taps) * x.tap_step};
  }
  __device__ At at(int64_t k) const {
    const int64_t part = k % kParts, pixel = k / kParts, line = pixel / x.count;
    return {line / y.count, line % y.count, pixel - line * x.count, part};
  }
  __device__ Value left(int64_t m, const At& at) const {
    if (m >= rows) return Value{};
    const int64_t element = at.image * p.grad.batch_stride +
                            (group * p.out_channels + m / kParts) * p.grad.channel_stride +
                            at.line * p.grad.row_stride + at.pixel * p.grad.column_stride;
    return factor_of<Element>(static_cast<const Stored*>(p.grad.data) + element * kParts,
                              m % kParts, at.part);
  }
  __device__ Value right(const At& at, const Column& column) const {
    const int64_t row = column.v + at.line * y.step, col = column.u + at.pixel * x.step;
    if (!column.inside || row < 0 || row >= y.size || col < 0 || col >= x.size) return Value{};
    const int64_t element = column.at + at.image * p.input.batch_stride + row * p.input.row_stride +
                            col * p.input.column_stride;
    return conv_value(static_cast<const Stored*>(p.input.data)[element * kParts + at.part]);
  }
  __device__ void store(int64_t m, int64_t j, Value value) const {
    if (m >= rows || j >= columns) return;
    const int64_t element = (group * p.out_channels + m / kParts) * columns + j;
    conv_store(static_cast<Stored*>(p.weight_grad) + element * kParts + m % kParts, value);
  }
};

template <class Element>
__global__ void __launch_bounds__(kTileThreads)
    conv2d_backward_weight(const __grid_constant__ Conv2dWeightParams p, const int64_t row_tiles,
                           const int64_t column_tiles, const int64_t tiles) {
  const ConvAxis y = forward_axis(p.y), x = forward_axis(p.x);
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t column_tile = tile % column_tiles, rest = tile / column_tiles;
    const WeightProblem<Element> problem = {p,
                                            y,
                                            x,
                                            rest / row_tiles,
                                            p.out_channels * Element::kParts,
                                            p.in_channels * y.taps * x.taps,
                                            p.batch * y.count * x.count * Element::kParts};
    multiply_tile<typename Element::Value>(problem, rest % row_tiles * kTileSide,
                                           column_tile * kTileSide);
  }
}

void conv2d_backward_weight_launch(const Conv2dWeightParams& p, Workspace& workspace) {
  const int64_t rows = p.out_channels * conv_parts(p.kind);
  const int64_t columns = p.in_channels * p.y.kernel * p.x.kernel;
  const int64_t row_tiles = (rows + kTileSide - 1) / kTileSide;
  const int64_t column_tiles = (columns + kTileSide - 1) / kTileSide;
  const int64_t tiles = p.groups * row_tiles * column_tiles;
  with_conv_element(p.kind, [&](auto element) {
    launch(conv2d_backward_weight<decltype(element)>, grid_for(tiles), dim3(kTileThreads), 0,
           workspace.stream(), p, row_tiles, column_tiles, tiles);
  });
}

const bool registered = conv2d_backward_weight_stub.set(kCudaSlot, conv2d_backward_weight_launch);

}  // namespace
}  // namespace visops
