// NOTE [ col2im on CUDA ]
// A thread has an element of the image and adds the columns that see it, by ascending k. There are
// no atomics, and neighbouring threads read neighbouring columns of unfold. Blocks stride over what
// is left.
//
// Order of the sums: NOTE [ Sums of col2im ].
#include "core/convolution/col2im_sum.h"
#include "core/convolution/im2col.h"
#include "cuda/convolution/im2col_index.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kThreads = 256;

// Sets the place that sees element `at` of the image through element k of the kernel; false if
// none.
__device__ inline bool place_of(const WindowDim& dim, int64_t at, int64_t k, int64_t* place) {
  int64_t from = at + dim.before - k * dim.dilation;
  if (from < 0) return false;
  if (dim.stride != 1) {
    // Sizes above 32 bits are rare, and dividing them takes three times as long.
    const int64_t quotient = from <= UINT32_MAX && dim.stride <= UINT32_MAX
                                 ? static_cast<uint32_t>(from) / static_cast<uint32_t>(dim.stride)
                                 : from / dim.stride;
    if (quotient * dim.stride != from) return false;
    from = quotient;
  }
  *place = from;
  return from < dim.places;
}

template <class T, int kParts, class Index>
__global__ void __launch_bounds__(kThreads)
    col2im(const __grid_constant__ Im2colParams p, const int64_t count) {
  const int64_t pixels = image_rows(p) * p.dim[kWindowDims - 1].size;
  const int64_t place_step = p.is_patches ? p.kernel_elements : 1;
  const int64_t k_step = p.is_patches ? 1 : p.places;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += stride) {
    const Index lead = static_cast<Index>(i) / static_cast<Index>(pixels);
    const WindowIndex at =
        image_index<Index>(p, static_cast<Index>(i) - lead * static_cast<Index>(pixels));
    const T* columns =
        static_cast<const T*>(p.source) + lead * p.kernel_elements * p.places * kParts;
    SumOf<T> sums[kParts] = {};
    int64_t o0, o1, o2, o3;
    for (int64_t k0 = 0; k0 < p.dim[0].kernel; ++k0) {
      if (!place_of(p.dim[0], at.at[0], k0, &o0)) continue;
      for (int64_t k1 = 0; k1 < p.dim[1].kernel; ++k1) {
        if (!place_of(p.dim[1], at.at[1], k1, &o1)) continue;
        for (int64_t k2 = 0; k2 < p.dim[2].kernel; ++k2) {
          if (!place_of(p.dim[2], at.at[2], k2, &o2)) continue;
          const int64_t row = (o0 * p.dim[1].places + o1) * p.dim[2].places + o2;
          const int64_t k_row = (k0 * p.dim[1].kernel + k1) * p.dim[2].kernel + k2;
          for (int64_t k3 = 0; k3 < p.dim[3].kernel; ++k3) {
            if (!place_of(p.dim[3], at.at[3], k3, &o3)) continue;
            const int64_t k = k_row * p.dim[3].kernel + k3;
            const int64_t from = (row * p.dim[3].places + o3) * place_step + k * k_step;
            for (int part = 0; part < kParts; ++part) {
              add(&sums[part], columns + from * kParts + part);
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

template <class T, int kParts>
void launch_type(const Im2colParams& p, void* stream) {
  const int64_t count = p.lead * image_rows(p) * p.dim[kWindowDims - 1].size;
  const auto start = [&](auto kernel) {
    launch(kernel, grid_for((count + kThreads - 1) / kThreads), dim3(kThreads), 0, stream, p,
           count);
  };
  if (fits_32_bits(count)) {
    start(col2im<T, kParts, uint32_t>);
  } else {
    start(col2im<T, kParts, int64_t>);
  }
}

void col2im_launch(const Im2colParams& p, void* stream) {
  with_sum_element(p.arithmetic, [&](auto element) {
    using Element = decltype(element);
    launch_type<typename Element::Stored, Element::kNumbers>(p, stream);
  });
}

const bool registered = col2im_stub.set(kCudaSlot, col2im_launch);

}  // namespace
}  // namespace visops
