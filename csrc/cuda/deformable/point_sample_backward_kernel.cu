// NOTE [ Gradients of point samples on CUDA ]
// Points: a thread has a point, and goes through its channels in order.
//
// Map: a point lies in a cell, the four pixels around it; a map has (height + 1) x (width + 1) of
// them, and "nearest" uses those whose last pixel is the one that is read. The front lets torch
// sort points by cell, stably. A thread has a pixel and some channels; it finds the points of the
// four cells that have the pixel by binary search, and merges them by index. So it adds in the
// CPU's order, without atomics, and writes each gradient once, beside its neighbours'.
//
// Rounding: NOTE [ Gradients of point samples ] (core/deformable/points.h), without contraction
// (-fmad=false), so the bits are the CPU's.
#include "cuda/deformable/cell_lists.h"
#include "cuda/deformable/point_positions.h"

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

// The number of the cell whose last pixel is (y, x), among all images' cells.
__device__ inline int64_t cell_at(const PointsParams& p, int64_t image, int64_t y, int64_t x) {
  return (image * (p.height + 1) + y) * (p.width + 1) + x;
}

template <class Acc, PointMode mode>
__global__ void __launch_bounds__(kThreads)
    point_cells(const __grid_constant__ PointsParams p, const int64_t count) {
  constexpr int kLast = mode == PointMode::kNearest ? 0 : 1;  // from the tap 00 to the last pixel
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    const LocatedPoint<Acc> located = located_point<mode, Acc>(p, i);
    p.cells[i] = located.taps == 0
                     ? kNoCell
                     : cell_at(p, i / p.points, located.y.first + kLast, located.x.first + kLast);
  }
}

// The points of a cell that are still to be added.
struct CellPoints {
  int64_t next;
  int64_t point;  // order[next], or INT64_MAX
};

__device__ inline void load_point(const PointsParams& p, int64_t count, int64_t cell,
                                  CellPoints* list) {
  const bool is_there = list->next < count && p.sorted_cells[list->next] == cell;
  list->point = is_there ? p.order[list->next] : INT64_MAX;
}

// `count` points and `slots` threads. Lists are indexed by constants only, or they would not stay
// in registers.
template <class T, PointMode mode>
__global__ void __launch_bounds__(kThreads)
    point_sum_cells(const __grid_constant__ PointsParams p, const int64_t count,
                    const int64_t slots) {
  using Acc = typename Accumulate<T>::type;
  constexpr int kCells = mode == PointMode::kNearest ? 1 : 4;
  const int64_t area = p.height * p.width, groups = parts_of(p.channels, kChannelsOfThread);
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t slot = int64_t{blockIdx.x} * kThreads + threadIdx.x; slot < slots; slot += step) {
    const int64_t outer = slot / area, pixel = slot - outer * area;
    const int64_t image = outer / groups, c = (outer - image * groups) * kChannelsOfThread;
    const int64_t y = pixel / p.width, x = pixel - y * p.width;
    // Cell k has the pixel as its tap kCells - 1 - k.
    const int64_t first_cell = cell_at(p, image, y, x);
    CellPoints lists[kCells];
#pragma unroll
    for (int k = 0; k < kCells; ++k) {
      const int64_t cell = first_cell + k / 2 * (p.width + 1) + k % 2;
      lists[k].next = first_at({p.sorted_cells, p.order, count}, cell);
      load_point(p, count, cell, &lists[k]);
    }
    const T* grad = static_cast<const T*>(p.grad) + (image * p.channels + c) * p.points;
    Acc sum[kChannelsOfThread] = {};
    while (true) {
      int64_t i = lists[0].point;
#pragma unroll
      for (int k = 1; k < kCells; ++k) i = lists[k].point < i ? lists[k].point : i;
      if (i == INT64_MAX) break;
      const LocatedPoint<Acc> located = located_point<mode, Acc>(p, i);
      Acc weights[4], weight = 0;
      weights_of(located, weights);
#pragma unroll
      for (int k = 0; k < kCells; ++k) {
        if (lists[k].point != i) continue;  // a point is in one cell
        weight = weights[kCells - 1 - k];
        ++lists[k].next;
        load_point(p, count, first_cell + k / 2 * (p.width + 1) + k % 2, &lists[k]);
      }
      const int64_t point = i - image * p.points;
#pragma unroll
      for (int k = 0; k < kChannelsOfThread; ++k) {
        if (c + k < p.channels) sum[k] += weight * load_element(grad + k * p.points + point);
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
  const int64_t count = p.batch * p.points;
  if (p.order == nullptr) {
    launch(point_cells<Acc, mode>, grid_for(parts_of(count, kThreads)), dim3(kThreads), 0, stream,
           p, count);
    return;
  }
  const int64_t slots = p.batch * parts_of(p.channels, kChannelsOfThread) * p.height * p.width;
  launch(point_sum_cells<T, mode>, grid_for(parts_of(slots, kThreads)), dim3(kThreads), 0, stream,
         p, count, slots);
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
