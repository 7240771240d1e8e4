// Which kept box each box belongs to, on CUDA.
//
// NOTE [ Matching on CUDA ]
// A warp has a box: it tests 32 kept boxes at a time, best first, until one overlaps (NOTE
// [ Matching ]). Assumes what check_nms() and the front establish: `kept` has indices of boxes.

#include "core/suppression/nms.h"

#include "core/dispatch/workspace.h"
#include "cuda/threads.h"

namespace visops {
namespace {

template <class Acc>
__global__ void __launch_bounds__(kThreads)
    nms_match(const __grid_constant__ NmsMatchParams p, const Acc threshold) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int64_t i = first_warp(); i < p.count; i += all_warps()) {
    if (p.matched[i] >= 0) continue;  // the whole warp
    const Box<Acc> box = box_at<Acc>(p, i);
    for (int64_t first = 0; first < p.kept_count; first += kWarp) {
      bool meets = false;
      if (first + lane < p.kept_count) {
        const Box<Acc> kept = box_at<Acc>(p, p.kept[first + lane]);
        meets = !is_inert(kept) && overlaps(kept, box, threshold);
      }
      const unsigned found = __ballot_sync(kWholeWarp, meets);
      if (found == 0) continue;
      __syncwarp();  // all lanes have read what lane 0 replaces
      if (lane == 0) p.matched[i] = p.kept[first + __ffs(static_cast<int>(found)) - 1];
      break;
    }
  }
}

template <class Acc>
void nms_match_as(const NmsMatchParams& p, Workspace& workspace) {
  launch(nms_match<Acc>, grid_for((p.count + kWarps - 1) / kWarps), dim3(kThreads), 0,
         workspace.stream(), p, threshold_of(p.iou_threshold, Acc()));
}

void nms_match_cuda(const NmsMatchParams& p, Workspace& workspace) {
  if (computes_in_double(p.dtype)) {
    nms_match_as<double>(p, workspace);
  } else {
    nms_match_as<float>(p, workspace);
  }
}

const bool registered = nms_match_stub.set(kCudaSlot, nms_match_cuda);

}  // namespace
}  // namespace visops
