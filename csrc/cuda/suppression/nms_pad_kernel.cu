// The result of suppression at a fixed size, on CUDA.
//
// NOTE [ Padding on CUDA ]
// A block has an image, and takes 2048 of its candidates at a time, until the row is full. A warp
// has 256 of them in turn, so that ranks rise from warp to warp; it counts kept ones by their bits.
// Assumes what the front establishes: candidates are boxes of their image.

#include "core/dispatch/workspace.h"
#include "core/suppression/nms_pad.h"

#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr int kWords = 8;  // of 32 flags, which a warp has at a time
constexpr int kOfWarp = kWords * kWarp;
constexpr int kAtOnce = kWarps * kOfWarp;

__global__ void __launch_bounds__(kThreads) nms_pad(const __grid_constant__ NmsPadParams p) {
  __shared__ int of_warp[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int64_t image = blockIdx.x; image < p.images; image += gridDim.x) {
    int64_t* row = p.indices + image * p.most;
    const int64_t past = first_candidate(p, image + 1);
    int64_t kept = 0;
    for (int64_t at = first_candidate(p, image); at < past && kept < p.most; at += kAtOnce) {
      const int64_t mine = at + warp * kOfWarp + lane;
      unsigned bits[kWords];
      int count = 0;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        const int64_t i = mine + w * kWarp;
        bits[w] = __ballot_sync(0xffffffffu, i < past && p.kept[i] != 0);
        count += __popc(bits[w]);
      }
      if (lane == 0) of_warp[warp] = count;
      __syncthreads();
      int64_t rank = kept;
      for (int w = 0; w < kWarps; ++w) {
        if (w < warp) rank += of_warp[w];
        kept += of_warp[w];
      }
      __syncthreads();  // before the next counts replace these
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        const int64_t to = rank + __popc(bits[w] & ((1u << lane) - 1));
        if ((bits[w] >> lane & 1) != 0 && to < p.most) {
          row[to] = p.candidates[mine + w * kWarp] - image * p.per_image;
        }
        rank += __popc(bits[w]);
      }
    }
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
