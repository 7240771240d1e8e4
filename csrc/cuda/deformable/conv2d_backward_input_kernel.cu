// NOTE [ Deformable convolution's gradient of the input on CUDA ]
// Each pixel of the input has a list of what it adds, for each offset group: NOTE [ Samples of a
// pixel ]. Samples are numbered in the order in which a pixel adds them up: NOTE [ Gradients of a
// deformable convolution ] (core/deformable/conv2d.h).
//
// For a part of the rows' gradient, a warp has a pixel and up to kMostChannels channels, which are
// adjacent in a sample's row: 16 bytes of it a lane where they lie so. Lists are cut down to the
// part's samples. Where an image has several parts, in order, later ones go on with the sums of
// earlier ones. There are no atomics, and -fmad=false makes bits the CPU's.
#include "cuda/deformable/conv2d_samples.h"
#include "cuda/deformable/elements.h"
#include "cuda/deformable/pixel_lists.h"
#include "cuda/lane_sum.h"

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

// The number of cell (y, x) of a plane: an image and offset group.
__device__ inline int64_t cell_number(const DeformConvParams& p, int64_t plane, int64_t y,
                                      int64_t x) {
  return (plane * (p.y.input + 1) + y) * (p.x.input + 1) + x;
}

template <class A>
struct DeformSource {
  using Acc = A;
  using Maps = NoMaps;
  static constexpr bool is_single = false;

  DeformConvParams p;

  __device__ void load(NoMaps*) const {}

  __device__ ListedSample<Acc> at(const NoMaps&, int32_t i) const {
    const SampleAt s = sample_at(p, i);
    ListedSample<Acc> sample = {};
    if (s.pixel >= p.pixels()) return sample;
    const int64_t row = s.pixel / p.x.output;
    const PixelAt at = {s.image, s.pixel, row, s.pixel - row * p.x.output};
    const LocatedTap<Acc> located = locate_tap<Acc>(p, at, s.offset_group, s.tap);
    sample.y = located.position.y + 1;
    sample.x = located.position.x + 1;
    sample.height = static_cast<int32_t>(p.y.input);
    sample.width = static_cast<int32_t>(p.x.input);
    sample.cell = static_cast<int32_t>(
        cell_number(p, s.image * p.offset_groups + s.offset_group, sample.y, sample.x));
    sample.taps = located.position.taps;
    sample.row = static_cast<int32_t>((s.image * p.pixels() + s.pixel) * p.taps() + s.tap);
    bilinear_weights(located.position, located.mask, sample.weight);
    return sample;
  }
};

// What pixel (y, x) of an image adds up. A block's samples have higher rows than those of blocks
// before it, so the part's are together.
template <class Acc>
__device__ ListRange list_of_part(const DeformConvParams& p, const InputPart& part, int64_t image,
                                  int64_t offset_group, int64_t y, int64_t x) {
  const int64_t plane = image * p.offset_groups + offset_group;
  ListRange list = list_of_pixel<false>(p.lists, cell_number(p, plane, y, x), p.x.input + 1);
  if (part.first_block == 0 && part.end_block == p.blocks()) return list;
  const auto* const entries = static_cast<const ListEntry<Acc>*>(p.lists.entries);
  const auto first_of_block = [&](int64_t block) {
    const int64_t row = (image * p.pixels() + block * kBlockPixels) * p.taps();
    return first_place(list.begin, list.end, [&](uint32_t n) { return entries[n].row < row; });
  };
  return {first_of_block(part.first_block), first_of_block(part.end_block)};
}

// Each lane has `kCount` adjacent channels at a time.
template <class Acc, int kCount>
__global__ void __launch_bounds__(kThreads, sizeof(Acc) == 8 ? 2 : 3)
    deform_conv2d_sum_lists(const __grid_constant__ DeformConvParams p,
                            const __grid_constant__ InputPart part,
                            const __grid_constant__ ChannelRun run,
                            const __grid_constant__ RunGradients<Acc> gradients,
                            const int64_t positions) {
  constexpr int kLoads = kMostChannels / kWarpLanes / kCount, kStep = kWarpLanes * kCount;
  const auto* const entries = static_cast<const ListEntry<Acc>*>(p.lists.entries);
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes, channel = lane * kCount;
  const int channels = static_cast<int>(run.count);
  const int64_t step = int64_t{gridDim.x} * kWarps, size = p.y.input * p.x.input;
  const int64_t offset_group = run.first / p.offset_channels();
  const int64_t first_row = p.part_first * p.taps();
  int64_t i = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpLanes;
  for (; i < positions; i += step) {
    const int64_t in_part = i / size, pixel = i - in_part * size, y = pixel / p.x.input;
    const ListRange list = list_of_part<Acc>(p, part, part.first_image + in_part, offset_group, y,
                                             pixel - y * p.x.input);
    Acc* const out = static_cast<Acc*>(p.grad_input) + (part.first_image * size + i) * p.channels +
                     run.first + channel;
    Elements<Acc, kCount> sum[kLoads] = {};
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
      if (part.first_block != 0 && channel + n * kStep < channels) {
        sum[n] = load_elements<kCount>(static_cast<const Acc*>(out) + n * kStep);
      }
    }
    ListEntry<Acc> next = {};
    if (list.begin < list.end) next = entries[list.begin];
    for (uint32_t at = list.begin; at < list.end; ++at) {
      const ListEntry<Acc> entry = next;
      const Acc* const gradient =
          gradients.first + (entry.row - first_row) * gradients.step + channel;
      Elements<Acc, kCount> values[kLoads] = {};
#pragma unroll
      for (int n = 0; n < kLoads; ++n) {
        if (channel + n * kStep < channels) values[n] = load_elements<kCount>(gradient + n * kStep);
      }
      if (at + 1 < list.end) next = entries[at + 1];  // while they come
#pragma unroll
      for (int n = 0; n < kLoads; ++n) {
#pragma unroll
        for (int j = 0; j < kCount; ++j) sum[n].value[j] += entry.weight * values[n].value[j];
      }
    }
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
      if (channel + n * kStep < channels) store_elements(out, n * kWarpLanes, sum[n]);
    }
  }
}

// Whether lanes can read `count` channels at once: all runs begin and end on such a boundary.
bool reads_elements(const DeformConvParams& p, int64_t count) {
  return p.group_channels() % count == 0 && p.offset_channels() % count == 0 &&
         begins_wide(p.row_gradients) && begins_wide(p.grad_input);
}

template <class Acc>
void sum_lists(const DeformConvParams& p, Workspace& workspace) {
  constexpr int kCount = kWideCount<Acc>;
  const bool wide = reads_elements(p, kCount);
  const InputPart part = input_part(p);
  const int64_t positions = part.images * p.y.input * p.x.input;
  for_channel_runs(p, kMostChannels, [&](const ChannelRun& run) {
    launch(wide ? deform_conv2d_sum_lists<Acc, kCount> : deform_conv2d_sum_lists<Acc, 1>,
           grid_for(parts_of(positions, kWarps)), dim3(kThreads), 0, workspace.stream(), p, part,
           run, run_gradients<Acc>(p, run), positions);
  });
}

void backward_input_cuda(const DeformConvParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    using Acc = typename Accumulate<std::remove_pointer_t<decltype(element)>>::type;
    if (p.lists.step == ListStep::kSums) {
      sum_lists<Acc>(p, workspace);
    } else {
      make_lists(DeformSource<Acc>{p}, p.lists, workspace.stream());
    }
  });
}

const bool registered = deform_conv2d_backward_input_stub.set(kCudaSlot, backward_input_cuda);

}  // namespace
}  // namespace visops
