// NOTE [ Gradients of offsets and masks on CUDA ]
// For a part of the rows' gradient, and for each run of channels (NOTE [ Gradients of a deformable
// convolution ], core/deformable/conv2d.h), a warp has a sample; lane l has channels l, l + 32, ...
// of the run. Sums of runs that share an offset group are added in scratch, and the last run's
// warps write the gradients.
//
// Rounding: without contraction (-fmad=false), so the bits are the CPU's.
#include "cuda/deformable/conv2d_samples.h"
#include "cuda/lane_sum.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpLanes;
constexpr int kBlocks = 4;  // of a multiprocessor, at least: half of what sm_80 can hold

// This lane's sums of gradient times pixel over its channels, for each of the four taps.
template <class T, class Acc>
__device__ void add_products(const DeformConvParams& p, const BilinearSample<Acc>& position,
                             const T* first, int64_t channels, const Acc* gradient, int lane,
                             Acc sum[4]) {
  for (int64_t c = lane; c < channels; c += kWarpLanes) {
    const Acc g = gradient[c];
    const T* at = first + c * p.input_channel;
    if ((position.taps & kTap00) != 0) sum[0] += g * load_element(at);
    if ((position.taps & kTap01) != 0) sum[1] += g * load_element(at + p.input_column);
    if ((position.taps & kTap10) != 0) sum[2] += g * load_element(at + p.input_row);
    if ((position.taps & kTap11) != 0)
      sum[3] += g * load_element(at + p.input_row + p.input_column);
  }
}

// `sums` is [part_pixels, taps, 4], or null where the run is an offset group.
template <class T, class Acc>
__global__ void __launch_bounds__(kThreads, kBlocks)
    deform_conv2d_backward_offset(const __grid_constant__ DeformConvParams p,
                                  const __grid_constant__ ChannelRun run,
                                  const __grid_constant__ RunGradients<Acc> gradients,
                                  Acc* const sums, const bool is_first, const bool is_last) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int64_t count = p.part_pixels * p.taps(), step = int64_t{gridDim.x} * kWarps;
  const int64_t offset_group = run.first / p.offset_channels();
  int64_t i = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpLanes;
  for (; i < count; i += step) {
    const int64_t pixel = i / p.taps(), tap = i - pixel * p.taps();
    const PixelAt at = pixel_at(p, p.part_first + pixel);
    const LocatedTap<Acc> located = locate_tap<Acc>(p, at, offset_group, tap);
    const BilinearSample<Acc>& position = located.position;
    Acc sum[4] = {};
    if (position.taps != 0) {  // the same for all lanes
      const T* first = static_cast<const T*>(p.input) + at.image * p.input_batch +
                       run.first * p.input_channel + position.y * p.input_row +
                       position.x * p.input_column;
      add_products(p, position, first, run.count, gradients.first + i * gradients.step, lane, sum);
      for (int k = 0; k < 4; ++k) sum[k] = sum_lanes(sum[k]);
    }
    if (lane != 0) continue;
    if (!is_first) {
      for (int k = 0; k < 4; ++k) sum[k] = sums[4 * i + k] + sum[k];
    }
    if (!is_last) {
      for (int k = 0; k < 4; ++k) sums[4 * i + k] = sum[k];
      continue;
    }
    const CoordinateGradient<Acc> gradient = coordinate_gradient(position, located.mask, sum);
    const int64_t to = ((at.image * p.offset_groups + offset_group) * p.taps() + tap) * p.pixels();
    Acc* of_offset = static_cast<Acc*>(p.grad_offset) + 2 * to + at.pixel;
    of_offset[0] = gradient.y;
    of_offset[p.pixels()] = gradient.x;
    if (p.grad_mask != nullptr) static_cast<Acc*>(p.grad_mask)[to + at.pixel] = gradient.scale;
  }
}

template <class T>
void backward_offset(const DeformConvParams& p, Workspace& workspace) {
  using Acc = typename Accumulate<T>::type;
  const int64_t samples = p.part_pixels * p.taps();
  const bool is_divided = p.group_channels() % p.offset_channels() != 0;
  Acc* sums = is_divided ? allocate<Acc>(workspace, samples * 4) : nullptr;
  for_channel_runs(p, p.channels, [&](const ChannelRun& run) {
    const bool is_first = run.first % p.offset_channels() == 0;
    const bool is_last = (run.first + run.count) % p.offset_channels() == 0;
    launch(deform_conv2d_backward_offset<T, Acc>, grid_for(parts_of(samples, kWarps)),
           dim3(kThreads), 0, workspace.stream(), p, run, run_gradients<Acc>(p, run), sums,
           is_first, is_last);
  });
}

void backward_offset_cuda(const DeformConvParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    backward_offset<T>(p, workspace);
  });
}

const bool registered = deform_conv2d_backward_offset_stub.set(kCudaSlot, backward_offset_cuda);

}  // namespace
}  // namespace visops
