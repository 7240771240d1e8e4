// Masks pasted into images on CUDA, and the gradient.
//
// NOTE [ Pasting masks on CUDA ]
// Strategy: a thread for each axis of a box computes where it lies, in float64 where that matters,
// once. Then a warp has a few adjacent rows of an image. What lies beyond the box, which most
// pixels do, is set to 0, 16 bytes a lane. In the box a lane has a column of those rows, whose taps
// it computes once, and the taps of the rows are in shared memory; words of 64 pixels are collected
// by ballots, half by half. In the gradient a thread has a pixel of a mask. It finds the rows and
// columns of the image that reach that pixel by bisection, since samples rise with them, and sums
// over those.
//
// Split: threads and warps stride over results. The order of sums is that of NOTE [ Gradients of
// pasted masks ] in core/masks/paste.h.
#include "core/dispatch/workspace.h"
#include "core/masks/packed.h"
#include "core/masks/paste.h"
#include "core/numbers/arithmetic.h"
#include "core/numbers/element.h"
#include "cuda/threads.h"

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

constexpr int kRows = 8;  // that a warp has at once

// Sets the elements from `begin` to `end` to 0. Called by all lanes of a warp.
template <class T>
__device__ void clear(T* begin, T* end) {
  struct alignas(16) Zeros {
    uint64_t zero[2];
  };
  constexpr uintptr_t kBytes = sizeof(Zeros);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  // Where the aligned pieces begin and end: less than one from either end.
  T* const first = begin + (0 - reinterpret_cast<uintptr_t>(begin)) % kBytes / sizeof(T);
  T* const last = end - reinterpret_cast<uintptr_t>(end) % kBytes / sizeof(T);
  if (first >= last) {
    for (T* at = begin + lane; at < end; at += kWarp) *at = T{};
    return;
  }
  if (begin + lane < first) begin[lane] = T{};
  Zeros* const stop = reinterpret_cast<Zeros*>(last);
#pragma unroll 1  // stores wait for nothing
  for (Zeros* at = reinterpret_cast<Zeros*>(first) + lane; at < stop; at += kWarp) *at = Zeros{};
  if (last + lane < end) last[lane] = T{};
}

template <class Acc>
using Taps = AxisTaps<kBilinear, Acc>;

// The sample of a mask at a pixel, and whether it is reached.
template <class Acc>
struct Sampled {
  Acc value;
  bool reached;
};

template <class Acc>
__device__ Sampled<Acc> sample_mask(const PasteMasksParams& p, const Acc* mask,
                                    const Taps<Acc>& row, const Taps<Acc>& column) {
  const PixelTaps<kBilinear, Acc> taps = {row, column};
  if (taps.outside()) return {static_cast<Acc>(0), false};
  return {sample_pixel(mask, Strides{0, 0, p.mask_width, 1}, taps, static_cast<Acc>(0)), true};
}

template <class Acc>
__device__ bool inside_mask(const PasteMasksParams& p, const Acc* mask, const Taps<Acc>& row,
                            const Taps<Acc>& column) {
  const Sampled<Acc> found = sample_mask(p, mask, row, column);
  return found.reached && is_inside(p.convention, found.value, static_cast<Acc>(p.threshold));
}

// Rows of an image that have a part in a box: `first` and `count` tell which of those at `rows`.
template <class Acc>
struct PastedRows {
  const PasteMasksParams& p;
  const Acc* mask;
  const PasteAxis<Acc>& across;
  const Taps<Acc>* rows;  // in shared memory
  int first, count;
};

template <class T, class Acc>
__device__ void paste_elements(const PastedRows<Acc>& of, T* output) {
  const Span columns = of.across.pixels;
  for (int64_t x = columns.begin + threadIdx.x % kWarp; x < columns.end; x += kWarp) {
    const Taps<Acc> column = paste_taps(of.across, x);
    T* to = output + x + of.first * of.p.width;
    for (int i = of.first; i < of.first + of.count; ++i, to += of.p.width) {
      if constexpr (sizeof(T) == 1) {
        *to = inside_mask(of.p, of.mask, of.rows[i], column) ? 1 : 0;
      } else {
        store_element(to, sample_mask(of.p, of.mask, of.rows[i], column).value);
      }
    }
  }
}

// Words [first, last) of the rows.
template <class Acc>
__device__ void paste_words(const PastedRows<Acc>& of, int64_t first, int64_t last,
                            uint64_t* output) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const Span columns = of.across.pixels;
  for (int64_t at = first; at < last; ++at) {
    uint64_t word = 0;  // of the row that has the lane's number
    for (int half = 0; half < 2; ++half) {
      const int64_t x = at * kPixelsPerWord + half * kWarp + lane;
      const bool has_column = x >= columns.begin && x < columns.end;
      const Taps<Acc> column = paste_taps(of.across, has_column ? x : columns.begin);
      for (int i = of.first; i < of.first + of.count; ++i) {
        const bool inside = has_column && inside_mask(of.p, of.mask, of.rows[i], column);
        const uint64_t bits = __ballot_sync(kWholeWarp, inside);
        if (lane == i) word |= bits << (half * kWarp);
      }
    }
    if (lane >= of.first && lane < of.first + of.count)
      output[lane * words_of(of.p.width) + at] = word;
  }
}

// T is uint64_t for words of bits.
template <class T, class Acc>
__global__ void __launch_bounds__(kThreads)
    paste_rows(const __grid_constant__ PasteMasksParams p, const PasteMap<Acc>* maps) {
  constexpr bool kIsBits = std::is_same<T, uint64_t>::value;
  __shared__ Taps<Acc> taps[kWarps][kRows];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Taps<Acc>* const rows = taps[threadIdx.x / kWarp];
  const int64_t parts = parts_of(p.height, kRows), width = kIsBits ? words_of(p.width) : p.width;
  for (int64_t part = first_warp(); part < p.count * parts; part += all_warps()) {
    const int64_t k = part / parts, y = (part - k * parts) * kRows;
    const int count = p.height - y < kRows ? static_cast<int>(p.height - y) : kRows;
    const PasteMap<Acc>& map = maps[k];
    T* const output = static_cast<T*>(p.output) + (k * p.height + y) * width;
    const Span columns = map.x.pixels;
    Span reached = intersect(map.y.pixels, {y, y + count});
    if (reached.begin == reached.end || columns.begin == columns.end) reached = {y, y};
    const int first = static_cast<int>(reached.begin - y), last = static_cast<int>(reached.end - y);
    const int64_t left = kIsBits ? columns.begin / kPixelsPerWord : columns.begin;
    const int64_t right = kIsBits ? words_of(columns.end) : columns.end;
    for (int i = first; i <= last; ++i) {  // what lies before row i's part of the box
      clear(i == first ? output : output + (i - 1) * width + right,
            i == last ? output + count * width : output + i * width + left);
    }
    if (first == last) continue;
    if (lane >= first && lane < last) rows[lane] = paste_taps(map.y, y + lane);
    __syncwarp();
    const Acc* const mask = static_cast<const Acc*>(p.masks) + k * p.mask_height * p.mask_width;
    const PastedRows<Acc> of = {p, mask, map.x, rows, first, last - first};
    if constexpr (kIsBits) {
      paste_words(of, left, right, output);
    } else {
      paste_elements(of, output);
    }
    __syncwarp();  // before the next part's taps replace these
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
  launch(paste_rows<T, Acc>, grid_of_warps(p.count * parts_of(p.height, kRows)), dim3(kThreads), 0,
         stream, p, maps);
}

template <class Acc>
void paste_as(const PasteMasksParams& p, Workspace& workspace) {
  const PasteMap<Acc>* maps = maps_of<Acc>(p, workspace);
  void* stream = workspace.stream();
  if (p.form == PastedForm::kBytes) return paste_in<uint8_t>(p, maps, stream);
  if (p.form == PastedForm::kBits) return paste_in<uint64_t>(p, maps, stream);
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
