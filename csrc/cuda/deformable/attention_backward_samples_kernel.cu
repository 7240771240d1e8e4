// NOTE [ Gradients of samples on CUDA ]
// A warp has a query and head, and takes its samples one after another. Lane l has channels l,
// l + 32, ..., so a warp reads adjacent channels; sums over channels are taken as NOTE [ Lane sums
// ] says, and lane 0 writes the sample's three numbers. Blocks share nothing.
//
// Rounding: NOTE [ Gradients of deformable attention ] (core/deformable/attention.h), without
// contraction (-fmad=false), so the bits are the CPU's.
#include "cuda/deformable/attention_samples.h"
#include "cuda/lane_sum.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpLanes;

// This lane's sums of gradient times value over its channels, for each tap.
template <class T, class Acc>
__device__ void add_products(const AttentionParams& p, const BilinearSample<Acc>& bilinear,
                             const T* value, int64_t row_step, const T* grad, int lane,
                             Acc sum[4]) {
  for (int64_t c = lane; c < p.channels; c += kWarpLanes) {
    const Acc g = load_element(grad + c);
    const T* at = value + c;
    if ((bilinear.taps & kTap00) != 0) sum[0] += g * load_element(at);
    if ((bilinear.taps & kTap01) != 0) sum[1] += g * load_element(at + p.position_stride);
    if ((bilinear.taps & kTap10) != 0) sum[2] += g * load_element(at + row_step);
    if ((bilinear.taps & kTap11) != 0)
      sum[3] += g * load_element(at + row_step + p.position_stride);
  }
}

template <class T, bool is_discrete>
__global__ void __launch_bounds__(kThreads)
    attention_backward_samples(const __grid_constant__ AttentionParams p) {
  using Acc = typename Accumulate<T>::type;
  __shared__ Levels levels;
  load_levels(p, &levels);
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int64_t rows = p.batch * p.queries * p.heads, step = int64_t{gridDim.x} * kWarps;
  int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpLanes;
  for (; row < rows; row += step) {
    const int64_t head = row % p.heads, image = row / p.heads / p.queries;
    const T* values = static_cast<const T*>(p.value) + head_offset(p, image, head);
    const T* grad = static_cast<const T*>(p.grad) + row * p.channels;
    for (int64_t n = 0; n < p.samples; ++n) {
      const LevelAt& level = level_of_sample(levels, n);
      const int64_t i = row * p.samples + n;
      const LocatedSample<Acc> s = located_sample<is_discrete, Acc>(p, level, i);
      Acc sum[4] = {};
      if (s.bilinear.taps != 0) {  // the same for all lanes
        const int64_t position =
            level.start + static_cast<int64_t>(s.bilinear.y) * level.width + s.bilinear.x;
        add_products(p, s.bilinear, values + position * p.position_stride,
                     level.width * p.position_stride, grad, lane, sum);
        for (int k = 0; k < (is_discrete ? 1 : 4); ++k) sum[k] = sum_lanes(sum[k]);
      }
      if (lane != 0) continue;
      const SampleGradient<Acc> gradient =
          sample_gradient<is_discrete>(s.bilinear, s.attention, level.height, level.width, sum);
      write_number(p.grad_weights, p.weights_dtype, i, gradient.attention);
      write_number(p.grad_locations, p.locations_dtype, 2 * i, gradient.u);
      write_number(p.grad_locations, p.locations_dtype, 2 * i + 1, gradient.v);
    }
  }
}

void backward_samples_cuda(const AttentionParams& p, Workspace& workspace) {
  with_types(p, [&](auto* element, auto is_discrete) {
    using T = std::remove_pointer_t<decltype(element)>;
    const int64_t blocks = parts_of(p.batch * p.queries * p.heads, kWarps);
    launch(attention_backward_samples<T, is_discrete>, grid_for(blocks), dim3(kThreads), 0,
           workspace.stream(), p);
  });
}

const bool registered = attention_backward_samples_stub.set(kCudaSlot, backward_samples_cuda);

}  // namespace
}  // namespace visops
