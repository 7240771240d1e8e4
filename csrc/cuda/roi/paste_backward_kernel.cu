// NOTE [ Gradients of pasting on CUDA ]
// A block has 32 x 8 pixels of a patch and four channels, or of its alpha. It lists the boxes that
// share pixels with its own, then each thread adds up the pixels that its element was sampled for
// (NOTE [ Transposed samples on CUDA ]), each times its share of NOTE [ Gradients of pasting ]
// (core/roi/paste.h). Where more boxes overlap than the list holds, all are looked through.
//
// Rounding: without contraction (-fmad=false), so the bits are the CPU's.
#include "cuda/roi/crops_lists.h"
#include "cuda/roi/crops_transpose.h"

namespace visops {
namespace {

constexpr int kMostNeighbours = 1024;

// The incoming gradient of a box's pixels, from a group's first channel on.
template <class T, Interpolation mode>
struct IncomingPixels {
  using Acc = typename Accumulate<T>::type;

  const RoiPasteParams& p;
  PasteNeighbours neighbours;
  int64_t k;
  const T* grad;
  const T* element;
  Acc share;

  __device__ void place(int64_t y, int64_t x) {
    element = grad + y * p.grad_stride.row + x * p.grad_stride.column;
    const Acc weight = paste_weight<mode, Acc>(p, p.maps[k], k, y, x);
    share = times_later<mode, Acc>(p, neighbours, k, y, x, weight);
  }
  __device__ Acc at(int c) const {
    const T value = load_readonly(element + c * p.grad_stride.channel);
    return load_element(&value) * share;
  }
};

template <class T, Interpolation mode>
struct IncomingAlpha {
  using Acc = typename Accumulate<T>::type;

  const RoiPasteParams& p;
  PasteNeighbours neighbours;
  int64_t k;
  Acc value;

  __device__ void place(int64_t y, int64_t x) {
    value = alpha_gradient<T, mode, Acc>(p, neighbours, k, y, x);
  }
  __device__ Acc at(int) const { return value; }
};

template <Interpolation mode, class Acc, class Values>
__device__ void gather_box(const RoiPasteParams& p, const CropMap& map, int64_t y, int64_t x,
                           int channels, Values& values, Acc sum[kChannelGroup]) {
  constexpr auto padding = Padding::kReplicate;
  constexpr auto nearest = Interpolation::kNearest;
  if (map.integral) {
    gather_transposed<nearest>(map, padding, p.patch_height, p.patch_width, y, x, channels, values,
                               sum);
  } else {
    gather_transposed<mode>(map, padding, p.patch_height, p.patch_width, y, x, channels, values,
                            sum);
  }
}

template <class T, Interpolation mode>
__global__ void __launch_bounds__(kListThreads)
    roi_paste_backward(const __grid_constant__ RoiPasteParams p, const TargetGrid grid) {
  using Acc = typename Accumulate<T>::type;
  __shared__ BoxList<kMostNeighbours> list;
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t piece = blockIdx.x; piece < grid.count; piece += gridDim.x) {
    const TargetTile at = target_tile(grid, piece);
    const int64_t y = at.y + thread / kTargetWidth, x = at.x + thread % kTargetWidth;
    const int64_t k = at.sample;
    const CropMap& map = p.maps[k];
    Acc sum[kChannelGroup] = {};
    if (map.image >= 0) {
      clear_list(&list);
      for (int64_t first = 0; first < p.boxes.count; first += kListThreads) {
        const int64_t mine = first + thread;
        bool is_wanted = false;
        if (mine < p.boxes.count) {
          const CropMap& other = p.maps[mine];
          is_wanted = other.image == map.image && overlap(other.rows, map.rows) &&
                      overlap(other.columns, map.columns);
        }
        append_box(is_wanted, static_cast<int32_t>(mine), &list);
      }
      const bool is_whole = list.count <= kMostNeighbours;
      const PasteNeighbours neighbours = {is_whole ? list.boxes : nullptr,
                                          is_whole ? list.count : p.boxes.count};
      if (y < p.patch_height && x < p.patch_width) {
        if (p.grad_alpha != nullptr) {
          IncomingAlpha<T, mode> values = {p, neighbours, k, 0};
          gather_box<mode>(p, map, y, x, 1, values, sum);
        } else {
          const T* grad = static_cast<const T*>(p.grad) + map.image * p.grad_stride.batch +
                          at.channel * p.grad_stride.channel;
          IncomingPixels<T, mode> values = {p, neighbours, k, grad, nullptr, 0};
          gather_box<mode>(p, map, y, x, channels_of_group(p.channels, at.channel), values, sum);
        }
      }
      __syncthreads();  // before the list is cleared
    }
    if (y >= p.patch_height || x >= p.patch_width) continue;
    if (p.grad_alpha != nullptr) {
      const Strides stride = alpha_strides(p);
      static_cast<Acc*>(p.grad_alpha)[k * stride.batch + y * stride.row + x] = sum[0];
      continue;
    }
    const Strides& stride = p.grad_patch_stride;
    const int channels = channels_of_group(p.channels, at.channel);
    Acc* out = static_cast<Acc*>(p.grad_patches) + k * stride.batch + at.channel * stride.channel +
               y * stride.row + x * stride.column;
    for (int c = 0; c < kChannelGroup; ++c) {
      if (c < channels) out[c * stride.channel] = sum[c];
    }
  }
}

template <class T, Interpolation mode>
void backward_as(const RoiPasteParams& p, void* stream) {
  const int64_t channels = p.grad_alpha != nullptr ? 1 : p.channels;
  const TargetGrid grid = target_grid(p.boxes.count, channels, p.patch_height, p.patch_width);
  launch(roi_paste_backward<T, mode>, grid_for(grid.count), dim3(kListThreads), 0, stream, p, grid);
}

template <class T>
void backward_of(const RoiPasteParams& p, void* stream) {
  switch (p.mode) {
    case Interpolation::kNearest: return backward_as<T, Interpolation::kNearest>(p, stream);
    case Interpolation::kBilinear: return backward_as<T, Interpolation::kBilinear>(p, stream);
    case Interpolation::kBicubic: return backward_as<T, Interpolation::kBicubic>(p, stream);
  }
}

void roi_paste_backward_cuda(const RoiPasteParams& p, void* stream) {
  switch (p.dtype) {
    case DType::kFloat16: return backward_of<Half>(p, stream);
    case DType::kBFloat16: return backward_of<BFloat16>(p, stream);
    case DType::kFloat64: return backward_of<double>(p, stream);
    default: return backward_of<float>(p, stream);
  }
}

const bool registered = roi_paste_backward_stub.set(kCudaSlot, roi_paste_backward_cuda);

}  // namespace
}  // namespace visops
