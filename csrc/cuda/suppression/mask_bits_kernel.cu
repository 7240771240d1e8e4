// NOTE [ Masks to bits on CUDA ]
// A block has a mask; a warp has a word at a time, whose neighbouring lanes read neighbouring
// pixels: a ballot collects 32. Areas and extents are sums, minima and maxima of integers, so any
// order will do. Assumes that the front checked shapes and that `order` holds indices of masks.

#include "core/dispatch/workspace.h"
#include "core/suppression/nms.h"
#include "cuda/threads.h"

namespace visops {
namespace {

__device__ MaskExtent joined(const MaskExtent& a, const MaskExtent& b) {
  return {b.begin < a.begin ? b.begin : a.begin, b.end > a.end ? b.end : a.end, a.area + b.area};
}

__global__ void __launch_bounds__(kThreads) mask_bits(const __grid_constant__ MaskBitsParams p) {
  __shared__ MaskExtent of_warp[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t pixels = p.height * p.width, words = mask_words(p);
  for (int64_t i = blockIdx.x; i < p.count; i += gridDim.x) {
    const uint8_t* mask = p.masks + p.order[i] * p.mask_stride;
    MaskExtent extent = {words, 0, 0};
    for (int64_t w = warp; w < words; w += kWarps) {
      uint64_t word = 0;
      for (int half = 0; half < 2; ++half) {
        const int64_t pixel = w * 64 + half * kWarp + lane;
        const bool inside = pixel < pixels && mask[pixel_offset(p, pixel)] != 0;
        word |= static_cast<uint64_t>(__ballot_sync(kWholeWarp, inside)) << (half * kWarp);
      }
      if (lane == 0) p.bits[i * words + w] = word;
      if (word != 0) extent = joined(extent, {w, w + 1, __popcll(word)});
    }
    if (lane == 0) of_warp[warp] = extent;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int other = 1; other < kWarps; ++other) extent = joined(extent, of_warp[other]);
      p.extent[i] = extent;
    }
    __syncthreads();
  }
}

void mask_bits_cuda(const MaskBitsParams& p, Workspace& workspace) {
  launch(mask_bits, grid_for(p.count), dim3(kThreads), 0, workspace.stream(), p);
}

const bool registered = mask_bits_stub.set(kCudaSlot, mask_bits_cuda);

}  // namespace
}  // namespace visops
