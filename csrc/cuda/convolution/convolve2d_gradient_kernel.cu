// NOTE [ Gradients of convolution on CUDA ]
// Folding: a thread has an element of the result. The kernel's gradient: a warp has an element and
// a chunk; its lanes are those of NOTE [ Sums of the kernel's gradient ], so the bits are the
// CPU's. No contraction (-fmad=false).
#include <type_traits>

#include "core/convolution/convolve2d_gradient.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kLanes = static_cast<int>(kTapLanes);
constexpr int kWarps = kThreads / kLanes;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ int64_t first_item(int64_t of_block) {
  return static_cast<int64_t>(blockIdx.x) * of_block;
}
__device__ int64_t item_stride(int64_t of_block) {
  return static_cast<int64_t>(gridDim.x) * of_block;
}

template <class T>
__global__ void __launch_bounds__(kThreads) fold(const __grid_constant__ ConvolveFoldParams p) {
  using Element = ConvolveElement<T>;
  using Sum = typename Element::Sum;
  const int64_t total = p.count * p.input_height * p.input_width;
  for (int64_t at = first_item(kThreads) + threadIdx.x; at < total; at += item_stride(kThreads)) {
    const int64_t row = at / p.input_width, x = at % p.input_width;
    const T* grad = static_cast<const T*>(p.grad) + row / p.input_height * p.height * p.width;
    const Repeats rows = repeats_of(p.boundary, row % p.input_height, p.input_height, p.start_y);
    const Repeats columns = repeats_of(p.boundary, x, p.input_width, p.start_x);
    Sum sum = {};
    int turn = 0;
    for (int64_t v = columns.first; v < p.width; v += columns.steps[turn], turn = 1 - turn) {
      Sum column = {};
      int row_turn = 0;
      for (int64_t u = rows.first; u < p.height;
           u += rows.steps[row_turn], row_turn = 1 - row_turn) {
        add_to(column, Element::load(grad + u * p.width + v));
      }
      add_to(sum, column);
    }
    Element::store(static_cast<T*>(p.result) + at, sum);
  }
}

template <class T>
__device__ T sum_lanes(T lane) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    lane = lane + __shfl_down_sync(kAllLanes, lane, half);
  }
  return lane;
}
template <class T>
__device__ Complex<T> sum_lanes(Complex<T> lane) {
  return {sum_lanes(lane.re), sum_lanes(lane.im)};
}

template <class T>
__global__ void __launch_bounds__(kThreads) taps(const __grid_constant__ ConvolveTapsParams p) {
  using Element = ConvolveElement<T>;
  using Sum = typename Element::Sum;
  T fill;
  memcpy(&fill, p.fill, sizeof(T));
  const ConvolvePlane &g = p.grad_plane, &in = p.input_plane;
  const int64_t count = p.kernel_height * p.kernel_width;
  const int64_t of_entry = p.chunk_rows * p.chunk_columns;
  const int64_t total = p.batch.count * of_entry * count;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t warp = threadIdx.x / kLanes;
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
      for (int64_t j = column + lane; j < last; j += kLanes) {
        const int64_t x = pad_index(p.boundary, p.start_x + j + n, in.width);
        const T* value = y < 0 || x < 0 ? &fill : input + y * in.row_stride + x * in.column_stride;
        add_product(sum, Element::load(grad + i * g.row_stride + j * g.column_stride),
                    Element::load(value));
      }
    }
    sum = sum_lanes(sum);
    if (lane == 0) static_cast<Sum*>(p.partial)[item] = sum;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    tap_sums(const __grid_constant__ ConvolveTapsParams p, int64_t total) {
  for (int64_t i = first_item(kThreads) + threadIdx.x; i < total; i += item_stride(kThreads)) {
    sum_chunks<T>(p, i);
  }
}

dim3 grid_of(int64_t items, int64_t of_block) {
  return grid_for((items + of_block - 1) / of_block);
}

void fold_launch(const ConvolveFoldParams& p, void* stream) {
  const int64_t total = p.count * p.input_height * p.input_width;
  with_convolve_type(p.kind, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    launch(fold<T>, grid_of(total, kThreads), dim3(kThreads), 0, stream, p);
  });
}

void taps_launch(const ConvolveTapsParams& p, void* stream) {
  const int64_t total =
      p.batch.count * p.chunk_rows * p.chunk_columns * p.kernel_height * p.kernel_width;
  with_floating_type(p.kind, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    launch(taps<T>, grid_of(total, kWarps), dim3(kThreads), 0, stream, p);
  });
}

void tap_sums_launch(const ConvolveTapsParams& p, void* stream) {
  const int64_t entries = p.sums_batch ? 1 : p.batch.count;
  const int64_t total = entries * p.kernel_height * p.kernel_width;
  with_floating_type(p.kind, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    launch(tap_sums<T>, grid_of(total, kThreads), dim3(kThreads), 0, stream, p, total);
  });
}

const bool registered = convolve2d_fold_stub.set(kCudaSlot, fold_launch) &&
                        convolve2d_taps_stub.set(kCudaSlot, taps_launch) &&
                        convolve2d_tap_sums_stub.set(kCudaSlot, tap_sums_launch);

}  // namespace
}  // namespace visops
