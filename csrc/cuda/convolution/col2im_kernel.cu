// NOTE [ col2im on CUDA ]
// A thread has an element of the image and adds the columns that see it, by ascending k. There are
// no atomics, and neighbouring threads read neighbouring columns of unfold. Blocks stride over what
// is left.
//
// Order of the sums: NOTE [ Sums of col2im ].
#include "core/convolution/col2im_sum.h"
#include "core/convolution/im2col.h"
#include "core/dispatch/workspace.h"
#include "cuda/convolution/im2col_index.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kThreads = 256;

// Sets the place that sees element `at` of the image through element k of the kernel; false if
// none.
template <class Index>
__device__ inline bool position_of(const WindowAxis<Index>& axis, Index at, Index k,
                                   Index* position) {
  const Index from = at + axis.before - k * axis.dilation;
  if (from < 0) return false;
  const Index quotient = axis.stride.divide(from);
  *position = quotient;
  return quotient * axis.stride.value == from && quotient < axis.positions.value;
}

template <class T, int kParts, class Index>
__global__ void __launch_bounds__(kThreads)
    col2im(const __grid_constant__ Im2colParams p, const __grid_constant__ WindowPlan<Index> plan,
           const int64_t count) {
  const WindowAxis<Index>(&axis)[kWindowDims] = plan.axis;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += stride) {
    const Index lead = plan.pixels.divide(static_cast<Index>(i));
    const WindowIndex<Index> at = window_index(
        plan, static_cast<Index>(i) - lead * plan.pixels.value, &WindowAxis<Index>::size);
    const T* columns =
        static_cast<const T*>(p.source) + lead * p.kernel_elements * p.positions * kParts;
    SumOf<T> sums[kParts] = {};
    Index o0, o1, o2, o3;
    for (Index k0 = 0; k0 < axis[0].kernel.value; ++k0) {
      if (!position_of(axis[0], at.at[0], k0, &o0)) continue;
      for (Index k1 = 0; k1 < axis[1].kernel.value; ++k1) {
        if (!position_of(axis[1], at.at[1], k1, &o1)) continue;
        for (Index k2 = 0; k2 < axis[2].kernel.value; ++k2) {
          if (!position_of(axis[2], at.at[2], k2, &o2)) continue;
          const Index row = (o0 * axis[1].positions.value + o1) * axis[2].positions.value + o2;
          const Index k_row = (k0 * axis[1].kernel.value + k1) * axis[2].kernel.value + k2;
          for (Index k3 = 0; k3 < axis[3].kernel.value; ++k3) {
            if (!position_of(axis[3], at.at[3], k3, &o3)) continue;
            const Index k = k_row * axis[3].kernel.value + k3;
            const Index o = row * axis[3].positions.value + o3;
            const Index from =
                p.is_patches ? o * plan.elements.value + k : k * plan.positions.value + o;
            for (int part = 0; part < kParts; ++part) {
              add(&sums[part], columns + (static_cast<int64_t>(from) * kParts + part));
            }
          }
        }
      }
    }
    for (int part = 0; part < kParts; ++part) {
      store_sum(static_cast<T*>(p.result) + i * kParts + part, sums[part]);
    }
  }
}

template <class T, int kParts, class Index>
void launch_index(const Im2colParams& p, int64_t count, void* stream) {
  launch(col2im<T, kParts, Index>, grid_for((count + kThreads - 1) / kThreads), dim3(kThreads), 0,
         stream, p, window_plan<Index>(p), count);
}

template <class T, int kParts>
void launch_type(const Im2colParams& p, void* stream) {
  const int64_t count = p.lead * image_rows(p) * p.dim[kWindowDims - 1].size;
  const int64_t columns = p.kernel_elements * p.positions;
  if (fits_32_bits(p, count > columns ? count : columns)) {
    launch_index<T, kParts, int32_t>(p, count, stream);
  } else {
    launch_index<T, kParts, int64_t>(p, count, stream);
  }
}

void col2im_launch(const Im2colParams& p, Workspace& workspace) {
  with_sum_element(p.arithmetic, [&](auto element) {
    using Element = decltype(element);
    launch_type<typename Element::Stored, Element::kNumbers>(p, workspace.stream());
  });
}

const bool registered = col2im_stub.set(kCudaSlot, col2im_launch);

}  // namespace
}  // namespace visops
