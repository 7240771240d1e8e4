// NOTE [ im2col on CUDA ]
// Only the size of an element matters, not its type. For unfold, a thread has four neighbouring
// places of a row and writes all that the window sees there: places' indices are computed once, the
// next element of the kernel takes an addition, and four elements are stored at once. One
// comparison tells an element from padding: with a path of its own for places that see none, nearly
// every warp would take both. For patches, where the window's elements are adjacent, a thread has
// one element of the result. Blocks stride over what is left. Divisors are prepared on the host
// (cuda/divisor.h).
#include <type_traits>

#include "core/convolution/im2col.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/arithmetic.h"
#include "cuda/convolution/im2col_index.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kThreads = 256;

struct Bytes16 {
  uint64_t low, high;
};

// Rows of places, cut into pieces that a thread has.
template <class Index>
struct PlacePieces {
  Divisor<Index> of_row;
  bool is_aligned;  // pieces can be stored at once
};

// Elements that neighbouring places see.
template <class T, int kPlaces>
struct alignas(sizeof(T) * kPlaces < 16 ? sizeof(T) * kPlaces : 16) SeenElements {
  T element[kPlaces];
};

template <class T, class Index, int kPlaces>
__global__ void __launch_bounds__(kThreads)
    unfold(const __grid_constant__ Im2colParams p, const __grid_constant__ WindowPlan<Index> plan,
           const __grid_constant__ PlacePieces<Index> pieces, const int64_t count) {
  using Seen = SeenElements<T, kPlaces>;
  using Unsigned = std::make_unsigned_t<Index>;
  T fill;
  memcpy(&fill, p.fill, sizeof(T));
  const WindowAxis<Index>(&axis)[kWindowDims] = plan.axis;
  const WindowAxis<Index>& across = axis[kWindowDims - 1];
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += stride) {
    const Index place_row = pieces.of_row.divide(static_cast<Index>(i));
    const Index first = (static_cast<Index>(i) - place_row * pieces.of_row.value) * kPlaces;
    const Index place = place_row * across.positions.value + first;
    const Index left = across.positions.value - first;
    const Index lead = plan.positions.divide(place);
    const Index at = place - lead * plan.positions.value;
    const WindowIndex<Index> position = window_index(plan, at, &WindowAxis<Index>::positions);
    Index origin[kWindowDims];
    for (int d = 0; d < kWindowDims; ++d) origin[d] = first_seen(axis[d], position.at[d]);
    const T* image = static_cast<const T*>(p.source) + lead_offset(plan, lead);
    T* out = static_cast<T*>(p.result) + lead * p.kernel_elements * p.positions + at;
    Index at0 = origin[0];
    for (Index k0 = 0; k0 < axis[0].kernel.value; ++k0, at0 += axis[0].dilation) {
      Index at1 = origin[1];
      for (Index k1 = 0; k1 < axis[1].kernel.value; ++k1, at1 += axis[1].dilation) {
        const bool on_plane = is_inside(axis[0], at0) && is_inside(axis[1], at1);
        const T* plane = image + (at0 * axis[0].step + at1 * axis[1].step);
        Index at2 = origin[2];
        for (Index k2 = 0; k2 < axis[2].kernel.value; ++k2, at2 += axis[2].dilation) {
          const bool on_row = on_plane && is_inside(axis[2], at2);
          const T* row = plane + at2 * axis[2].step;
          const Unsigned size = on_row ? static_cast<Unsigned>(across.size.value) : 0;
          Index at3 = origin[3];
          for (Index k3 = 0; k3 < across.kernel.value; ++k3, at3 += across.dilation) {
            const T* const from = row + at3;
            Seen seen;
            for (int j = 0; j < kPlaces; ++j) {  // those beyond the row of places are not stored
              const Index step = j * across.stride.value;
              const bool has_element =
                  static_cast<Unsigned>(at3) + static_cast<Unsigned>(step) < size;
              seen.element[j] = has_element ? from[step] : fill;
            }
            if (pieces.is_aligned) {  // then all are whole
              *reinterpret_cast<Seen*>(out) = seen;
            } else {
              for (int j = 0; j < kPlaces; ++j) {
                if (j < left) out[j] = seen.element[j];
              }
            }
            out += p.positions;
          }
        }
      }
    }
  }
}

template <class T, class Index>
__global__ void __launch_bounds__(kThreads)
    patches(const __grid_constant__ Im2colParams p, const __grid_constant__ WindowPlan<Index> plan,
            const int64_t count) {
  T fill;
  memcpy(&fill, p.fill, sizeof(T));
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += stride) {
    const Index window = plan.elements.divide(static_cast<Index>(i));
    const Index k = static_cast<Index>(i) - window * plan.elements.value;
    const Index lead = plan.positions.divide(window);
    const WindowIndex<Index> position =
        window_index(plan, window - lead * plan.positions.value, &WindowAxis<Index>::positions);
    const WindowIndex<Index> kernel = window_index(plan, k, &WindowAxis<Index>::kernel);
    Index offset = 0;
    bool inside = true;
    for (int d = 0; d < kWindowDims; ++d) {
      if (d < plan.first) continue;
      const WindowAxis<Index>& axis = plan.axis[d];
      const Index at = first_seen(axis, position.at[d]) + kernel.at[d] * axis.dilation;
      inside = inside && is_inside(axis, at);
      offset += at * axis.step;
    }
    T element = fill;
    if (inside) element = (static_cast<const T*>(p.source) + lead_offset(plan, lead))[offset];
    static_cast<T*>(p.result)[i] = element;
  }
}

template <class T, class Index>
void launch_layout(const Im2colParams& p, void* stream) {
  // Larger elements, and numbers, would take too many registers.
  constexpr int kPlaces = sizeof(T) <= 8 && sizeof(Index) <= 4 ? 4 : 1;
  using Seen = SeenElements<T, kPlaces>;
  const WindowPlan<Index> plan = window_plan<Index>(p);
  const auto start = [&](auto kernel, int64_t count, const auto&... more) {
    launch(kernel, grid_for((count + kThreads - 1) / kThreads), dim3(kThreads), 0, stream, p, plan,
           more..., count);
  };
  if (p.is_patches) {
    return start(patches<T, Index>, p.lead * p.positions * p.kernel_elements);
  }
  const int64_t of_row = p.dim[kWindowDims - 1].positions;
  PlacePieces<Index> pieces;
  pieces.of_row = divisor_of<Index>(parts_of(of_row, kPlaces));
  pieces.is_aligned =
      of_row % kPlaces == 0 && reinterpret_cast<uintptr_t>(p.result) % alignof(Seen) == 0;
  start(unfold<T, Index, kPlaces>, p.lead * (p.positions / of_row) * pieces.of_row.value, pieces);
}

template <class T>
void launch_type(const Im2colParams& p, void* stream) {
  if (fits_32_bits(p, p.lead * p.positions * p.kernel_elements)) {
    launch_layout<T, int32_t>(p, stream);
  } else {
    launch_layout<T, int64_t>(p, stream);
  }
}

void im2col_launch(const Im2colParams& p, Workspace& workspace) {
  void* const stream = workspace.stream();
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
