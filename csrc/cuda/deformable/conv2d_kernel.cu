// NOTE [ Deformable convolution on CUDA ]
// A block computes a tile of 64 output channels by 64 pixels of any images, with its operands in
// shared memory; samples are read when needed, never stored. A thread samples one pixel for some
// channels of a tap after another, and places the sample once for all channels that share it. One
// thread computes a sum, by tap, then by channel, in float32 for halves.
//
// Adjacent threads have adjacent pixels, whose samples are near each other if offsets are smooth:
// they are read from the same cache lines where the input is contiguous, and where it is
// channels_last, a thread's next channels are in the line that it has read.
#include "core/workspace.h"
#include "cuda/deformable/conv2d_samples.h"
#include "cuda/matrix_tile.h"

namespace visops {
namespace {

template <class T>
struct DeformProblem {
  using Acc = typename Accumulate<T>::type;

  const DeformConvParams& p;
  int64_t group;
  int64_t rows, columns, depth;

  struct Column {
    bool inside;
    PixelAt pixel;
    int64_t tap, places;  // whose sample this is
    SampleTaps<Acc> sample;
  };
  struct At {
    int64_t tap, channel;  // of the group
  };

  __device__ int64_t row(int64_t m) const { return m; }
  __device__ Acc start(int64_t m) const {
    if (m >= rows || p.bias == nullptr) return Acc{};
    return load_number(static_cast<const T*>(p.bias) + group * rows + m);
  }
  __device__ Column column(int64_t j) const {
    Column column = {};
    column.inside = j < columns;
    column.pixel = pixel_at(p, j);
    column.tap = -1;
    return column;
  }
  __device__ At at(int64_t k) const {
    const int64_t tap = k / p.group_channels();
    return {tap, k - tap * p.group_channels()};
  }
  __device__ Acc left(int64_t m, const At& at) const {
    if (m >= rows) return Acc{};
    const int64_t row = (group * rows + m) * p.group_channels() + at.channel;
    return load_number(static_cast<const T*>(p.weight) + row * p.taps() + at.tap);
  }
  __device__ Acc right(const At& at, Column& column) const {
    if (!column.inside) return Acc{};
    const int64_t channel = group * p.group_channels() + at.channel;
    const int64_t places = channel / p.offset_channels();
    if (at.tap != column.tap || places != column.places) {
      column.tap = at.tap;
      column.places = places;
      column.sample = sample_taps<Acc>(p, column.pixel, places, at.tap);
    }
    return read_sample<T>(p, column.sample, channel);
  }
  __device__ void store(int64_t m, int64_t j, Acc value) const {
    if (m >= rows || j >= columns) return;
    const int64_t image = j / p.pixels(), pixel = j - image * p.pixels();
    store_element(static_cast<T*>(p.output) + image * p.output_batch +
                      (group * rows + m) * p.output_channel + pixel * p.output_pixel,
                  value);
  }
};

template <class T>
__global__ void __launch_bounds__(kTileThreads)
    deform_conv2d(const __grid_constant__ DeformConvParams p, const int64_t row_tiles,
                  const int64_t column_tiles, const int64_t tiles) {
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t column_tile = tile % column_tiles, rest = tile / column_tiles;
    const int64_t group = rest / row_tiles, row_tile = rest - group * row_tiles;
    const DeformProblem<T> problem = {p, group, p.group_outputs(), p.batch * p.pixels(),
                                      p.taps() * p.group_channels()};
    multiply_tile<typename Accumulate<T>::type>(problem, row_tile * kTileSide,
                                                column_tile * kTileSide);
  }
}

void deform_conv2d_cuda(const DeformConvParams& p, Workspace& workspace) {
  const int64_t row_tiles = parts_of(p.group_outputs(), kTileSide);
  const int64_t column_tiles = parts_of(p.batch * p.pixels(), kTileSide);
  const int64_t tiles = p.groups * row_tiles * column_tiles;
  with_floating_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    launch(deform_conv2d<T>, grid_for(tiles), dim3(kTileThreads), 0, workspace.stream(), p,
           row_tiles, column_tiles, tiles);
  });
}

const bool registered = deform_conv2d_stub.set(kCudaSlot, deform_conv2d_cuda);

}  // namespace
}  // namespace visops
