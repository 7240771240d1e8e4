// The result of suppression at a fixed size, on CUDA.
//
// NOTE [ Padding on CUDA ]
// A block has an image, and takes 2048 of its candidates at a time, until the row is full. Assumes
// what the front establishes: candidates are boxes of their image.

#include "core/dispatch/workspace.h"
#include "core/suppression/nms.h"
#include "cuda/suppression/kept_ranks.h"

namespace visops {
namespace {

__global__ void __launch_bounds__(kThreads) nms_pad(const __grid_constant__ NmsPadParams p) {
  for (int64_t image = blockIdx.x; image < p.images; image += gridDim.x) {
    int64_t* row = p.indices + image * p.most;
    const int64_t before = p.within_images ? 0 : image * p.per_image;
    int64_t kept = each_kept(
        first_candidate(p, image), first_candidate(p, image + 1), 0, p.most,
        [&](int64_t i) { return p.kept[i] != 0; },
        [&](int64_t i, int64_t to) { row[to] = p.candidates[i] - before; });
    if (kept > p.most) kept = p.most;
    for (int64_t i = kept + threadIdx.x; i < p.most; i += kThreads) row[i] = -1;
    if (threadIdx.x == 0) p.count[image] = kept;
  }
}

void nms_pad_cuda(const NmsPadParams& p, Workspace& workspace) {
  launch(nms_pad, grid_for(p.images), dim3(kThreads), 0, workspace.stream(), p);
}

const bool registered = nms_pad_stub.set(kCudaSlot, nms_pad_cuda);

}  // namespace
}  // namespace visops
