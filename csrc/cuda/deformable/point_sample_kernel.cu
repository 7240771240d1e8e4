// NOTE [ Point samples on CUDA ]
// A thread has a point and some channels, so that it is placed once for them. Neighbouring threads
// have neighbouring points of the same channels, and write adjacent samples; where channels are
// adjacent (channels_last), they have neighbouring channels of one point instead, and also read
// adjacent values. The taps of points lie anywhere: their loads are independent, and hide one
// another's latency.
//
// Rounding: NOTE [ Point samples ] (core/deformable/points.h), without contraction (-fmad=false),
// so the bits are the CPU's.
#include "cuda/deformable/point_positions.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kChannelsOfThread = 8;

template <class T, PointMode mode, class Out>
__device__ void sample_channel(const PointsParams& p, const T* plane, int64_t first, int32_t taps,
                               const typename Accumulate<T>::type weight[4], Out* out) {
  using Acc = typename Accumulate<T>::type;
  if constexpr (mode == PointMode::kNearest) {
    store_element(out, load_tap(plane, first, taps != 0) + static_cast<Acc>(0));
  } else {
    Acc value[4];
    load_taps(p, plane, first, taps, value);
    store_element(out, (weight[0] * value[0] + weight[1] * value[1]) +
                           (weight[2] * value[2] + weight[3] * value[3]));
  }
}

// `count` threads. is_adjacent: channels vary fastest, and a thread has one; otherwise points do.
template <class T, PointMode mode, bool is_adjacent, class Out>
__global__ void __launch_bounds__(kThreads)
    point_sample(const __grid_constant__ PointsParams p, Out* const output, const int64_t count) {
  using Acc = typename Accumulate<T>::type;
  constexpr int64_t kOwn = is_adjacent ? 1 : kChannelsOfThread;
  const int64_t groups = parts_of(p.channels, kOwn), step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t outer = i / (is_adjacent ? groups : p.points);
    const int64_t inner = i - outer * (is_adjacent ? groups : p.points);
    const int64_t image = outer / (is_adjacent ? p.points : groups);
    const int64_t middle = outer - image * (is_adjacent ? p.points : groups);
    const int64_t point = is_adjacent ? middle : inner, group = is_adjacent ? inner : middle;
    const LocatedPoint<Acc> located = located_point<mode, Acc>(p, image * p.points + point);
    Acc weight[4];
    weights_of(located, weight);
    const int64_t first = first_tap(p, located), c = group * kOwn;
    const T* plane = static_cast<const T*>(p.input) + image * p.batch_stride + c * p.channel_stride;
    Out* out = output + image * p.channels * p.points + c * p.output_channel_stride +
               point * p.output_point_stride;
    const int64_t left = p.channels - c;
#pragma unroll 4
    for (int64_t k = 0; k < (left < kOwn ? left : kOwn); ++k) {
      sample_channel<T, mode>(p, plane + k * p.channel_stride, first, located.taps, weight,
                              out + k * p.output_channel_stride);
    }
  }
}

template <class T, PointMode mode>
void sample(const PointsParams& p, void* stream) {
  using Out = SampleOf<T>;
  Out* const output = static_cast<Out*>(p.output);
  const int64_t all = p.batch * p.points;
  if (p.output_channel_stride == 1 && p.channels > 1) {
    const int64_t count = all * p.channels;
    launch(point_sample<T, mode, true, Out>, grid_for(parts_of(count, kThreads)), dim3(kThreads), 0,
           stream, p, output, count);
  } else {
    const int64_t count = all * parts_of(p.channels, kChannelsOfThread);
    launch(point_sample<T, mode, false, Out>, grid_for(parts_of(count, kThreads)), dim3(kThreads),
           0, stream, p, output, count);
  }
}

void point_sample_cuda(const PointsParams& p, Workspace& workspace) {
  with_map_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    if (p.mode == PointMode::kNearest) {
      sample<T, PointMode::kNearest>(p, workspace.stream());
    } else {
      sample<T, PointMode::kBilinear>(p, workspace.stream());
    }
  });
}

const bool registered = point_sample_stub.set(kCudaSlot, point_sample_cuda);

}  // namespace
}  // namespace visops
