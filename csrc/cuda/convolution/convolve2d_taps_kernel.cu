// NOTE [ The kernel's gradient on CUDA ]
// A warp has an element of the kernel and a chunk of the output; its threads are the lanes of
// NOTE [ Sums of the kernel's gradient ]. Then a thread has an element and adds its chunks. The
// bits are the CPU's: no contraction (-fmad=false).
#include <type_traits>

#include "core/convolution/convolve2d.h"
#include "core/dispatch/workspace.h"
#include "cuda/lane_sum.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpLanes;

__device__ int64_t first_item(int64_t of_block) {
  return static_cast<int64_t>(blockIdx.x) * of_block;
}
__device__ int64_t item_stride(int64_t of_block) {
  return static_cast<int64_t>(gridDim.x) * of_block;
}

template <class T>
__device__ T sum_of_lanes(T lane) {
  return sum_lanes(lane);
}
template <class T>
__device__ Complex<T> sum_of_lanes(Complex<T> lane) {
  return {sum_lanes(lane.re), sum_lanes(lane.im)};
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    taps(const __grid_constant__ ConvolveTapsParams p, void* partial) {
  using Element = ConvolveElement<T>;
  using Sum = typename Element::Sum;
  T fill;
  memcpy(&fill, p.fill, sizeof(T));
  const ConvolvePlane &g = p.grad_plane, &in = p.input_plane;
  const int64_t count = p.kernel_height * p.kernel_width;
  const int64_t of_entry = p.chunk_rows * p.chunk_columns;
  const int64_t total = p.batch.count * of_entry * count;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int64_t warp = threadIdx.x / kWarpLanes;
  for (int64_t item = first_item(kWarps) + warp; item < total; item += item_stride(kWarps)) {
    const int64_t tap = item % count, chunk = item / count;
    const int64_t m = tap / p.kernel_width, n = tap % p.kernel_width;
    const ConvolveOffsets offsets = offsets_of(p.batch, chunk / of_entry);
    const T* grad = static_cast<const T*>(p.grad) + offsets.first;
    const T* input = static_cast<const T*>(p.input) + offsets.second;
    const int64_t row = chunk % of_entry / p.chunk_columns * kChunkRows;
    const int64_t column = chunk % p.chunk_columns * kChunkColumns;
    const int64_t last_row = row + kChunkRows < g.height ? row + kChunkRows : g.height;
    const int64_t last = column + kChunkColumns < g.width ? column + kChunkColumns : g.width;
    Sum sum = {};
    for (int64_t i = row; i < last_row; ++i) {
      const int64_t y = pad_index(p.boundary, p.start_y + i + m, in.height);
      for (int64_t j = column + lane; j < last; j += kWarpLanes) {
        const int64_t x = pad_index(p.boundary, p.start_x + j + n, in.width);
        const T* value = y < 0 || x < 0 ? &fill : input + y * in.row_stride + x * in.column_stride;
        add_product(sum, Element::load(grad + i * g.row_stride + j * g.column_stride),
                    Element::load(value));
      }
    }
    sum = sum_of_lanes(sum);
    if (lane == 0) static_cast<Sum*>(partial)[item] = sum;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    tap_sums(const __grid_constant__ ConvolveTapsParams p, const void* partial, int64_t total) {
  for (int64_t i = first_item(kThreads) + threadIdx.x; i < total; i += item_stride(kThreads)) {
    sum_chunks<T>(p, partial, i);
  }
}

dim3 grid_of(int64_t items, int64_t of_block) {
  return grid_for((items + of_block - 1) / of_block);
}

void convolve2d_taps_launch(const ConvolveTapsParams& p, Workspace& workspace) {
  const int64_t count = p.kernel_height * p.kernel_width;
  const int64_t items = p.batch.count * p.chunk_rows * p.chunk_columns * count;
  const int64_t elements = p.sums_batch ? count : p.batch.count * count;
  void* partial = workspace.allocate(p.partial_bytes);
  with_differentiable_type(p.kind, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    launch(taps<T>, grid_of(items, kWarps), dim3(kThreads), 0, workspace.stream(), p, partial);
    launch(tap_sums<T>, grid_of(elements, kThreads), dim3(kThreads), 0, workspace.stream(), p,
           partial, elements);
  });
}

const bool registered = convolve2d_taps_stub.set(kCudaSlot, convolve2d_taps_launch);

}  // namespace
}  // namespace visops
