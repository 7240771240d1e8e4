// NOTE [ Gradients of point samples on CUDA ]
// Points: a thread has a point, and goes through its channels in order.
//
// Map: each pixel has a list of the points that read it: NOTE [ Samples of a pixel ]; "nearest"
// names a pixel by the cell that begins there. A thread has a pixel and some channels, goes through
// the list, and writes each gradient once, beside its neighbours'.
//
// Rounding: NOTE [ Gradients of point samples ] (core/deformable/points.h), without contraction
// (-fmad=false), so the bits are the CPU's.
#include "cuda/deformable/pixel_lists.h"
#include "cuda/deformable/point_positions.h"
#include "cuda/divisor.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kChannelsOfThread = 2;

template <class T>
__global__ void __launch_bounds__(kThreads)
    point_slopes(const __grid_constant__ PointsParams p, const int64_t count) {
  using Acc = typename Accumulate<T>::type;
  using G = SampleOf<T>;
  const Acc one = static_cast<Acc>(1);
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t image = i / p.points;
    const LocatedPoint<Acc> located = located_point<PointMode::kBilinear, Acc>(p, i);
    const T* map = static_cast<const T*>(p.input) + image * p.batch_stride;
    const G* grad =
        static_cast<const G*>(p.grad) + image * p.channels * p.points + (i - image * p.points);
    const int64_t first = first_tap(p, located);
    const Acc fx = located.x.fraction, fy = located.y.fraction;
    Acc along_x = 0, along_y = 0;
    for (int64_t c = 0; c < (located.taps != 0 ? p.channels : 0); ++c) {
      Acc v[4];
      load_taps(p, map + c * p.channel_stride, first, located.taps, v);
      const Acc g = load_element(grad + c * p.points);
      along_x += g * ((one - fy) * (v[1] - v[0]) + fy * (v[3] - v[2]));
      along_y += g * ((one - fx) * (v[2] - v[0]) + fx * (v[3] - v[1]));
    }
    write_number(p.grad_coordinates, p.coordinates_dtype, 2 * i, along_x * located.x.slope);
    write_number(p.grad_coordinates, p.coordinates_dtype, 2 * i + 1, along_y * located.y.slope);
  }
}

// The number of cell (y, x), among all images' cells.
__device__ inline int64_t cell_at(const PointsParams& p, int64_t image, int64_t y, int64_t x) {
  return (image * (p.height + 1) + y) * (p.width + 1) + x;
}

template <class A, PointMode mode>
struct PointSource {
  using Acc = A;
  using Maps = NoMaps;
  static constexpr bool is_single = mode == PointMode::kNearest;

  PointsParams p;
  Divisor<int32_t> points;

  __device__ void load(NoMaps*) const {}

  __device__ ListedSample<Acc> at(const NoMaps&, int32_t i) const {
    const LocatedPoint<Acc> located = located_point<mode, Acc>(p, i);
    const int32_t image = points.divide(i), last = is_single ? 0 : 1;
    ListedSample<Acc> sample;
    sample.y = static_cast<int32_t>(located.y.first) + last;
    sample.x = static_cast<int32_t>(located.x.first) + last;
    sample.height = static_cast<int32_t>(p.height);
    sample.width = static_cast<int32_t>(p.width);
    sample.cell = static_cast<int32_t>(cell_at(p, image, sample.y, sample.x));
    sample.taps = located.taps;
    sample.row = i - image * points.value;
    weights_of(located, sample.weight);
    return sample;
  }
};

// `slots` threads.
template <class T, PointMode mode>
__global__ void __launch_bounds__(kThreads)
    point_sum_lists(const __grid_constant__ PointsParams p, const int64_t slots) {
  using Acc = typename Accumulate<T>::type;
  const auto* const entries = static_cast<const ListEntry<Acc>*>(p.lists.entries);
  const int64_t area = p.height * p.width, groups = parts_of(p.channels, kChannelsOfThread);
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t slot = int64_t{blockIdx.x} * kThreads + threadIdx.x; slot < slots; slot += step) {
    const int64_t outer = slot / area, pixel = slot - outer * area;
    const int64_t image = outer / groups, c = (outer - image * groups) * kChannelsOfThread;
    const int64_t y = pixel / p.width, cell = cell_at(p, image, y, pixel - y * p.width);
    const ListRange list = list_of_pixel<mode == PointMode::kNearest>(p.lists, cell, p.width + 1);
    const T* grad = static_cast<const T*>(p.grad) + (image * p.channels + c) * p.points;
    Acc sum[kChannelsOfThread] = {};
    for (uint32_t n = list.begin; n < list.end; ++n) {
      const ListEntry<Acc> entry = entries[n];
#pragma unroll
      for (int k = 0; k < kChannelsOfThread; ++k) {
        if (c + k < p.channels) {
          sum[k] += entry.weight * load_element(grad + k * p.points + entry.row);
        }
      }
    }
    Acc* out = static_cast<Acc*>(p.grad_input) + (image * p.channels + c) * area + pixel;
#pragma unroll
    for (int k = 0; k < kChannelsOfThread; ++k) {
      if (c + k < p.channels) out[k * area] = sum[k];
    }
  }
}

template <class T, PointMode mode>
void backward_input(const PointsParams& p, void* stream) {
  using Acc = typename Accumulate<T>::type;
  if (p.lists.step != ListStep::kSums) {
    return make_lists(PointSource<Acc, mode>{p, divisor_of<int32_t>(p.points)}, p.lists, stream);
  }
  const int64_t slots = p.batch * parts_of(p.channels, kChannelsOfThread) * p.height * p.width;
  launch(point_sum_lists<T, mode>, grid_for(parts_of(slots, kThreads)), dim3(kThreads), 0, stream,
         p, slots);
}

void backward_input_cuda(const PointsParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    if (p.mode == PointMode::kNearest) {
      backward_input<T, PointMode::kNearest>(p, workspace.stream());
    } else {
      backward_input<T, PointMode::kBilinear>(p, workspace.stream());
    }
  });
}

template <class T>
void backward_points(const PointsParams& p, void* stream) {
  const int64_t count = p.batch * p.points;
  launch(point_slopes<T>, grid_for(parts_of(count, kThreads)), dim3(kThreads), 0, stream, p, count);
}

void backward_points_cuda(const PointsParams& p, Workspace& workspace) {
  with_map_type(p.dtype, [&](auto* element) {
    backward_points<std::remove_pointer_t<decltype(element)>>(p, workspace.stream());
  });
}

const bool registered_input = point_sample_backward_input_stub.set(kCudaSlot, backward_input_cuda);
const bool registered_points =
    point_sample_backward_points_stub.set(kCudaSlot, backward_points_cuda);

}  // namespace
}  // namespace visops
