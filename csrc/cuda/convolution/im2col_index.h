// From a thread's linear index to indices of places, of the kernel's elements and of the image.
// Index is uint32_t wherever all values fit: a GPU divides those in a third of the time.
#pragma once

#include "core/convolution/im2col.h"
#include "cuda/launch.h"

namespace visops {
namespace {

struct WindowIndex {
  int64_t at[kWindowDims];
};

static inline bool fits_32_bits(int64_t count) { return count < (int64_t{1} << 31); }

template <class Index>
__device__ inline WindowIndex window_index(Index linear, const int64_t (&sizes)[kWindowDims]) {
  WindowIndex index;
  for (int d = kWindowDims - 1; d > 0; --d) {
    const Index size = static_cast<Index>(sizes[d]);
    const Index rest = linear / size;
    index.at[d] = static_cast<int64_t>(linear - rest * size);
    linear = rest;
  }
  index.at[0] = static_cast<int64_t>(linear);
  return index;
}

template <class Index>
__device__ inline WindowIndex place_index(const Im2colParams& p, Index linear) {
  return window_index(linear, {p.dim[0].places, p.dim[1].places, p.dim[2].places, p.dim[3].places});
}

template <class Index>
__device__ inline WindowIndex kernel_index(const Im2colParams& p, Index linear) {
  return window_index(linear, {p.dim[0].kernel, p.dim[1].kernel, p.dim[2].kernel, p.dim[3].kernel});
}

template <class Index>
__device__ inline WindowIndex image_index(const Im2colParams& p, Index linear) {
  return window_index(linear, {p.dim[0].size, p.dim[1].size, p.dim[2].size, p.dim[3].size});
}

__device__ inline void next_in_kernel(const Im2colParams& p, WindowIndex* kernel) {
  for (int d = kWindowDims - 1; d >= 0; --d) {
    if (++kernel->at[d] < p.dim[d].kernel) return;
    kernel->at[d] = 0;
  }
}

}  // namespace
}  // namespace visops
