// At most so many kept candidates of an image, on CUDA.
//
// NOTE [ Limits on CUDA ]
// A block has an image, and takes 2048 of its candidates at a time. Which of them begin an image is
// found by halving.

#include "core/suppression/nms.h"

#include "cuda/suppression/kept_ranks.h"

namespace visops {
namespace {

// The first candidate of an image, or of a later one.
__device__ inline int64_t first_of_image(const NmsLimitParams& p, int64_t image) {
  if (p.image == nullptr) return image * p.in_image;
  int64_t low = 0, high = p.count;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    (p.image[middle] < image ? low : high) = p.image[middle] < image ? middle + 1 : middle;
  }
  return high;
}

__global__ void __launch_bounds__(kThreads) nms_limit(const __grid_constant__ NmsLimitParams p) {
  for (int64_t image = blockIdx.x; image < p.images; image += gridDim.x) {
    const auto flag_of = [&](int64_t i) { return p.kept + (p.slot == nullptr ? i : p.slot[i]); };
    each_kept(
        first_of_image(p, image), first_of_image(p, image + 1), 0, p.count,
        [&](int64_t i) { return *flag_of(i) != 0; },
        [&](int64_t i, int64_t rank) {
          if (rank >= p.most) *flag_of(i) = 0;
        });
  }
}

void nms_limit_cuda(const NmsLimitParams& p, Workspace& workspace) {
  launch(nms_limit, grid_for(p.images), dim3(kThreads), 0, workspace.stream(), p);
}

const bool registered = nms_limit_stub.set(kCudaSlot, nms_limit_cuda);

}  // namespace
}  // namespace visops
