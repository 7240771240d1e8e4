// NOTE [ Gradients of crops on CUDA ]
// The images' gradient: a block has 32 x 8 pixels of an image and four channels. Its threads go
// through the image's boxes together, one each at a time, and list those that may touch the tile.
// Then they take these in turn (NOTE [ Transposed samples on CUDA ]), and each thread adds up the
// shares of its own pixel. Every element is written once. The boxes' gradient: a warp has a row of
// a patch, and in a second kernel a box; the lanes are those of the CPU.
//
// Rounding: without contraction (-fmad=false), so the bits are the CPU's.
#include "core/dispatch/workspace.h"
#include "core/numbers/element.h"
#include "cuda/lane_sum.h"
#include "cuda/launch.h"
#include "cuda/pixel_gradient.h"
#include "cuda/roi/crops_tiles.h"
#include "cuda/roi/crops_transpose.h"

namespace visops {
namespace {

// The incoming gradient of one box, from a group's first channel on.
template <class T>
struct IncomingPatch {
  const T* patch;
  Strides stride;
  const T* element;

  __device__ void position(int64_t i, int64_t j) {
    element = patch + i * stride.row + j * stride.column;
  }
  __device__ typename Accumulate<T>::type at(int c) const {
    const T value = load_readonly(element + c * stride.channel);
    return load_element(&value);
  }
};

template <class T, class Acc = typename Accumulate<T>::type>
__global__ void __launch_bounds__(kListThreads, sizeof(Acc) == 8 ? 5 : 6)
    roi_crops_backward_images(const __grid_constant__ RoiCropParams p, const BoxesOfMaps boxes,
                              const GridTables<Acc> tables, const TargetGrid grid) {
  __shared__ BoxList<kListThreads> list;
  __shared__ TransposeStage<Acc> stage;
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t piece = blockIdx.x; piece < grid.count; piece += gridDim.x) {
    const TargetTile at = target_tile(grid, piece);
    const int64_t y = at.y + thread / kTargetWidth, x = at.x + thread % kTargetWidth;
    const int channels = channels_of_group(p.channels, at.channel);
    const BoxRange of_image = boxes.of_map[at.sample];
    Acc sum[kChannelGroup] = {};
    for (int64_t first = of_image.begin; first < of_image.end; first += kListThreads) {
      clear_list(&list);
      RoiSpan span = {};
      bool is_wanted = first + thread < of_image.end;
      if (is_wanted) {
        span = boxes.spans[first + thread];
        is_wanted = meets(span, at.y, at.y + (kTargetHeight - 1), at.x, at.x + (kTargetWidth - 1));
      }
      append_box(is_wanted, static_cast<int32_t>(span.box), &list);
      for (int n = 0; n < list.count; ++n) {
        const int64_t k = list.boxes[n];
        if (!find_positions(tables, k, at, p.height, p.width, &stage)) continue;
        IncomingPatch<T> patch = {static_cast<const T*>(p.patches) + k * p.patch_stride.batch +
                                      at.channel * p.patch_stride.channel,
                                  p.patch_stride, nullptr};
        gather_transposed(tables, k, at, channels, patch, &stage, sum);
      }
      __syncthreads();  // before the list is cleared
    }
    if (y >= p.height || x >= p.width) continue;
    const Strides& stride = p.grad_image_stride;
    Acc* out = static_cast<Acc*>(p.grad_images) + at.sample * stride.batch +
               at.channel * stride.channel + y * stride.row + x * stride.column;
    for (int c = 0; c < kChannelGroup; ++c) {
      if (c < channels) out[c * stride.channel] = sum[c];
    }
  }
}

constexpr int kSumWarps = 8;
constexpr int kSumThreads = kSumWarps * kWarpLanes;

template <class T, Interpolation mode>
__global__ void __launch_bounds__(kSumThreads, sizeof(typename Accumulate<T>::type) == 8 ? 2 : 4)
    roi_crops_backward_boxes(const __grid_constant__ RoiCropParams p) {
  using Acc = typename Accumulate<T>::type;
  __shared__ ColumnTaps<mode, Acc, kSumThreads> taps_across;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int64_t rows = p.boxes.count * p.patch_height;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kSumWarps;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kSumWarps + threadIdx.x / kWarpLanes;
       row < rows; row += stride) {
    const int64_t k = row / p.patch_height, i = row - k * p.patch_height;
    const CropMap& map = p.maps[k];
    double gx = 0.0, gx_at = 0.0, gy = 0.0;
    if (map.image >= 0 && p.height > 0 && p.width > 0) {
      PixelTaps<mode, Acc> taps;
      taps.y = grid_taps<mode, Acc>(map.y, i, p.padding, p.height);
      const T* image = static_cast<const T*>(p.images) + map.image * p.image_stride.batch;
      const T* grad =
          static_cast<const T*>(p.patches) + k * p.patch_stride.batch + i * p.patch_stride.row;
      for (int64_t j = lane; j < p.patch_width; j += kWarpLanes) {
        taps.x = grid_taps<mode, Acc>(map.x, j, p.padding, p.width);
        if (taps.outside()) continue;
        const auto grad_of = [&](int64_t c) {
          const T element =
              load_readonly(grad + c * p.patch_stride.channel + j * p.patch_stride.column);
          return static_cast<Acc>(load_element(&element));
        };
        const auto fill_of = [&](int64_t c) { return static_cast<Acc>(crop_fill(p, c)); };
        const PixelGradient<Acc> sum =
            sum_gradients(p.channels, image, p.image_stride, taps, grad_of, fill_of, &taps_across);
        const double at = static_cast<double>(sum.x);
        gx += at;
        gx_at += at * patch_fraction(j, p.patch_width);
        gy += static_cast<double>(sum.y);
      }
    }
    gx = sum_lanes(gx);
    gx_at = sum_lanes(gx_at);
    gy = sum_lanes(gy);
    if (lane != 0) continue;
    double* sums = p.row_sums + row * kCropSums;
    sums[0] = gx;
    sums[1] = gx_at;
    sums[2] = gy;
  }
}

__global__ void __launch_bounds__(kSumThreads)
    roi_crops_backward_boxes_finish(const __grid_constant__ RoiCropParams p) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kSumWarps;
  for (int64_t k = static_cast<int64_t>(blockIdx.x) * kSumWarps + threadIdx.x / kWarpLanes;
       k < p.boxes.count; k += stride) {
    double gx = 0.0, gx_at = 0.0, gy = 0.0, gy_at = 0.0;
    for (int64_t i = lane; i < p.patch_height; i += kWarpLanes) {
      const double* sums = p.row_sums + (k * p.patch_height + i) * kCropSums;
      gx += sums[0];
      gx_at += sums[1];
      gy += sums[2];
      gy_at += sums[2] * patch_fraction(i, p.patch_height);
    }
    gx = sum_lanes(gx);
    gx_at = sum_lanes(gx_at);
    gy = sum_lanes(gy);
    gy_at = sum_lanes(gy_at);
    if (lane == 0) store_box_gradient(p, k, gx, gx_at, gy, gy_at);
  }
}

template <class T>
void images_of(const RoiCropParams& p, Workspace& workspace) {
  using Acc = typename Accumulate<T>::type;
  const Grids grids = {p.maps,        p.boxes.count,  p.batch, p.mode,  p.padding,
                       p.patch_width, p.patch_height, p.width, p.height};
  const GridTables<Acc> tables = make_grid_tables<Acc>(grids, workspace);
  const BoxesOfMaps boxes = list_grids(grids, false, workspace);
  const TargetGrid grid = target_grid(p.batch, p.channels, p.height, p.width);
  launch(roi_crops_backward_images<T>, grid_for(grid.count), dim3(kListThreads), 0,
         workspace.stream(), p, boxes, tables, grid);
}

dim3 grid_of_warps(int64_t count) { return grid_for((count + kSumWarps - 1) / kSumWarps); }

template <class T>
void boxes_of(const RoiCropParams& p, void* stream) {
  const auto start = [&](auto kernel) {
    launch(kernel, grid_of_warps(p.boxes.count * p.patch_height), dim3(kSumThreads), 0, stream, p);
  };
  if (p.mode == Interpolation::kBilinear) {
    start(roi_crops_backward_boxes<T, Interpolation::kBilinear>);
  } else {
    start(roi_crops_backward_boxes<T, Interpolation::kBicubic>);
  }
}

void backward_images_cuda(const RoiCropParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    images_of<std::remove_pointer_t<decltype(element)>>(p, workspace);
  });
}

void backward_boxes_cuda(const RoiCropParams& given, Workspace& workspace) {
  RoiCropParams p = given;
  const int64_t count = p.boxes.count;
  p.row_sums = allocate<double>(workspace, count * p.patch_height * kCropSums);
  with_floating_type(p.dtype, [&](auto* element) {
    boxes_of<std::remove_pointer_t<decltype(element)>>(p, workspace.stream());
  });
  launch(roi_crops_backward_boxes_finish, grid_of_warps(count), dim3(kSumThreads), 0,
         workspace.stream(), p);
}

const bool registered = roi_crops_backward_images_stub.set(kCudaSlot, backward_images_cuda) &&
                        roi_crops_backward_boxes_stub.set(kCudaSlot, backward_boxes_cuda);

}  // namespace
}  // namespace visops
