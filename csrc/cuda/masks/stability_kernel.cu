// How stable masks are, on CUDA.
//
// NOTE [ Stability on CUDA ]
// A block has a mask: threads count adjacent numbers, warps add up their counts, and the sums meet
// in shared memory. They are of integers, so any order will do.
#include "core/dispatch/workspace.h"
#include "core/masks/packed.h"
#include "core/numbers/element.h"
#include "cuda/threads.h"

namespace visops {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads) score_masks(const __grid_constant__ StabilityParams p) {
  using Acc = typename Accumulate<T>::type;
  __shared__ unsigned long long above_low, above_high;
  const Acc low = static_cast<Acc>(p.low), high = static_cast<Acc>(p.high);
  for (int64_t k = blockIdx.x; k < p.count; k += gridDim.x) {
    if (threadIdx.x == 0) above_low = above_high = 0;
    __syncthreads();
    const T* logits = static_cast<const T*>(p.logits) + k * p.pixels;
    unsigned lower = 0, higher = 0;  // of fewer than 2^31 pixels
    for (int64_t i = threadIdx.x; i < p.pixels; i += kThreads) {
      const Acc value = load_element(logits + i);
      lower += value > low ? 1 : 0;
      higher += value > high ? 1 : 0;
    }
    for (int step = kWarp / 2; step > 0; step /= 2) {
      lower += __shfl_xor_sync(kWholeWarp, lower, step);
      higher += __shfl_xor_sync(kWholeWarp, higher, step);
    }
    if (threadIdx.x % kWarp == 0) {
      atomicAdd(&above_low, static_cast<unsigned long long>(lower));
      atomicAdd(&above_high, static_cast<unsigned long long>(higher));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      p.scores[k] = stability_of(static_cast<int64_t>(above_high), static_cast<int64_t>(above_low));
    }  // the same thread clears them for the next mask
  }
}

void stability_cuda(const StabilityParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    launch(score_masks<T>, grid_for(p.count), dim3(kThreads), 0, workspace.stream(), p);
  });
}

const bool registered = stability_stub.set(kCudaSlot, stability_cuda);

}  // namespace
}  // namespace visops
