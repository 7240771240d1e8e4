// From a thread's linear index to indices of places, of the kernel's elements and of the image.
// Index is int32_t wherever all numbers fit.
#pragma once

#include "core/convolution/im2col.h"
#include "cuda/divisor.h"
#include "cuda/launch.h"

namespace visops {
namespace {

template <class Index>
struct WindowAxis {
  Divisor<Index> size, positions, kernel, stride;
  Index dilation, before;
  Index step;  // from one element of the image to the next
};

// Im2colParams as kernels read it.
template <class Index>
struct WindowPlan {
  WindowAxis<Index> axis[kWindowDims];
  Divisor<Index> pixels, positions, elements;  // of the image, of all places, of the kernel
  Divisor<Index> lead_size[kLeadDims];
  int64_t lead_stride[kLeadDims];
  int first;  // dimensions before this one are of size 1 in every respect
};

template <class Index>
inline WindowPlan<Index> window_plan(const Im2colParams& p) {
  WindowPlan<Index> plan = {};
  plan.first = kWindowDims - 1;
  for (int d = kWindowDims - 1; d >= 0; --d) {
    const WindowDim& dim = p.dim[d];
    WindowAxis<Index>& axis = plan.axis[d];
    axis.size = divisor_of<Index>(dim.size);
    axis.positions = divisor_of<Index>(dim.positions);
    axis.kernel = divisor_of<Index>(dim.kernel);
    axis.stride = divisor_of<Index>(dim.stride);
    axis.dilation = static_cast<Index>(dim.dilation);
    axis.before = static_cast<Index>(dim.before);
    axis.step = static_cast<Index>(p.stride[d]);
    if (dim.size != 1 || dim.positions != 1 || dim.kernel != 1 || dim.before != 0) plan.first = d;
  }
  plan.pixels = divisor_of<Index>(image_rows(p) * p.dim[kWindowDims - 1].size);
  plan.positions = divisor_of<Index>(p.positions);
  plan.elements = divisor_of<Index>(p.kernel_elements);
  for (int d = 0; d < kLeadDims; ++d) {
    plan.lead_size[d] = divisor_of<Index>(p.lead_size[d]);
    plan.lead_stride[d] = p.lead_stride[d];
  }
  return plan;
}

// Whether 32 bits hold every index: `count` linear ones, positions in the padded image, and their
// offsets in an image of one lead index.
inline bool fits_32_bits(const Im2colParams& p, int64_t count) {
  const double limit = 2147483648.0;
  double most = 0.0;
  bool fits = static_cast<double>(count) < limit && static_cast<double>(p.lead) < limit;
  for (int d = 0; d < kWindowDims; ++d) {
    const WindowDim& dim = p.dim[d];
    // Strides and dilations themselves count too, where there is one place or one element.
    const double reach = static_cast<double>(dim.size) + static_cast<double>(dim.before) +
                         static_cast<double>(dim.positions) * static_cast<double>(dim.stride) +
                         static_cast<double>(dim.kernel) * static_cast<double>(dim.dilation);
    const double step = static_cast<double>(p.stride[d]);
    fits = fits && reach < limit;
    most += reach * (step < 0.0 ? -step : step);
  }
  return fits && most < limit;
}

template <class Index>
struct WindowIndex {
  Index at[kWindowDims];
};

// Splits `linear`, whose last dimension varies fastest; `sizes` is which divisor of an axis.
template <class Index>
__device__ inline WindowIndex<Index> window_index(const WindowPlan<Index>& plan, Index linear,
                                                  Divisor<Index> WindowAxis<Index>::* sizes) {
  WindowIndex<Index> index;
  for (int d = kWindowDims - 1; d >= 0; --d) {
    index.at[d] = linear;
    if (d > plan.first) {
      const Divisor<Index>& size = plan.axis[d].*sizes;
      const Index rest = size.divide(linear);
      index.at[d] = linear - rest * size.value;
      linear = rest;
    } else {
      linear = 0;
    }
  }
  return index;
}

template <class Index>
__device__ inline int64_t lead_offset(const WindowPlan<Index>& plan, Index lead) {
  int64_t offset = 0;
  for (int d = kLeadDims - 1; d >= 0; --d) {
    const Divisor<Index>& size = plan.lead_size[d];
    if (size.value == 1) continue;
    const Index rest = size.divide(lead);
    offset += static_cast<int64_t>(lead - rest * size.value) * plan.lead_stride[d];
    lead = rest;
  }
  return offset;
}

// The first element that a window sees along an axis, without padding.
template <class Index>
__device__ inline Index first_seen(const WindowAxis<Index>& axis, Index position) {
  return position * axis.stride.value - axis.before;
}

template <class Index>
__device__ inline bool is_inside(const WindowAxis<Index>& axis, Index at) {
  return at >= 0 && at < axis.size.value;
}

}  // namespace
}  // namespace visops
