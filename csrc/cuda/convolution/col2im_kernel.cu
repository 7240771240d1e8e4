// NOTE [ col2im on CUDA ]
// A thread has an element of the image and adds the columns that see it, by ascending k. Where the
// window moves by single elements along the last dimension, the columns that see neighbours through
// one element of the kernel are neighbours too, and a thread has four. There are no atomics, and
// neighbouring threads read neighbouring columns of unfold. Blocks stride over what is left.
//
// Order of the sums: NOTE [ Sums of col2im ].
#include "core/convolution/im2col.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/arithmetic.h"
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

template <class T, int kParts, class Index, int kPixels>
__global__ void __launch_bounds__(kThreads)
    col2im(const __grid_constant__ Im2colParams p, const __grid_constant__ WindowPlan<Index> plan,
           const __grid_constant__ Divisor<Index> pieces, const int64_t count) {
  const WindowAxis<Index>(&axis)[kWindowDims] = plan.axis;
  const Index width = axis[kWindowDims - 1].size.value;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += stride) {
    const Index image_row = pieces.divide(static_cast<Index>(i));
    const Index x = (static_cast<Index>(i) - image_row * pieces.value) * kPixels;
    const Index pixels = width - x, pixel = image_row * width + x;
    const Index lead = plan.pixels.divide(pixel);
    const WindowIndex<Index> at =
        window_index(plan, pixel - lead * plan.pixels.value, &WindowAxis<Index>::size);
    const T* columns =
        static_cast<const T*>(p.source) + lead * p.kernel_elements * p.positions * kParts;
    SumOf<T> sums[kPixels][kParts] = {};
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
            const Index k = k_row * axis[3].kernel.value + k3;
            const auto column = [&](Index place) {
              const Index o = row * axis[3].positions.value + place;
              const Index from = p.is_patches && kPixels == 1 ? o * plan.elements.value + k
                                                              : k * plan.positions.value + o;
              return columns + static_cast<int64_t>(from) * kParts;
            };
            if constexpr (kPixels == 1) {
              if (!position_of(axis[3], at.at[3], k3, &o3)) continue;
              for (int part = 0; part < kParts; ++part) add(&sums[0][part], column(o3) + part);
            } else {  // columns of unfold, in steps of 1
              o3 = at.at[3] + axis[3].before - k3 * axis[3].dilation;
              const T* const from = column(o3);
              for (int j = 0; j < kPixels; ++j) {  // pixels beyond the row are not stored
                const auto place = static_cast<uint32_t>(o3) + static_cast<uint32_t>(j);
                const bool is_seen = place < static_cast<uint32_t>(axis[3].positions.value);
                if (is_seen) add(&sums[j][0], from + j);
              }
            }
          }
        }
      }
    }
    T* const to = static_cast<T*>(p.result) + static_cast<int64_t>(pixel) * kParts;
    for (int j = 0; j < kPixels; ++j) {
      if (j >= pixels) break;
      for (int part = 0; part < kParts; ++part) store_sum(to + j * kParts + part, sums[j][part]);
    }
  }
}

template <class T, int kParts, class Index, int kPixels>
void launch_pixels(const Im2colParams& p, void* stream) {
  const int64_t width = p.dim[kWindowDims - 1].size, pieces = parts_of(width, kPixels);
  const int64_t count = p.lead * image_rows(p) * pieces;
  launch(col2im<T, kParts, Index, kPixels>, grid_for((count + kThreads - 1) / kThreads),
         dim3(kThreads), 0, stream, p, window_plan<Index>(p), divisor_of<Index>(pieces), count);
}

template <class T, int kParts>
void launch_type(const Im2colParams& p, void* stream) {
  const int64_t count = p.lead * image_rows(p) * p.dim[kWindowDims - 1].size;
  const int64_t columns = p.kernel_elements * p.positions;
  if (!fits_32_bits(p, count > columns ? count : columns)) {
    launch_pixels<T, kParts, int64_t, 1>(p, stream);
  } else if (kParts == 1 && p.dim[kWindowDims - 1].stride == 1 && !p.is_patches) {
    launch_pixels<T, kParts, int32_t, kParts == 1 ? 4 : 1>(p, stream);
  } else {
    launch_pixels<T, kParts, int32_t, 1>(p, stream);
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
