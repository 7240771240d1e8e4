// Areas, boxes and centroids of labels on CUDA.
//
// NOTE [ Statistics of labels on CUDA ]
// Strategy: a warp has a piece of a row; the first lane of each run of equal labels adds the whole
// run to its label's sums, in atomics. Sums, minima and maxima are of integers, so any order will
// do. A last kernel divides, once for each label.
//
// Split: warps stride over pieces of rows, threads over labels.
#include "core/dispatch/workspace.h"
#include "core/masks/components.h"
#include "cuda/threads.h"

namespace visops {
namespace {

// 64-bit atomics take `long long`.
using Wide = long long;
using Unsigned = unsigned long long;

__device__ inline void add_to(int64_t* sum, int64_t value) {
  atomicAdd(reinterpret_cast<Unsigned*>(sum), static_cast<Unsigned>(value));
}
__device__ inline void lower_to(int64_t* least, int64_t value) {
  atomicMin(reinterpret_cast<Wide*>(least), static_cast<Wide>(value));
}
__device__ inline void raise_to(int64_t* most, int64_t value) {
  atomicMax(reinterpret_cast<Wide*>(most), static_cast<Wide>(value));
}

__global__ void __launch_bounds__(kThreads)
    clear_stats(const __grid_constant__ ComponentStatsParams p, int64_t* sums) {
  for (int64_t r = first_thread(); r < p.count * p.regions; r += all_threads()) {
    p.areas[r] = sums[2 * r] = sums[2 * r + 1] = 0;
    p.boxes[4 * r] = p.width;
    p.boxes[4 * r + 1] = p.height;
    p.boxes[4 * r + 2] = p.boxes[4 * r + 3] = 0;
  }
}

__global__ void __launch_bounds__(kThreads)
    sum_runs(const __grid_constant__ ComponentStatsParams p, int64_t* sums) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t pieces = (p.width + kWarp - 1) / kWarp, all = p.count * p.height * pieces;
  for (int64_t piece = first_thread() / kWarp; piece < all; piece += all_threads() / kWarp) {
    const int64_t row = piece / pieces, x = (piece - row * pieces) * kWarp + lane;
    const int32_t label = x < p.width ? p.labels[row * p.width + x] : 0;
    const int32_t before = __shfl_up_sync(kWholeWarp, label, 1);
    const bool starts = lane == 0 || before != label;
    const unsigned edges = __ballot_sync(kWholeWarp, starts);
    if (!starts || label < 1 || label > p.regions) continue;
    const unsigned later = lane == kWarp - 1 ? 0 : edges >> (lane + 1);
    const int64_t length = later == 0 ? kWarp - lane : __ffs(static_cast<int>(later));
    const int64_t mask = row / p.height, y = row - mask * p.height;
    const int64_t r = mask * p.regions + label - 1;
    add_to(p.areas + r, length);
    add_to(sums + 2 * r, length * x + length * (length - 1) / 2);
    add_to(sums + 2 * r + 1, length * y);
    lower_to(p.boxes + 4 * r, x);
    lower_to(p.boxes + 4 * r + 1, y);
    raise_to(p.boxes + 4 * r + 2, x + length);
    raise_to(p.boxes + 4 * r + 3, y + 1);
  }
}

__global__ void __launch_bounds__(kThreads)
    finish_stats(const __grid_constant__ ComponentStatsParams p, const int64_t* sums) {
  for (int64_t r = first_thread(); r < p.count * p.regions; r += all_threads()) {
    const int64_t area = p.areas[r];
    for (int k = 0; k < 2; ++k) {
      if (area == 0) p.boxes[4 * r + k] = 0;
      p.centroids[2 * r + k] = area == 0 ? 0.0 : centroid_of(sums[2 * r + k], area);
    }
  }
}

void component_stats_cuda(const ComponentStatsParams& p, Workspace& workspace) {
  int64_t* sums = allocate<int64_t>(workspace, p.count * p.regions * 2);
  const int64_t pieces = p.count * p.height * ((p.width + kWarp - 1) / kWarp);
  const dim3 threads(kThreads), grid = grid_of_threads(p.count * p.regions);
  void* stream = workspace.stream();
  launch(clear_stats, grid, threads, 0, stream, p, sums);
  launch(sum_runs, grid_for((pieces + kWarps - 1) / kWarps), threads, 0, stream, p, sums);
  launch(finish_stats, grid, threads, 0, stream, p, sums);
}

const bool registered = component_stats_stub.set(kCudaSlot, component_stats_cuda);

}  // namespace
}  // namespace visops
