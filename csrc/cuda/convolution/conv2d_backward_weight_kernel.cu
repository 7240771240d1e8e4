// NOTE [ The weight's gradient on CUDA ]
// Like NOTE [ The networks' convolution on CUDA ], but a row is an output channel, a column is a
// weight's (input channel, kernel row, kernel column), and a sum goes over the pixels of all
// images, the batch outermost. There are few such tiles and many pixels, so the pixels are cut into
// slices (cuda/convolution/conv2d_backward_weight_kernel.cu). The order of a sum depends only on
// the shapes.
#include <cstdint>

#include "core/convolution/conv2d.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/arithmetic.h"
#include "core/platform.h"
#include "cuda/launch.h"
#include "cuda/matrix_tile.h"

namespace visops {
namespace {

// Long sums of few results, cut into slices: each is summed by blocks of its own, and a second
// kernel adds the slices in order. How they are cut depends on the shapes alone.

struct DepthSlices {
  int64_t count, each;  // of the depth
};

struct DepthLimits {
  int64_t blocks;  // wanted, some for each multiprocessor
  int64_t least;   // of the depth in a slice
  int64_t bytes;   // of scratch, at most, unless one slice takes more
};

// `tiles` blocks sum a slice, whose sums take `slice_bytes`.
VISOPS_FN DepthSlices cut_depth(int64_t depth, int64_t tiles, int64_t slice_bytes,
                                const DepthLimits& limits) {
  const auto least_of = [](int64_t a, int64_t b) { return a < b ? a : b; };
  int64_t count = least_of(parts_of(limits.blocks, tiles), limits.bytes / slice_bytes);
  count = least_of(count, parts_of(depth, limits.least));
  if (count < 1) count = 1;
  const int64_t each = parts_of(depth, count);
  return {each > 0 ? parts_of(depth, each) : 0, each};
}

constexpr int kSumThreads = 256;
// Two blocks for each of some 132 multiprocessors, twice. The depth is in pixels.
#if defined(VISOPS_SMALL_CONSTANTS)
constexpr DepthLimits kLimits = {12, 24, int64_t{64} << 20};
#else
constexpr DepthLimits kLimits = {528, 512, int64_t{64} << 20};
#endif

template <class Element>
struct WeightProblem {
  using Value = typename Element::Value;
  using Stored = typename Element::Stored;
  static constexpr int kParts = Element::kParts;
  static constexpr bool kSharesPositions = false;

  const Conv2dWeightParams& p;
  ConvAxis y, x;
  int64_t group;
  int64_t first;                 // number of the slice's first pixel, among all images'
  int64_t rows, columns, depth;  // depth: pixels of the slice * parts
  Value* sums;                   // [out, columns, parts] of this slice and group

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
    const int64_t part = k % kParts, pixel = first + k / kParts, line = pixel / x.count;
    const int64_t image = line / y.count;
    return {image, line - image * y.count, pixel - line * x.count, part};
  }
  // By whole pixels: `count` is a multiple of the parts.
  __device__ void go_on(At* at, int count) const {
    at->pixel += count / kParts;
    while (at->pixel >= x.count) {
      at->pixel -= x.count;
      if (++at->line < y.count) continue;
      at->line = 0;
      ++at->image;
    }
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
  __device__ int64_t result(int64_t j) const { return j; }
  __device__ void store(int64_t m, int64_t j, Value value) const {
    if (m >= rows || j >= columns) return;
    sums[(m / kParts * columns + j) * kParts + m % kParts] = value;
  }
};

template <class Element>
__global__ void __launch_bounds__(kTileThreads)
    conv2d_backward_weight(const __grid_constant__ Conv2dWeightParams p,
                           const __grid_constant__ DepthSlices slices, const int64_t row_tiles,
                           const int64_t column_tiles, const int64_t tiles,
                           typename Element::Value* const sums) {
  const ConvAxis y = forward_axis(p.y), x = forward_axis(p.x);
  const int64_t pixels = p.batch * y.count * x.count;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t column_tile = tile % column_tiles, rest = tile / column_tiles;
    const int64_t row_tile = rest % row_tiles, which = rest / row_tiles;
    const int64_t slice = which / p.groups, first = slice * slices.each, left = pixels - first;
    const int64_t rows = p.out_channels * Element::kParts;
    const int64_t columns = p.in_channels * y.taps * x.taps;
    const WeightProblem<Element> problem = {
        p,
        y,
        x,
        which - slice * p.groups,
        first,
        rows,
        columns,
        (left < slices.each ? left : slices.each) * Element::kParts,
        sums + which * rows * columns};
    multiply_tile<typename Element::Value>(problem, row_tile * kTileSide, column_tile * kTileSide);
  }
}

// Adds the slices of `count` sums.
template <class Stored, class Value>
__global__ void __launch_bounds__(kSumThreads)
    conv2d_sum_slices(const __grid_constant__ Conv2dWeightParams p, const int64_t slices,
                      const int64_t count, const Value* const sums) {
  const int64_t step = int64_t{gridDim.x} * kSumThreads;
  for (int64_t i = int64_t{blockIdx.x} * kSumThreads + threadIdx.x; i < count; i += step) {
    Value sum{};
    for (int64_t slice = 0; slice < slices; ++slice) {
      sum = static_cast<Value>(sum + sums[slice * count + i]);
    }
    conv_store(static_cast<Stored*>(p.weight_grad) + i, sum);
  }
}

template <class Stored, class Value>
void sum_slices(const Conv2dWeightParams& p, Workspace& workspace, int64_t slices, int64_t count,
                const Value* sums) {
  launch(conv2d_sum_slices<Stored, Value>, grid_for(parts_of(count, kSumThreads)),
         dim3(kSumThreads), 0, workspace.stream(), p, slices, count, sums);
}

void conv2d_backward_weight_launch(const Conv2dWeightParams& p, Workspace& workspace) {
  const int64_t rows = p.out_channels * conv_parts(p.kind);
  const int64_t columns = p.in_channels * p.y.kernel * p.x.kernel;
  const int64_t count = p.groups * rows * columns;
  const int64_t row_tiles = parts_of(rows, kTileSide), column_tiles = parts_of(columns, kTileSide);
  const int64_t slice_tiles = p.groups * row_tiles * column_tiles;
  with_conv_element(p.kind, [&](auto element) {
    using Element = decltype(element);
    using Value = typename Element::Value;
    const DepthSlices slices = cut_depth(p.batch * p.y.output * p.x.output, slice_tiles,
                                         count * static_cast<int64_t>(sizeof(Value)), kLimits);
    Value* const sums = allocate<Value>(workspace, slices.count * count);
    const int64_t tiles = slices.count * slice_tiles;
    launch(conv2d_backward_weight<Element>, grid_for(tiles), dim3(kTileThreads), 0,
           workspace.stream(), p, slices, row_tiles, column_tiles, tiles, sums);
    sum_slices<typename Element::Stored>(p, workspace, slices.count, count, sums);
  });
}

const bool registered = conv2d_backward_weight_stub.set(kCudaSlot, conv2d_backward_weight_launch);

}  // namespace
}  // namespace visops
