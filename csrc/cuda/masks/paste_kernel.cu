// Masks pasted into images on CUDA, and the gradient.
//
// NOTE [ Pasting masks on CUDA ]
// Strategy: a thread for each axis of a box computes where it lies, in float64 where that matters,
// once. Then a thread has 8 bytes of results, which it stores at once, or a warp has a word of 64
// pixels, half by half, that ballots collect. Most pixels lie beyond their box, which costs two
// comparisons. In the gradient a thread has a pixel of a mask. It finds the rows and columns of the
// image that reach that pixel by bisection, since samples rise with them, and sums over those.
//
// Split: threads and warps stride over results. The order of sums is that of NOTE [ Gradients of
// pasted masks ] in core/masks/paste.h.
#include "core/dispatch/workspace.h"
#include "core/masks/packed.h"
#include "core/masks/paste.h"
#include "core/numbers/element_types.h"
#include "cuda/masks/threads.h"

namespace visops {
namespace {

constexpr auto kBilinear = Interpolation::kBilinear;

template <class Acc>
__global__ void __launch_bounds__(kThreads)
    make_maps(const __grid_constant__ PasteMasksParams p, PasteMap<Acc>* maps) {
  for (int64_t at = first_thread(); at < 2 * p.count; at += all_threads()) {
    const bool is_y = at % 2 != 0;
    PasteMap<Acc>& map = maps[at / 2];
    (is_y ? map.y : map.x) = paste_axis_of<Acc>(p, at / 2, is_y);
  }
}

// The sample of mask k at pixel (y, x), and whether it is reached.
template <class Acc>
struct Sampled {
  Acc value;
  bool reached;
};

__device__ inline bool holds(const Span& span, int64_t i) {
  return i >= span.begin && i < span.end;
}

template <class Acc>
__device__ Sampled<Acc> sample_mask(const PasteMasksParams& p, const PasteMap<Acc>& map, int64_t k,
                                    int64_t y, int64_t x) {
  const Sampled<Acc> nothing = {static_cast<Acc>(0), false};
  if (!holds(map.y.pixels, y) || !holds(map.x.pixels, x)) return nothing;
  const PixelTaps<kBilinear, Acc> taps = {paste_taps(map.y, y), paste_taps(map.x, x)};
  if (taps.outside()) return nothing;
  const Acc* mask = static_cast<const Acc*>(p.masks) + k * p.mask_height * p.mask_width;
  return {sample_pixel(mask, Strides{0, 0, p.mask_width, 1}, taps, static_cast<Acc>(0)), true};
}

template <class Acc>
__device__ bool inside_mask(const PasteMasksParams& p, const PasteMap<Acc>& map, int64_t k,
                            int64_t y, int64_t x) {
  const Sampled<Acc> found = sample_mask(p, map, k, y, x);
  return found.reached && is_inside(p.convention, found.value, static_cast<Acc>(p.threshold));
}

// What a pixel is stored as.
template <class T, class Acc>
__device__ T stored(const PasteMasksParams& p, const PasteMap<Acc>& map, int64_t k, int64_t y,
                    int64_t x) {
  T element;
  if constexpr (sizeof(T) == 1) {
    element = inside_mask(p, map, k, y, x) ? 1 : 0;
  } else {
    store_element(&element, sample_mask(p, map, k, y, x).value);
  }
  return element;
}

__device__ inline uint64_t bits_of(uint8_t element) { return element; }
__device__ inline uint64_t bits_of(Half element) { return element.bits; }
__device__ inline uint64_t bits_of(BFloat16 element) { return element.bits; }
__device__ inline uint64_t bits_of(float element) { return bit_cast<uint32_t>(element); }
__device__ inline uint64_t bits_of(double element) { return bit_cast<uint64_t>(element); }

template <class T, class Acc>
__global__ void __launch_bounds__(kThreads)
    paste_elements(const __grid_constant__ PasteMasksParams p, const PasteMap<Acc>* maps) {
  constexpr int kTogether = static_cast<int>(sizeof(uint64_t) / sizeof(T));
  const int64_t pixels = p.height * p.width, all = p.count * pixels;
  T* output = static_cast<T*>(p.output);
  for (int64_t first = first_thread() * kTogether; first < all;
       first += all_threads() * kTogether) {
    int64_t k = first / pixels, y = (first - k * pixels) / p.width;
    int64_t x = first - k * pixels - y * p.width;
    const int count = all - first < kTogether ? static_cast<int>(all - first) : kTogether;
    uint64_t together = 0;  // in registers, unlike an array
    for (int i = 0; i < count; ++i) {
      const T element = stored<T>(p, maps[k], k, y, x);
      together |= bits_of(element) << (8 * sizeof(T) * i);
      if (++x < p.width) continue;
      x = 0;
      if (++y < p.height) continue;
      y = 0;
      ++k;
    }
    if (count == kTogether) {
      *reinterpret_cast<uint64_t*>(output + first) = together;
      continue;
    }
    for (int i = 0; i < count; ++i) {
      output[first + i] = element_from_bits<T>(together >> (8 * sizeof(T) * i));
    }
  }
}

template <class Acc>
__global__ void __launch_bounds__(kThreads)
    paste_bits(const __grid_constant__ PasteMasksParams p, const PasteMap<Acc>* maps) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t words = words_of(p.width);
  uint64_t* output = static_cast<uint64_t*>(p.output);
  for (int64_t at = first_warp(); at < p.count * p.height * words; at += all_warps()) {
    const int64_t row = at / words, first = (at - row * words) * kPixelsPerWord;
    const int64_t k = row / p.height, y = row - k * p.height;
    uint64_t word = 0;
    for (int half = 0; half < 2; ++half) {
      const int64_t x = first + half * kWarp + lane;
      const bool inside = inside_mask(p, maps[k], k, y, x);
      word |= static_cast<uint64_t>(__ballot_sync(kWholeWarp, inside)) << (half * kWarp);
    }
    if (lane == 0) output[at] = word;
  }
}

// The first pixel of an axis whose first tap is `tap` or later.
template <class Acc>
__device__ int64_t first_at_tap(const PasteAxis<Acc>& axis, int64_t tap) {
  int64_t begin = axis.pixels.begin, end = axis.pixels.end;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (paste_sample(axis, middle).tap < tap) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

template <class T, class Acc>
__global__ void __launch_bounds__(kThreads)
    gather_gradient(const __grid_constant__ PasteMasksParams p, const PasteMap<Acc>* maps) {
  const int64_t pixels = p.mask_height * p.mask_width;
  Acc* sums = static_cast<Acc*>(p.grad_masks);
  for (int64_t at = first_thread(); at < p.count * pixels; at += all_threads()) {
    const int64_t k = at / pixels, i = (at - k * pixels) / p.mask_width;
    const int64_t j = at - k * pixels - i * p.mask_width;
    const PasteMap<Acc>& map = maps[k];
    const int64_t y_end = first_at_tap(map.y, i + 1), x_begin = first_at_tap(map.x, j - 1);
    const int64_t x_end = first_at_tap(map.x, j + 1);
    Acc sum = static_cast<Acc>(0);
    for (int64_t y = first_at_tap(map.y, i - 1); y < y_end; ++y) {
      const auto rows = paste_taps(map.y, y);
      const T* grad = static_cast<const T*>(p.grad) + (k * p.height + y) * p.width;
      Acc row = static_cast<Acc>(0);
      for (int64_t x = x_begin; x < x_end; ++x) {
        const auto columns = paste_taps(map.x, x);
        const Acc value = load_element(grad + x);
        for (int t = 0; t < 2; ++t) {
          if (columns.index[t] == j) row = row + columns.weight[t] * value;
        }
      }
      for (int t = 0; t < 2; ++t) {
        if (rows.index[t] == i) sum = sum + rows.weight[t] * row;
      }
    }
    sums[at] = sum;
  }
}

template <class Acc>
PasteMap<Acc>* maps_of(const PasteMasksParams& p, Workspace& workspace) {
  PasteMap<Acc>* maps = allocate<PasteMap<Acc>>(workspace, p.count);
  launch(make_maps<Acc>, grid_of_threads(2 * p.count), dim3(kThreads), 0, workspace.stream(), p,
         maps);
  return maps;
}

template <class T, class Acc>
void paste_in(const PasteMasksParams& p, const PasteMap<Acc>* maps, void* stream) {
  const int64_t together = static_cast<int64_t>(sizeof(uint64_t) / sizeof(T));
  const int64_t threads = (p.count * p.height * p.width + together - 1) / together;
  launch(paste_elements<T, Acc>, grid_of_threads(threads), dim3(kThreads), 0, stream, p, maps);
}

template <class Acc>
void paste_as(const PasteMasksParams& p, Workspace& workspace) {
  const PasteMap<Acc>* maps = maps_of<Acc>(p, workspace);
  void* stream = workspace.stream();
  if (p.form == PastedForm::kBytes) return paste_in<uint8_t>(p, maps, stream);
  if (p.form == PastedForm::kBits) {
    const int64_t words = p.count * p.height * words_of(p.width);
    return launch(paste_bits<Acc>, grid_of_warps(words), dim3(kThreads), 0, stream, p, maps);
  }
  if constexpr (sizeof(Acc) == sizeof(double)) {
    paste_in<double>(p, maps, stream);
  } else if (p.output_dtype == DType::kFloat16) {
    paste_in<Half>(p, maps, stream);
  } else if (p.output_dtype == DType::kBFloat16) {
    paste_in<BFloat16>(p, maps, stream);
  } else {
    paste_in<float>(p, maps, stream);
  }
}

void paste_masks_cuda(const PasteMasksParams& p, Workspace& workspace) {
  p.dtype == DType::kFloat64 ? paste_as<double>(p, workspace) : paste_as<float>(p, workspace);
}

void paste_masks_backward_cuda(const PasteMasksParams& p, Workspace& workspace) {
  with_floating_type(p.output_dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    using Acc = typename Accumulate<T>::type;
    const PasteMap<Acc>* maps = maps_of<Acc>(p, workspace);
    launch(gather_gradient<T, Acc>, grid_of_threads(p.count * p.mask_height * p.mask_width),
           dim3(kThreads), 0, workspace.stream(), p, maps);
  });
}

const bool pastes = paste_masks_stub.set(kCudaSlot, paste_masks_cuda);
const bool differentiates = paste_masks_backward_stub.set(kCudaSlot, paste_masks_backward_cuda);

}  // namespace
}  // namespace visops
