// NOTE [ Deformable convolution's gradient of the weight on CUDA ]
// Like NOTE [ Deformable convolution on CUDA ], but a row is an output channel, a column is a
// weight's (tap, input channel), and a sum goes over output pixels. There are few such tiles and
// many pixels, so the pixels of all images are cut into slices: each tile of a slice is summed by a
// block, and a second kernel adds the slices in order. How they are cut depends on the shapes
// alone.
#include "core/workspace.h"
#include "cuda/deformable/conv2d_samples.h"
#include "cuda/depth_slices.h"
#include "cuda/matrix_tile.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr DepthLimits kLimits = {2048, 256, kScratchBytes};  // the depth: pixels

template <class T>
struct WeightProblem {
  using Acc = typename Accumulate<T>::type;

  const DeformConvParams& p;
  int64_t group, slice;
  int64_t first;  // pixel of all images
  int64_t rows, columns, depth;
  Acc* sums;  // [slices, groups, rows, columns]

  struct Column {
    bool inside;
    int64_t tap, channel, places;
  };

  __device__ int64_t row(int64_t m) const { return m; }
  __device__ Acc start(int64_t) const { return Acc{}; }
  __device__ Column column(int64_t j) const {
    const int64_t ins = p.group_channels(), tap = j / ins, channel = group * ins + j - tap * ins;
    return {j < columns, tap, channel, channel / p.offset_channels()};
  }
  __device__ PixelAt at(int64_t k) const { return pixel_at(p, first + k); }
  __device__ void go_on(PixelAt* at, int count) const {
    at->pixel += count;
    at->column += count;
    while (at->column >= p.x.output) {
      at->column -= p.x.output;
      if (++at->row < p.y.output) continue;
      at->row = 0;
      at->pixel -= p.pixels();
      ++at->image;
    }
  }
  __device__ Acc left(int64_t m, const PixelAt& at) const {
    if (m >= rows) return Acc{};
    const int64_t pixel = at.image * p.pixels() + at.pixel;
    return static_cast<const Acc*>(p.grad)[pixel * p.out_channels + group * rows + m];
  }
  __device__ Acc right(const PixelAt& at, const Column& column) const {
    if (!column.inside) return Acc{};
    return read_sample<T>(p, sample_taps<Acc>(p, at, column.places, column.tap), column.channel);
  }
  __device__ void store(int64_t m, int64_t j, Acc value) const {
    if (m < rows && j < columns) {
      sums[((slice * p.groups + group) * rows + m) * columns + j] = value;
    }
  }
};

template <class T, class Acc>
__global__ void __launch_bounds__(kTileThreads)
    deform_conv2d_weight_slices(const __grid_constant__ DeformConvParams p,
                                const __grid_constant__ DepthSlices slices, const int64_t row_tiles,
                                const int64_t column_tiles, const int64_t tiles, Acc* const sums) {
  const int64_t pixels = p.batch * p.pixels();
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t column_tile = tile % column_tiles, rest = tile / column_tiles;
    const int64_t row_tile = rest % row_tiles, which = rest / row_tiles;
    const int64_t slice = which / p.groups, first = slice * slices.each;
    const int64_t left = pixels - first;
    const WeightProblem<T> problem = {p,
                                      which - slice * p.groups,
                                      slice,
                                      first,
                                      p.group_outputs(),
                                      p.taps() * p.group_channels(),
                                      left < slices.each ? left : slices.each,
                                      sums};
    multiply_tile<Acc>(problem, row_tile * kTileSide, column_tile * kTileSide);
  }
}

template <class T, class Acc>
__global__ void __launch_bounds__(kThreads)
    deform_conv2d_sum_slices(const __grid_constant__ DeformConvParams p, const int64_t slices,
                             const int64_t count, const Acc* const sums) {
  const int64_t ins = p.group_channels(), taps = p.taps(), step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    Acc sum = 0;
    for (int64_t slice = 0; slice < slices; ++slice) sum += sums[slice * count + i];
    const int64_t row = i / (taps * ins), j = i - row * (taps * ins);
    const int64_t tap = j / ins, channel = j - tap * ins;
    store_element(static_cast<T*>(p.grad_weight) + (row * ins + channel) * taps + tap, sum);
  }
}

void backward_weight_cuda(const DeformConvParams& p, Workspace& workspace) {
  const int64_t columns = p.taps() * p.group_channels(), count = p.out_channels * columns;
  const int64_t row_tiles = parts_of(p.group_outputs(), kTileSide);
  const int64_t column_tiles = parts_of(columns, kTileSide);
  const int64_t slice_tiles = p.groups * row_tiles * column_tiles;
  with_floating_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    using Acc = typename Accumulate<T>::type;
    const DepthSlices slices = cut_depth(p.batch * p.pixels(), slice_tiles,
                                         count * static_cast<int64_t>(sizeof(Acc)), kLimits);
    Acc* sums = allocate<Acc>(workspace, slices.count * count);
    const int64_t tiles = slices.count * slice_tiles;
    launch(deform_conv2d_weight_slices<T, Acc>, grid_for(tiles), dim3(kTileThreads), 0,
           workspace.stream(), p, slices, row_tiles, column_tiles, tiles, sums);
    launch(deform_conv2d_sum_slices<T, Acc>, grid_for(parts_of(count, kThreads)), dim3(kThreads), 0,
           workspace.stream(), p, slices.count, count, sums);
  });
}

const bool registered = deform_conv2d_backward_weight_stub.set(kCudaSlot, backward_weight_cuda);

}  // namespace
}  // namespace visops
