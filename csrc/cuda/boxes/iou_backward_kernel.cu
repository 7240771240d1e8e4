// NOTE [ Gradients of pairs on CUDA ]
// A warp has one of boxes1 at a time; its lanes are those of NOTE [ Lane sums ], so the bits are
// the CPU's. If the gradient of the result is transposed (as for boxes2's, with the roles swapped),
// the warps of a block read adjacent elements.
//
// Rounding: NOTE [ Pairs of boxes ], without contraction (-fmad=false).
#include "core/boxes/iou.h"
#include "core/dispatch/workspace.h"
#include "cuda/lane_sum.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kWarps = 8;

template <BoxOverlap kind, class Acc, class T>
__global__ void __launch_bounds__(kWarpLanes* kWarps)
    box_iou_backward(const __grid_constant__ BoxIouParams p) {
  const auto* columns1 = static_cast<const Acc*>(p.columns1);
  const auto* columns2 = static_cast<const Acc*>(p.columns2);
  const int64_t rows = p.boxes1.count, count = p.boxes2.count;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int64_t warp = threadIdx.x / kWarpLanes;
  const Acc eps = static_cast<Acc>(p.eps);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kWarps + warp; i < rows; i += stride) {
    const PairBox<Acc> box = load_pair_box(columns1, rows, i);
    const T* grad = static_cast<const T*>(p.grad) + i * p.grad_row_stride;
    PairGradient<Acc> sum = {};
    for (int64_t j = lane; j < count; j += kWarpLanes) {
      const PairBox<Acc> other = load_pair_box(columns2, count, j);
      const Acc g = static_cast<Acc>(grad[j * p.grad_column_stride]);
      const PairGradient<Acc> pair = pair_gradient<kind>(box, other, eps, g);
      sum.x1 += pair.x1;
      sum.y1 += pair.y1;
      sum.x2 += pair.x2;
      sum.y2 += pair.y2;
      sum.area += pair.area;
      if (kind == BoxOverlap::kComplete) sum.angle += pair.angle;
    }
    sum = {sum_lanes(sum.x1), sum_lanes(sum.y1),   sum_lanes(sum.x2),
           sum_lanes(sum.y2), sum_lanes(sum.area), sum_lanes(sum.angle)};
    if (lane != 0) continue;
    Acc gradient[4];
    finish_gradient(box, sum, gradient);
    for (int k = 0; k < 4; ++k) {
      store_rounded(p.grad_boxes, p.boxes1.dtype, i * 4 + k, gradient[k]);
    }
  }
}

template <BoxOverlap kind>
void launch_kind(const BoxIouParams& p, void* stream) {
  const auto start = [&](auto kernel) {
    launch(kernel, grid_for((p.boxes1.count + kWarps - 1) / kWarps), dim3(kWarpLanes * kWarps), 0,
           stream, p);
  };
  if (!p.in_double) {
    start(box_iou_backward<kind, float, float>);
  } else if (p.result_dtype == DType::kFloat64) {
    start(box_iou_backward<kind, double, double>);
  } else {
    start(box_iou_backward<kind, double, float>);
  }
}

void box_iou_backward_launch(const BoxIouParams& p, Workspace& workspace) {
  void* const stream = workspace.stream();
  switch (p.kind) {
    case BoxOverlap::kIou: return launch_kind<BoxOverlap::kIou>(p, stream);
    case BoxOverlap::kIof: return launch_kind<BoxOverlap::kIof>(p, stream);
    case BoxOverlap::kIof2: return launch_kind<BoxOverlap::kIof2>(p, stream);
    case BoxOverlap::kGeneralized: return launch_kind<BoxOverlap::kGeneralized>(p, stream);
    case BoxOverlap::kDistance: return launch_kind<BoxOverlap::kDistance>(p, stream);
    case BoxOverlap::kComplete: return launch_kind<BoxOverlap::kComplete>(p, stream);
  }
}

const bool registered = box_iou_backward_stub.set(kCudaSlot, box_iou_backward_launch);

}  // namespace
}  // namespace visops
