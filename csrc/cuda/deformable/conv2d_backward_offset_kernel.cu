// NOTE [ Gradients of offsets and masks on CUDA ]
// For some output pixels at a time, and for each run of channels (NOTE [ Gradients of a deformable
// convolution ], core/deformable/conv2d.h), scratch gets the gradient of the rows. Then a warp has
// a sample; lane l has channels l, l + 32, ... of the run. Sums of runs that share an offset group
// are added in scratch, and the last run's warps write the gradients.
//
// Rounding: without contraction (-fmad=false), so the bits are the CPU's.
#include "cuda/deformable/conv2d_row_gradients.h"
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

// `sums` is [pixels, taps, 4].
template <class T, class Acc>
__global__ void __launch_bounds__(kThreads, kBlocks)
    deform_conv2d_backward_offset(const __grid_constant__ DeformConvParams p,
                                  const __grid_constant__ RowPart part, Acc* const sums,
                                  const bool is_first, const bool is_last) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int64_t count = part.count * p.taps(), step = int64_t{gridDim.x} * kWarps;
  const int64_t offset_group = part.channel / p.offset_channels();
  int64_t i = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpLanes;
  for (; i < count; i += step) {
    const int64_t pixel = i / p.taps(), tap = i - pixel * p.taps();
    const PixelAt at = pixel_at(p, part.first + pixel);
    const LocatedTap<Acc> located = locate_tap<Acc>(p, at, offset_group, tap);
    const BilinearSample<Acc>& position = located.position;
    Acc sum[4] = {};
    if (position.taps != 0) {  // the same for all lanes
      const T* first = static_cast<const T*>(p.input) + at.image * p.input_batch +
                       part.channel * p.input_channel + position.y * p.input_row +
                       position.x * p.input_column;
      const Acc* gradient = static_cast<const Acc*>(part.data) + i * part.channels;
      add_products(p, position, first, part.channels, gradient, lane, sum);
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
  int64_t widest = 0;
  for_channel_runs(p, p.channels, [&](int64_t, int64_t channels) {
    widest = channels > widest ? channels : widest;
  });
  const int64_t each = p.taps() * widest * static_cast<int64_t>(sizeof(Acc));
  const int64_t all = p.batch * p.pixels(), fitting = kScratchBytes / each;
  const int64_t at_once = fitting < 1 ? 1 : fitting < all ? fitting : all;
  Acc* scratch = allocate<Acc>(workspace, at_once * p.taps() * widest);
  Acc* sums = allocate<Acc>(workspace, at_once * p.taps() * 4);
  const T* weights = transposed_weights<T>(p, workspace);
  for (int64_t first = 0; first < all; first += at_once) {
    const int64_t count = all - first < at_once ? all - first : at_once;
    for_channel_runs(p, p.channels, [&](int64_t channel, int64_t channels) {
      const RowPart part = {first, count, channel, channels, scratch};
      compute_row_gradients<T>(p, weights, part, workspace.stream());
      const bool is_first = channel % p.offset_channels() == 0;
      const bool is_last = (channel + channels) % p.offset_channels() == 0;
      launch(deform_conv2d_backward_offset<T, Acc>, grid_for(parts_of(count * p.taps(), kWarps)),
             dim3(kThreads), 0, workspace.stream(), p, part, sums, is_first, is_last);
    });
  }
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
