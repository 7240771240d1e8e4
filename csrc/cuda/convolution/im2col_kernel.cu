// NOTE [ im2col on CUDA ]
// Only the size of an element matters, not its type. For unfold, a thread has a place and writes
// all that the window sees there: neighbouring threads read and write neighbouring elements, and a
// place's indices are computed once. For patches, where the window's elements are adjacent, a
// thread has one element of the result. Blocks stride over what is left.
#include "core/convolution/im2col.h"
#include "cuda/convolution/im2col_index.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kThreads = 256;

struct Bytes16 {
  uint64_t low, high;
};

template <class T>
__device__ inline T element_seen(const Im2colParams& p, const T* image, const WindowIndex& place,
                                 const WindowIndex& kernel, T fill) {
  int64_t offset = 0;
  for (int d = 0; d < kWindowDims; ++d) {
    const WindowDim& dim = p.dim[d];
    const int64_t at = place.at[d] * dim.stride + kernel.at[d] * dim.dilation - dim.before;
    if (at < 0 || at >= dim.size) return fill;
    offset += at * p.stride[d];
  }
  return image[offset];
}

template <class T, class Index>
__global__ void __launch_bounds__(kThreads)
    unfold(const __grid_constant__ Im2colParams p, const int64_t count) {
  T fill;
  memcpy(&fill, p.fill, sizeof(T));
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += stride) {
    const Index lead = static_cast<Index>(i) / static_cast<Index>(p.places);
    const Index at = static_cast<Index>(i) - lead * static_cast<Index>(p.places);
    const WindowIndex place = place_index<Index>(p, at);
    const T* image = static_cast<const T*>(p.source) + lead_offset(p, lead);
    T* out = static_cast<T*>(p.result) + lead * p.kernel_elements * p.places + at;
    WindowIndex kernel = {};
    for (int64_t k = 0; k < p.kernel_elements; ++k, out += p.places) {
      *out = element_seen(p, image, place, kernel, fill);
      next_in_kernel(p, &kernel);
    }
  }
}

template <class T, class Index>
__global__ void __launch_bounds__(kThreads)
    patches(const __grid_constant__ Im2colParams p, const int64_t count) {
  T fill;
  memcpy(&fill, p.fill, sizeof(T));
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += stride) {
    const Index elements = static_cast<Index>(p.kernel_elements);
    const Index window = static_cast<Index>(i) / elements;
    const Index k = static_cast<Index>(i) - window * elements;
    const Index lead = window / static_cast<Index>(p.places);
    const WindowIndex place = place_index<Index>(p, window - lead * static_cast<Index>(p.places));
    const T* image = static_cast<const T*>(p.source) + lead_offset(p, lead);
    static_cast<T*>(p.result)[i] = element_seen(p, image, place, kernel_index<Index>(p, k), fill);
  }
}

template <class T, class Index>
void launch_layout(const Im2colParams& p, void* stream) {
  const auto start = [&](auto kernel, int64_t count) {
    launch(kernel, grid_for((count + kThreads - 1) / kThreads), dim3(kThreads), 0, stream, p,
           count);
  };
  if (p.is_patches) {
    start(patches<T, Index>, p.lead * p.places * p.kernel_elements);
  } else {
    start(unfold<T, Index>, p.lead * p.places);
  }
}

template <class T>
void launch_type(const Im2colParams& p, void* stream) {
  if (fits_32_bits(p.lead * p.places * p.kernel_elements)) {
    launch_layout<T, uint32_t>(p, stream);
  } else {
    launch_layout<T, int64_t>(p, stream);
  }
}

void im2col_launch(const Im2colParams& p, void* stream) {
  switch (p.element_size) {
    case 1: return launch_type<uint8_t>(p, stream);
    case 2: return launch_type<uint16_t>(p, stream);
    case 4: return launch_type<uint32_t>(p, stream);
    case 8: return launch_type<uint64_t>(p, stream);
    default: return launch_type<Bytes16>(p, stream);
  }
}

const bool registered = im2col_stub.set(kCudaSlot, im2col_launch);

}  // namespace
}  // namespace visops
