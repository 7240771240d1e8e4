// NOTE [ Pairs on CUDA ]
// One kernel turns boxes into columns, with a thread for each box of either set. In the second, a
// thread has one of boxes2 and kRows of boxes1, so a box is read once for several pairs, and
// neighbouring threads write adjacent results. Blocks stride over tiles of kThreads columns and
// kRows rows.
//
// Rounding: NOTE [ Pairs of boxes ], without contraction (-fmad=false), so the bits are the CPU's.
#include "core/boxes/iou.h"
#include "core/dispatch/workspace.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = 8;

template <class Acc>
__global__ void __launch_bounds__(kThreads) box_columns(const __grid_constant__ BoxIouParams p) {
  const bool with_angle = p.kind == BoxOverlap::kComplete;
  const int64_t split = p.boxes1.count, count = split + p.boxes2.count;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += stride) {
    if (i < split) {
      make_box_column(p.boxes1, p.boxes1.dtype, with_angle, i, static_cast<Acc*>(p.columns1));
    } else {
      make_box_column(p.boxes2, p.boxes2.dtype, with_angle, i - split,
                      static_cast<Acc*>(p.columns2));
    }
  }
}

void box_columns_launch(const BoxIouParams& p, Workspace& workspace) {
  void* const stream = workspace.stream();
  const dim3 grid = grid_for((p.boxes1.count + p.boxes2.count + kThreads - 1) / kThreads);
  if (p.in_double) {
    launch(box_columns<double>, grid, dim3(kThreads), 0, stream, p);
  } else {
    launch(box_columns<float>, grid, dim3(kThreads), 0, stream, p);
  }
}

template <BoxOverlap kind, class Acc, class Out>
__global__ void __launch_bounds__(kThreads)
    box_iou(const __grid_constant__ BoxIouParams p, const int64_t tile_columns,
            const int64_t tiles) {
  const auto* columns1 = static_cast<const Acc*>(p.columns1);
  const auto* columns2 = static_cast<const Acc*>(p.columns2);
  const int64_t rows = p.boxes1.count, count = p.boxes2.count;
  const Acc eps = static_cast<Acc>(p.eps);
  auto* out = static_cast<Out*>(p.result);
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t tile_row = tile / tile_columns;
    const int64_t first = tile_row * kRows;
    const int64_t j = (tile - tile_row * tile_columns) * kThreads + threadIdx.x;
    if (j >= count) continue;
    const PairBox<Acc> other = load_pair_box(columns2, count, j);
    const int64_t last = rows - first < kRows ? rows : first + kRows;
    for (int64_t i = first; i < last; ++i) {
      const PairBox<Acc> box = load_pair_box(columns1, rows, i);
      out[i * count + j] = static_cast<Out>(pair_overlap<kind>(box, other, eps));
    }
  }
}

template <BoxOverlap kind>
void launch_kind(const BoxIouParams& p, void* stream) {
  const int64_t tile_columns = (p.boxes2.count + kThreads - 1) / kThreads;
  const int64_t tiles = tile_columns * ((p.boxes1.count + kRows - 1) / kRows);
  const auto start = [&](auto kernel) {
    launch(kernel, grid_for(tiles), dim3(kThreads), 0, stream, p, tile_columns, tiles);
  };
  if (!p.in_double) {
    start(box_iou<kind, float, float>);
  } else if (p.result_dtype == DType::kFloat64) {
    start(box_iou<kind, double, double>);
  } else {
    start(box_iou<kind, double, float>);
  }
}

void box_iou_launch(const BoxIouParams& p, Workspace& workspace) {
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

const bool registered = box_columns_stub.set(kCudaSlot, box_columns_launch) &&
                        box_iou_stub.set(kCudaSlot, box_iou_launch);

}  // namespace
}  // namespace visops
