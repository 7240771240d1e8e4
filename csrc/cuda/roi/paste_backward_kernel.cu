// NOTE [ Gradients of pasting on CUDA ]
// A block has 32 x 8 pixels of a patch and four of its channels, or of its alpha. It lists the
// boxes that share pixels with its own. Then each thread adds up the pixels that its element was
// sampled for (NOTE [ Transposed samples on CUDA ]), each times its patch_share()
// (core/roi/paste_pixel.h). If more boxes overlap than the list holds, it goes through all boxes.
//
// Rounding: without contraction (-fmad=false), so the bits are the CPU's.
#include "core/element_types.h"
#include "core/roi/paste_pixel.h"
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
    share = patch_share<mode, Acc>(p, neighbours, k, y, x);
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
        const bool is_wanted = mine < p.boxes.count && are_neighbours(p.maps[mine], map);
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
          const T* grad = incoming_gradient<T>(p, map.image, at.channel);
          IncomingPixels<T, mode> values = {p, neighbours, k, grad, nullptr, 0};
          gather_box<mode>(p, map, y, x, channels_of_group(p.channels, at.channel), values, sum);
        }
      }
      __syncthreads();  // before the list is cleared
    }
    if (y >= p.patch_height || x >= p.patch_width) continue;
    const PasteTarget target = paste_target(p);
    const Strides& stride = target.stride;
    const int channels = channels_of_group(target.channels, at.channel);
    Acc* out = static_cast<Acc*>(target.data) + k * stride.batch + at.channel * stride.channel +
               y * stride.row + x * stride.column;
    for (int c = 0; c < kChannelGroup; ++c) {
      if (c < channels) out[c * stride.channel] = sum[c];
    }
  }
}

template <class T, Interpolation mode>
void backward_as(const RoiPasteParams& p, void* stream) {
  const TargetGrid grid =
      target_grid(p.boxes.count, paste_target(p).channels, p.patch_height, p.patch_width);
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
  with_floating_type(p.dtype, [&](auto* element) {
    backward_of<std::remove_pointer_t<decltype(element)>>(p, stream);
  });
}

const bool registered = roi_paste_backward_stub.set(kCudaSlot, roi_paste_backward_cuda);

}  // namespace
}  // namespace visops
