// NOTE [ Pairs of rotated boxes on CUDA ]
// As NOTE [ Pairs on CUDA ] and NOTE [ Gradients of pairs on CUDA ], with boxes as RotatedBox: one
// kernel converts them, one computes kRows pairs in each thread, and one sums gradients with a warp
// for each of boxes1.
//
// Rounding: float64, without contraction (-fmad=false), so the bits are the CPU's.
#include "core/boxes/iou.h"
#include "core/dispatch/workspace.h"
#include "cuda/lane_sum.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = 8;
constexpr int kWarps = kThreads / kWarpLanes;

__global__ void __launch_bounds__(kThreads)
    rotated_columns(const __grid_constant__ BoxIouParams p) {
  const int64_t split = p.boxes1.count, count = split + p.boxes2.count;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += stride) {
    const bool first = i < split;
    const BoxSet& set = first ? p.boxes1 : p.boxes2;
    const int64_t own = first ? i : i - split;
    static_cast<RotatedBox*>(first ? p.columns1 : p.columns2)[own] = paired_box(
        load_rotated_box(set.data, set.dtype, own * set.box_stride, set.coordinate_stride));
  }
}

void rotated_columns_launch(const BoxIouParams& p, Workspace& workspace) {
  const int64_t blocks = (p.boxes1.count + p.boxes2.count + kThreads - 1) / kThreads;
  launch(rotated_columns, grid_for(blocks), dim3(kThreads), 0, workspace.stream(), p);
}

template <class Out>
__global__ void __launch_bounds__(kThreads)
    box_iou_rotated(const __grid_constant__ BoxIouParams p, const int64_t tile_columns,
                    const int64_t tiles) {
  const auto* boxes1 = static_cast<const RotatedBox*>(p.columns1);
  const auto* boxes2 = static_cast<const RotatedBox*>(p.columns2);
  const int64_t rows = p.boxes1.count, count = p.boxes2.count;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t tile_row = tile / tile_columns;
    const int64_t first = tile_row * kRows;
    const int64_t j = (tile - tile_row * tile_columns) * kThreads + threadIdx.x;
    if (j >= count) continue;
    const RotatedBox other = boxes2[j];
    const int64_t last = rows - first < kRows ? rows : first + kRows;
    for (int64_t i = first; i < last; ++i) {
      static_cast<Out*>(p.result)[i * count + j] =
          static_cast<Out>(rotated_overlap(boxes1[i], other, p.kind));
    }
  }
}

void box_iou_rotated_launch(const BoxIouParams& p, Workspace& workspace) {
  const int64_t tile_columns = (p.boxes2.count + kThreads - 1) / kThreads;
  const int64_t tiles = tile_columns * ((p.boxes1.count + kRows - 1) / kRows);
  const auto start = [&](auto kernel) {
    launch(kernel, grid_for(tiles), dim3(kThreads), 0, workspace.stream(), p, tile_columns, tiles);
  };
  if (p.result_dtype == DType::kFloat64) {
    start(box_iou_rotated<double>);
  } else {
    start(box_iou_rotated<float>);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    box_iou_rotated_backward(const __grid_constant__ BoxIouParams p) {
  const auto* boxes2 = static_cast<const RotatedBox*>(p.columns2);
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int64_t warp = threadIdx.x / kWarpLanes;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kWarps + warp; i < p.boxes1.count;
       i += stride) {
    const RotatedBox box = static_cast<const RotatedBox*>(p.columns1)[i];
    const T* grad = static_cast<const T*>(p.grad) + i * p.grad_row_stride;
    RotatedPairGradient sum = {};
    for (int64_t j = lane; j < p.boxes2.count; j += kWarpLanes) {
      const RotatedPairGradient pair = rotated_overlap_gradient(
          box, boxes2[j], p.kind, static_cast<double>(grad[j * p.grad_column_stride]));
      sum.x += pair.x;
      sum.y += pair.y;
      sum.width += pair.width;
      sum.height += pair.height;
      sum.angle += pair.angle;
      sum.area += pair.area;
    }
    sum = {sum_lanes(sum.x),      sum_lanes(sum.y),     sum_lanes(sum.width),
           sum_lanes(sum.height), sum_lanes(sum.angle), sum_lanes(sum.area)};
    if (lane != 0) continue;
    double gradient[5];
    finish_gradient(box, sum, gradient);
    for (int k = 0; k < 5; ++k) {
      store_rounded(p.grad_boxes, p.boxes1.dtype, i * 5 + k, gradient[k]);
    }
  }
}

void box_iou_rotated_backward_launch(const BoxIouParams& p, Workspace& workspace) {
  void* const stream = workspace.stream();
  const dim3 grid = grid_for((p.boxes1.count + kWarps - 1) / kWarps);
  if (p.result_dtype == DType::kFloat64) {
    launch(box_iou_rotated_backward<double>, grid, dim3(kThreads), 0, stream, p);
  } else {
    launch(box_iou_rotated_backward<float>, grid, dim3(kThreads), 0, stream, p);
  }
}

const bool registered =
    rotated_columns_stub.set(kCudaSlot, rotated_columns_launch) &&
    box_iou_rotated_stub.set(kCudaSlot, box_iou_rotated_launch) &&
    box_iou_rotated_backward_stub.set(kCudaSlot, box_iou_rotated_backward_launch);

}  // namespace
}  // namespace visops
