// NOTE [ Deformable convolution's gradient of the input on CUDA ]
// As in NOTE [ Gradient of values on CUDA ], the front lets torch sort samples by the cell that
// they lie in, and a warp merges the lists of a pixel's four cells by index. Samples are numbered
// in the order in which a pixel adds them up: NOTE [ Gradients of a deformable convolution ]
// (core/deformable/conv2d.h). What they add comes from scratch, which holds the rows' gradient of
// some images and up to 64 channels at a time.
//
// Lane l has channels l, l + 32, ... of the run. Each gradient is written once; there are no
// atomics, and -fmad=false makes bits the CPU's.
#include "cuda/deformable/cell_lists.h"
#include "cuda/deformable/conv2d_row_gradients.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpLanes;
constexpr int kBlocks = 4;             // of a multiprocessor, at least: half of what sm_80 can hold
constexpr int64_t kMostChannels = 64;  // of a run

// A sample's place among all.
struct SampleAt {
  int64_t image, offset_group, tap, pixel;
};

__device__ inline SampleAt sample_at(const DeformConvParams& p, int64_t i) {
  const int64_t in_block = i % kBlockPixels, by_tap = i / kBlockPixels;
  const int64_t tap = by_tap % p.taps(), by_block = by_tap / p.taps();
  const int64_t block = by_block % p.blocks(), plane = by_block / p.blocks();
  const int64_t image = plane / p.offset_groups;
  return {image, plane - image * p.offset_groups, tap, block * kBlockPixels + in_block};
}

// Cell (y, x) has the pixel as its tap 11; there are (height + 1) x (width + 1) of them.
__device__ inline int64_t cell_number(const DeformConvParams& p, int64_t image,
                                      int64_t offset_group, int64_t y, int64_t x) {
  const int64_t plane = image * p.offset_groups + offset_group;
  return (plane * (p.y.input + 1) + y) * (p.x.input + 1) + x;
}

template <class Acc>
__global__ void __launch_bounds__(kThreads)
    deform_conv2d_cells(const __grid_constant__ DeformConvParams p, const int64_t count) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    const SampleAt s = sample_at(p, i);
    int64_t cell = kNoCell;
    if (s.pixel < p.pixels()) {
      const int64_t row = s.pixel / p.x.output;
      const PixelAt at = {s.image, s.pixel, row, s.pixel - row * p.x.output};
      const BilinearSample<Acc> position = locate_tap<Acc>(p, at, s.offset_group, s.tap).position;
      if (position.taps != 0) {
        cell = cell_number(p, s.image, s.offset_group, int64_t{position.y} + 1,
                           int64_t{position.x} + 1);
      }
    }
    p.cells[i] = cell;
  }
}

template <class Acc>
__device__ void add_lists(const DeformConvParams& p, const RowPart& part,
                          const SortedSamples& samples, CellSamples (&lists)[4], int lane,
                          Acc* sum) {
  while (true) {
    const int64_t i = next_sample(lists);
    if (i == INT64_MAX) return;
    const SampleAt s = sample_at(p, i);
    const int64_t row = s.pixel / p.x.output;
    const PixelAt at = {s.image, s.pixel, row, s.pixel - row * p.x.output};
    const LocatedTap<Acc> located = locate_tap<Acc>(p, at, s.offset_group, s.tap);
    Acc weights[4], weight = 0;
    bilinear_weights(located.position, located.mask, weights);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (lists[k].sample != i) continue;  // a sample is in one cell
      weight = weights[3 - k];
      ++lists[k].next;
      load_sample(samples, &lists[k]);
    }
    const Acc* gradient =
        static_cast<const Acc*>(part.data) +
        ((s.image * p.pixels() + s.pixel - part.first) * p.taps() + s.tap) * part.channels;
    for (int c = lane, n = 0; c < part.channels; c += kWarpLanes, ++n) {
      if (n == 0) {
        sum[0] += weight * gradient[c];
      } else {
        sum[1] += weight * gradient[c];
      }
    }
  }
}

template <class Acc>
__global__ void __launch_bounds__(kThreads, kBlocks)
    deform_conv2d_sum_cells(const __grid_constant__ DeformConvParams p,
                            const __grid_constant__ RowPart part, const int64_t first_image,
                            const int64_t positions, const int64_t count) {
  const SortedSamples samples = {p.sorted_cells, p.order, count};
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int64_t step = int64_t{gridDim.x} * kWarps, plane = p.y.input * p.x.input;
  const int64_t offset_group = part.channel / p.offset_channels();
  int64_t i = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpLanes;
  for (; i < positions; i += step) {
    const int64_t image = first_image + i / plane, pixel = i % plane;
    const int64_t y = pixel / p.x.input, x = pixel - y * p.x.input;
    CellSamples lists[4];
    find_samples<4>(samples, cell_number(p, image, offset_group, y, x), p.x.input + 1, lane, lists);
    Acc sum[2] = {};
    add_lists(p, part, samples, lists, lane, sum);
    Acc* out =
        static_cast<Acc*>(p.grad_input) + (image * plane + pixel) * p.channels + part.channel;
    if (lane < part.channels) out[lane] = sum[0];
    if (lane + kWarpLanes < part.channels) out[lane + kWarpLanes] = sum[1];
  }
}

template <class T>
void sum_cells(const DeformConvParams& p, int64_t count, Workspace& workspace) {
  using Acc = typename Accumulate<T>::type;
  const int64_t each = p.taps() * static_cast<int64_t>(sizeof(Acc)), plane = p.y.input * p.x.input;
  const int64_t fitting = kScratchBytes / (p.pixels() * each);
  const int64_t most = fitting < 1 ? 1 : fitting < kMostChannels ? fitting : kMostChannels;
  const int64_t widest = most < p.channels ? most : p.channels;
  const int64_t images = fitting / widest < 1 ? 1 : fitting / widest;
  const int64_t at_once = images < p.batch ? images : p.batch;
  Acc* scratch = allocate<Acc>(workspace, at_once * p.pixels() * p.taps() * widest);
  const T* weights = transposed_weights<T>(p, workspace);
  for (int64_t image = 0; image < p.batch; image += at_once) {
    const int64_t part_images = p.batch - image < at_once ? p.batch - image : at_once;
    for_channel_runs(p, widest, [&](int64_t channel, int64_t channels) {
      const RowPart part = {image * p.pixels(), part_images * p.pixels(), channel, channels,
                            scratch};
      compute_row_gradients<T>(p, weights, part, workspace.stream());
      const int64_t positions = part_images * plane;
      launch(deform_conv2d_sum_cells<Acc>, grid_for(parts_of(positions, kWarps)), dim3(kThreads), 0,
             workspace.stream(), p, part, image, positions, count);
    });
  }
}

void backward_input_cuda(const DeformConvParams& p, Workspace& workspace) {
  const int64_t count = p.batch * p.offset_groups * p.blocks() * p.taps() * kBlockPixels;
  with_floating_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    if (p.order == nullptr) {
      launch(deform_conv2d_cells<typename Accumulate<T>::type>, grid_for(parts_of(count, kThreads)),
             dim3(kThreads), 0, workspace.stream(), p, count);
    } else {
      sum_cells<T>(p, count, workspace);
    }
  });
}

const bool registered = deform_conv2d_backward_input_stub.set(kCudaSlot, backward_input_cuda);

}  // namespace
}  // namespace visops
