// The weights of a deformable convolution in the order in which its sums read them.
#pragma once

#include "core/workspace.h"
#include "cuda/deformable/conv2d_samples.h"

namespace visops {
namespace {

constexpr int kWeightThreads = 256;

template <class T>
__global__ void __launch_bounds__(kWeightThreads)
    deform_conv2d_transpose_weights(const __grid_constant__ DeformConvParams p,
                                    T* const transposed) {
  const int64_t ins = p.group_channels(), taps = p.taps(), count = p.out_channels * ins * taps;
  const int64_t step = int64_t{gridDim.x} * kWeightThreads;
  for (int64_t i = int64_t{blockIdx.x} * kWeightThreads + threadIdx.x; i < count; i += step) {
    const int64_t line = i / ins, row = line / taps;
    transposed[i] =
        static_cast<const T*>(p.weight)[(row * ins + i - line * ins) * taps + line - row * taps];
  }
}

// A copy, [out_channels, taps, channels of a group]: adjacent threads read adjacent channels.
template <class T>
const T* transposed_weights(const DeformConvParams& p, Workspace& workspace) {
  const int64_t count = p.out_channels * p.group_channels() * p.taps();
  T* transposed = allocate<T>(workspace, count);
  launch(deform_conv2d_transpose_weights<T>, grid_for(parts_of(count, kWeightThreads)),
         dim3(kWeightThreads), 0, workspace.stream(), p, transposed);
  return transposed;
}

}  // namespace
}  // namespace visops
