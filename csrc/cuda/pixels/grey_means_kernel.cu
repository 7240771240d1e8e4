// NOTE [ Grey means on CUDA ]
// Strategy: a block a picture, and the blocks stride over the batch. Each channel that counts is
// summed in 32 bits by all threads, 16 bytes at a time, first within a warp, then by one thread
// over the warps: sums are of integers, so their order does not matter. The mean itself is one
// thread's, in float64, then each thread writes elements of the sample's colours.
//
// Rounding: core/pixels/colors/grey_means.h, without contraction (-fmad=false): the bits of the
// CPU.
//
// Assumes from check_grey_means(): at most 2^16 pixels, so that 32 bits hold a sum of bytes.
#include "core/pixels/colors/grey_means.h"
#include "cuda/lane_sum.h"
#include "cuda/launch.h"
#include "cuda/pixels/each_value.h"

namespace visops {
namespace {

constexpr int kThreads = 512;

__global__ void __launch_bounds__(kThreads)
    add_grey_means(const __grid_constant__ GreyMeansParams p) {
  __shared__ uint32_t sums[kThreads / kWarpLanes][kGreyChannels];
  __shared__ double mean;
  const int thread = static_cast<int>(threadIdx.x), pixels = static_cast<int>(p.pixels);
  const int64_t rows = p.steps * p.channels, size = rows * (p.channels + 1);
  for (int64_t i = blockIdx.x; i < p.batch; i += gridDim.x) {
    const uint8_t* plane = p.pictures + i * p.channels * p.pixels;
    for (int c = 0; c < grey_channels(p.channels); ++c, plane += pixels) {
      uint32_t sum = 0;
      each_value<kThreads>(plane, pixels, [&](uint8_t value) { sum += value; });
      sum = sum_lanes(sum);
      if (thread % kWarpLanes == 0) sums[thread / kWarpLanes][c] = sum;
    }
    __syncthreads();  // the warps' sums are there
    if (thread == 0) {
      int64_t total[kGreyChannels] = {};
      for (int c = 0; c < grey_channels(p.channels); ++c) {
        for (const auto& warp : sums) total[c] += warp[c];
      }
      mean = grey_mean(total, p.channels, p.scale);
    }
    __syncthreads();  // the mean is there
    const double* const colors = p.colors + i * size;
    const double* const weights = p.weights + i * rows;
    for (int64_t k = thread; k < size; k += kThreads) {
      p.output[i * size + k] = color_with_mean(colors, weights, p.channels, k, mean);
    }
  }
}

void grey_means_cuda(const GreyMeansParams& p, Workspace& workspace) {
  launch(add_grey_means, grid_for(p.batch), dim3(kThreads), 0, workspace.stream(), p);
}

const bool registered = grey_means_stub.set(kCudaSlot, grey_means_cuda);

}  // namespace
}  // namespace visops
