// NOTE [ The networks' convolution on CUDA ]
// A block computes a tile of 64 output channels by 64 pixels of any images, with its operands in
// shared memory; elements of im2col's matrix are read from the image when needed. Each phase of the
// input's gradient (NOTE [ A convolution as a matrix product ]) has its own tiles. One thread
// computes a sum, from the first k to the last, in float32 for halves.
#include "core/convolution/conv2d.h"
#include "core/dispatch/workspace.h"
#include "cuda/launch.h"
#include "cuda/matrix_tile.h"

namespace visops {
namespace {

// n / d for numbers that are not negative: 64-bit divisions take some 100 instructions.
__device__ int64_t quotient(int64_t n, int64_t d) {
  if (((n | d) >> 32) == 0) return static_cast<uint32_t>(n) / static_cast<uint32_t>(d);
  return n / d;
}

// Rows and columns beyond the last are computed from the last one's operands, and not stored.
template <class Element>
struct ConvProblem {
  using Value = typename Element::Value;
  using Stored = typename Element::Stored;
  static constexpr int kParts = Element::kParts;
  static constexpr bool kSharesPositions = true;

  const Conv2dParams& p;
  ConvAxis y, x;
  int64_t group;
  int64_t rows, columns, depth;  // depth: planes * taps

  struct Row {
    const Stored* weights;
    int part;
  };
  struct Column {
    const Stored* pixel;  // what tap 0 of plane 0 reads; may be outside
    int64_t y, x;
  };
  // A plane and tap: how many bytes it is from a row's first weight, and from what tap 0 reads.
  // Aligned, two numbers are read at once.
  struct alignas(16) At {
    int64_t y, x;
    int64_t pixel, weight;
    int64_t part;
  };
  static constexpr int64_t kBytes = kParts * sizeof(Stored);

  __device__ Row row(int64_t m) const {
    m = m < rows ? m : rows - 1;
    const int64_t weight = group * p.weight_group + m / kParts * p.weight_to;
    return {static_cast<const Stored*>(p.weight) + weight * kParts, static_cast<int>(m % kParts)};
  }
  __device__ Value start(int64_t m) const {
    return m < rows ? bias_value<Element>(p, group, m) : Value{};
  }
  __device__ Column column(int64_t j) const {
    j = j < columns ? j : columns - 1;
    const int64_t all = quotient(j, x.count), image = quotient(all, y.count);
    const int64_t row = y.first + (all - image * y.count) * y.step;
    const int64_t col = x.first + (j - all * x.count) * x.step;
    const int64_t element = image * p.from.batch_stride +
                            group * p.from_channels * p.from.channel_stride +
                            row * p.from.row_stride + col * p.from.column_stride;
    return {static_cast<const Stored*>(p.from.data) + element * kParts, row, col};
  }
  __device__ At at(int64_t k) const {
    k = k < depth ? k : depth - 1;  // what is beyond is loaded, and not multiplied
    const int64_t rest = quotient(k, x.taps), u = k - rest * x.taps;
    const int64_t plane = quotient(rest, y.taps), v = rest - plane * y.taps;
    const int64_t channel = plane / kParts, line = v * y.tap_step, pixel = u * x.tap_step;
    return {line, pixel,
            (channel * p.from.channel_stride + line * p.from.row_stride +
             pixel * p.from.column_stride) *
                kBytes,
            (channel * p.weight_from + y.kernel_index(v) * p.weight_row +
             x.kernel_index(u) * p.weight_column) *
                kBytes,
            plane % kParts};
  }
  // What is so many bytes behind.
  static __device__ const Stored* behind(const Stored* from, int64_t bytes) {
    return reinterpret_cast<const Stored*>(reinterpret_cast<const char*>(from) + bytes);
  }
  __device__ Value left(const Row& row, const At& at) const {
    return factor_of<Element>(behind(row.weights, at.weight), row.part, at.part);
  }
  __device__ Value right(const At& at, const Column& column) const {
    const uint64_t row = static_cast<uint64_t>(column.y + at.y);
    const uint64_t col = static_cast<uint64_t>(column.x + at.x);
    if (row >= static_cast<uint64_t>(y.size) || col >= static_cast<uint64_t>(x.size)) {
      return Value{};
    }
    return conv_value(behind(column.pixel, at.pixel)[kParts == 1 ? 0 : at.part]);
  }
  // Where a column's results begin; null for none.
  __device__ Stored* result(int64_t j) const {
    if (j >= columns) return nullptr;
    const int64_t all = quotient(j, x.count), image = quotient(all, y.count);
    const int64_t element = image * p.to.batch_stride +
                            group * p.to_channels * p.to.channel_stride +
                            y.out_index(all - image * y.count) * p.to.row_stride +
                            x.out_index(j - all * x.count) * p.to.column_stride;
    return static_cast<Stored*>(p.to.data) + element * kParts;
  }
  __device__ void store(int64_t m, Stored* to, Value value) const {
    if (m >= rows || to == nullptr) return;
    conv_store(to + m / kParts * p.to.channel_stride * kParts + m % kParts, value);
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
