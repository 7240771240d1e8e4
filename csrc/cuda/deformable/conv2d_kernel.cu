// NOTE [ Deformable convolution on CUDA ]
// A block computes a tile of 64 output channels by 64 pixels of any images, with its operands in
// shared memory; samples are read when needed, never stored. One thread computes a sum, by tap,
// then by channel, in float32 for halves. A first kernel copies the weights to that order.
//
// Where channels are adjacent in memory, and groups have a multiple of 16 channels, half a warp
// reads 16 channels of one sample: whole sectors, however far samples lie apart. Where the samples
// of the tile's pixels are is computed once for a tap, in shared memory. Otherwise a thread samples
// one pixel for some channels of a tap after another, and places the sample once for all channels
// that share it; adjacent threads have adjacent pixels, whose samples are near each other if
// offsets are smooth.
#include "cuda/deformable/conv2d_weights.h"
#include "cuda/matrix_tile.h"

namespace visops {
namespace {

template <class T>
struct DeformProblem {
  using Acc = typename Accumulate<T>::type;

  const DeformConvParams& p;
  const T* weights;  // turned
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
    return load_element(static_cast<const T*>(p.bias) + group * rows + m);
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
  __device__ void go_on(At* at, int count) const {
    at->channel += count;
    while (at->channel >= p.group_channels()) {
      at->channel -= p.group_channels();
      ++at->tap;
    }
  }
  __device__ Acc left(int64_t m, const At& at) const {
    if (m >= rows) return Acc{};
    return load_element(weights + (group * rows + m) * depth + at.tap * p.group_channels() +
                        at.channel);
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

// The places of a tile's pixels for one tap, in shared memory.
template <class Acc>
struct TilePlaces {
  SampleTaps<Acc> of_pixel[kTileSide];
};

// The same, for groups and offset groups of a multiple of kTileDepth channels.
template <class T>
struct AdjacentProblem : DeformProblem<T> {
  using Acc = typename Accumulate<T>::type;
  using At = typename DeformProblem<T>::At;

  int64_t first_column;
  TilePlaces<Acc>* places;

  __device__ void begin(int64_t depth) const {
    const DeformConvParams& p = this->p;
    const At at = this->at(depth);
    const int64_t channel = this->group * p.group_channels() + at.channel;
    const int64_t group = channel / p.offset_channels();
    if (at.channel > 0 && channel > group * p.offset_channels()) return;  // the places are the same
    if (threadIdx.x < kTileSide) {
      const int64_t j = first_column + threadIdx.x;
      SampleTaps<Acc> sample = {};
      if (j < this->columns) sample = sample_taps<Acc>(p, pixel_at(p, j), group, at.tap);
      places->of_pixel[threadIdx.x] = sample;
    }
    __syncthreads();
  }
  __device__ int column(int64_t j) const { return static_cast<int>(j - first_column); }
  __device__ Acc right(const At& at, int column) const {
    return read_sample<T>(this->p, places->of_pixel[column],
                          this->group * this->p.group_channels() + at.channel);
  }
};

template <class T, bool adjacent>
__global__ void __launch_bounds__(kTileThreads, sizeof(T) == 8 && !adjacent ? 1 : 2)
    deform_conv2d(const __grid_constant__ DeformConvParams p, const T* const weights,
                  const int64_t row_tiles, const int64_t column_tiles, const int64_t tiles) {
  using Acc = typename Accumulate<T>::type;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t column_tile = tile % column_tiles, rest = tile / column_tiles;
    const int64_t group = rest / row_tiles, row_tile = rest - group * row_tiles;
    const DeformProblem<T> problem = {
        p, weights, group, p.group_outputs(), p.batch * p.pixels(), p.taps() * p.group_channels()};
    const int64_t first_row = row_tile * kTileSide, first_column = column_tile * kTileSide;
    if constexpr (adjacent) {
      __shared__ TilePlaces<Acc> places;
      const AdjacentProblem<T> of_tile = {problem, first_column, &places};
      multiply_tile<Acc, true, true>(of_tile, first_row, first_column);
    } else {
      multiply_tile<Acc, true>(problem, first_row, first_column);
    }
  }
}

template <class T>
void deform_conv2d_as(const DeformConvParams& p, Workspace& workspace) {
  const int64_t row_tiles = parts_of(p.group_outputs(), kTileSide);
  const int64_t column_tiles = parts_of(p.batch * p.pixels(), kTileSide);
  const int64_t tiles = p.groups * row_tiles * column_tiles;
  const T* weights = turned_weights<T>(p, workspace);
  const bool is_adjacent = p.input_channel == 1 && p.group_channels() % kTileDepth == 0 &&
                           p.offset_channels() % kTileDepth == 0;
  launch(is_adjacent ? deform_conv2d<T, true> : deform_conv2d<T, false>, grid_for(tiles),
         dim3(kTileThreads), 0, workspace.stream(), p, weights, row_tiles, column_tiles, tiles);
}

void deform_conv2d_cuda(const DeformConvParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    deform_conv2d_as<std::remove_pointer_t<decltype(element)>>(p, workspace);
  });
}

const bool registered = deform_conv2d_stub.set(kCudaSlot, deform_conv2d_cuda);

}  // namespace
}  // namespace visops
