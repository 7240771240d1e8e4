// NOTE [ Deformable convolution's gradient of the input on CUDA ]
// As in NOTE [ Gradient of values on CUDA ], the front lets torch sort samples by the cell that
// they lie in, and a warp merges the lists of a pixel's four cells by index. Samples are numbered
// in the order in which a pixel adds them up: NOTE [ Gradients of a deformable convolution ]
// (core/deformable/conv2d.h). Where they lie is worked out once, before they are sorted: a sample
// is merged into four pixels, by all lanes of each.
//
// For a part of the rows' gradient, a warp has a pixel and up to kMostChannels channels, which are
// adjacent in a sample's row: 16 bytes of it a lane where they lie so. Lists are cut down to the
// part's samples. Where an image has several parts, in order, later ones go on with the sums of
// earlier ones. There are no atomics, and -fmad=false makes bits the CPU's.
#include "cuda/deformable/cell_lists.h"
#include "cuda/deformable/conv2d_row_gradients.h"
#include "cuda/deformable/elements.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpLanes;
constexpr int kMostChannels = 256;  // of a run

// The part's images, and which of their blocks.
struct InputPart {
  int64_t first_image, images, first_block, end_block;
};

InputPart input_part(const DeformConvParams& p) {
  const int64_t pixels = p.pixels(), image = p.part_first / pixels;
  const int64_t first = p.part_first - image * pixels;
  if (p.part_pixels >= pixels) return {image, p.part_pixels / pixels, 0, p.blocks()};
  return {image, 1, first / kBlockPixels, parts_of(first + p.part_pixels, kBlockPixels)};
}

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
__device__ inline int64_t cell_number(const DeformConvParams& p, int64_t plane, int64_t y,
                                      int64_t x) {
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
      const LocatedTap<Acc> located = locate_tap<Acc>(p, at, s.offset_group, s.tap);
      const BilinearSample<Acc>& position = located.position;
      if (position.taps != 0) {
        cell = cell_number(p, s.image * p.offset_groups + s.offset_group, int64_t{position.y} + 1,
                           int64_t{position.x} + 1);
        bilinear_weights(position, located.mask, static_cast<Acc*>(p.sample_weights) + 4 * i);
        p.sample_rows[i] = (s.image * p.pixels() + s.pixel) * p.taps() + s.tap;
      }
    }
    p.cells[i] = cell;
  }
}

// What a pixel adds up: in the lists, samples that are still to be added, and the row of each
// list's next one.
struct PixelSamples {
  CellSamples lists[4];
  int64_t row[4];

  __device__ void load(const DeformConvParams& p, const SortedSamples& samples, int k) {
    load_sample(samples, &lists[k]);
    const int64_t i = lists[k].sample;
    if (i != INT64_MAX) row[k] = p.sample_rows[i];
  }
};

// Called by all lanes of a warp; some search one end of a list each.
__device__ inline void find_pixel_samples(const DeformConvParams& p, const InputPart& part,
                                          const SortedSamples& samples, int64_t plane,
                                          int64_t pixel, int lane, PixelSamples* found) {
  const int64_t y = pixel / p.x.input, x = pixel - y * p.x.input;
  int64_t border = 0;
  if (lane < 8) {  // lane 2k where list k begins, lane 2k + 1 where it ends
    const int64_t cell = cell_number(p, plane, y + lane / 4, x + lane / 2 % 2);
    const int64_t block = plane * p.blocks() + (lane % 2 == 0 ? part.first_block : part.end_block);
    const int64_t sample = block * p.taps() * kBlockPixels;
    border = first_place(samples, [&](int64_t place) {
      const int64_t of_place = samples.cells[place];
      return of_place < cell || (of_place == cell && samples.order[place] < sample);
    });
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    found->lists[k].next = __shfl_sync(kAllLanes, border, 2 * k);
    found->lists[k].end = __shfl_sync(kAllLanes, border, 2 * k + 1);
    found->load(p, samples, k);
  }
}

// Each lane has `kCount` adjacent channels at a time.
template <class Acc, int kCount>
__global__ void __launch_bounds__(kThreads, sizeof(Acc) == 8 ? 2 : 3)
    deform_conv2d_sum_cells(const __grid_constant__ DeformConvParams p,
                            const __grid_constant__ InputPart part,
                            const __grid_constant__ ChannelRun run,
                            const __grid_constant__ RunGradients<Acc> gradients,
                            const int64_t positions, const int64_t count) {
  constexpr int kLoads = kMostChannels / kWarpLanes / kCount, kStep = kWarpLanes * kCount;
  const SortedSamples samples = {p.sorted_cells, p.order, count};
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes, channel = lane * kCount;
  const int channels = static_cast<int>(run.count);
  const int64_t step = int64_t{gridDim.x} * kWarps, size = p.y.input * p.x.input;
  const int64_t offset_group = run.first / p.offset_channels();
  const int64_t first_row = p.part_first * p.taps();
  int64_t i = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpLanes;
  for (; i < positions; i += step) {
    const int64_t in_part = i / size, image = part.first_image + in_part;
    PixelSamples next;
    find_pixel_samples(p, part, samples, image * p.offset_groups + offset_group, i - in_part * size,
                       lane, &next);
    Acc* const out = static_cast<Acc*>(p.grad_input) + (part.first_image * size + i) * p.channels +
                     run.first + channel;
    Elements<Acc, kCount> sum[kLoads] = {};
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
      if (part.first_block != 0 && channel + n * kStep < channels) {
        sum[n] = load_elements<kCount>(static_cast<const Acc*>(out) + n * kStep);
      }
    }
    while (true) {
      const int64_t sample = next_sample(next.lists);
      if (sample == INT64_MAX) break;
      Acc weight = 0;
      int64_t row = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (next.lists[k].sample != sample) continue;  // a sample is in one cell
        weight = static_cast<const Acc*>(p.sample_weights)[4 * sample + 3 - k];
        row = next.row[k];
      }
      const Acc* const gradient = gradients.first + (row - first_row) * gradients.step + channel;
      Elements<Acc, kCount> values[kLoads] = {};
#pragma unroll
      for (int n = 0; n < kLoads; ++n) {
        if (channel + n * kStep < channels) values[n] = load_elements<kCount>(gradient + n * kStep);
      }
      // While they come, the next sample of the list.
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (next.lists[k].sample != sample) continue;
        ++next.lists[k].next;
        next.load(p, samples, k);
      }
#pragma unroll
      for (int n = 0; n < kLoads; ++n) {
#pragma unroll
        for (int j = 0; j < kCount; ++j) sum[n].value[j] += weight * values[n].value[j];
      }
    }
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
      if (channel + n * kStep < channels) store_elements<kCount>(out + n * kStep, sum[n]);
    }
  }
}

// Whether lanes can read `count` channels at once: all runs begin and end on such a boundary.
bool reads_elements(const DeformConvParams& p, int64_t count) {
  return p.group_channels() % count == 0 && p.offset_channels() % count == 0 &&
         begins_wide(p.row_gradients) && begins_wide(p.grad_input);
}

template <class Acc>
void sum_cells(const DeformConvParams& p, int64_t count, Workspace& workspace) {
  constexpr int kCount = kWideCount<Acc>;
  const bool wide = reads_elements(p, kCount);
  const InputPart part = input_part(p);
  const int64_t positions = part.images * p.y.input * p.x.input;
  for_channel_runs(p, kMostChannels, [&](const ChannelRun& run) {
    launch(wide ? deform_conv2d_sum_cells<Acc, kCount> : deform_conv2d_sum_cells<Acc, 1>,
           grid_for(parts_of(positions, kWarps)), dim3(kThreads), 0, workspace.stream(), p, part,
           run, run_gradients<Acc>(p, run), positions, count);
  });
}

void backward_input_cuda(const DeformConvParams& p, Workspace& workspace) {
  const int64_t count = p.samples();
  with_floating_type(p.dtype, [&](auto* element) {
    using Acc = typename Accumulate<std::remove_pointer_t<decltype(element)>>::type;
    if (p.order == nullptr) {
      launch(deform_conv2d_cells<Acc>, grid_for(parts_of(count, kThreads)), dim3(kThreads), 0,
             workspace.stream(), p, count);
    } else {
      sum_cells<Acc>(p, count, workspace);
    }
  });
}

const bool registered = deform_conv2d_backward_input_stub.set(kCudaSlot, backward_input_cuda);

}  // namespace
}  // namespace visops
