// NOTE [ Gradients of crops on the CPU ]
// The images' gradient: work is split by row of the images (NOTE [ Transposed samples on the CPU
// ]). The boxes' gradient: d out / d position, times the incoming gradient, is summed over channels
// in ascending order. Then, in float64, a row's columns are added as NOTE [ Lane sums ] says, and
// the rows likewise. Work is split by row of a patch, then by box. Assumes what check_roi_crops()
// establishes; gradients are floating.
#include "core/dispatch/threads.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/element.h"
#include "cpu/items.h"
#include "cpu/lane_sum.h"
#include "cpu/roi/crops_rows.h"

namespace visops {
namespace {

// The incoming gradient of one box.
template <class T>
struct IncomingPatch {
  const T* data;
  Strides stride;

  void prepare(int64_t, Span) const {}
  VISOPS_ALWAYS_INLINE typename Accumulate<T>::type at(int64_t c, int64_t i, int64_t j) const {
    return load_element(data + c * stride.channel + i * stride.row + j * stride.column);
  }
};

template <class T>
void image_rows(const RoiCropParams& p, int64_t image, Span rows) {
  using Acc = typename Accumulate<T>::type;
  const Strides& stride = p.grad_image_stride;
  const TransposeTarget<Acc> target = {static_cast<Acc*>(p.grad_images) + image * stride.batch,
                                       p.channels,
                                       p.height,
                                       p.width,
                                       stride.channel,
                                       stride.row,
                                       stride.column};
  clear_rows(target, rows);
  for (int64_t k = 0; k < p.boxes.count; ++k) {
    const CropMap& map = p.maps[k];
    if (map.image != image || !overlap(map.reach_y, rows)) continue;
    IncomingPatch<T> patch = {static_cast<const T*>(p.patches) + k * p.patch_stride.batch,
                              p.patch_stride};
    if (map.integral || p.mode == Interpolation::kNearest) {
      add_transposed<Interpolation::kNearest>(map, p.padding, target, rows, patch);
    } else if (p.mode == Interpolation::kBilinear) {
      add_transposed<Interpolation::kBilinear>(map, p.padding, target, rows, patch);
    } else {
      add_transposed<Interpolation::kBicubic>(map, p.padding, target, rows, patch);
    }
  }
}

void roi_crops_backward_images_kernel(const RoiCropParams& p, Workspace& workspace) {
  const auto rows = [&](int64_t begin, int64_t end) {
    for_each_sample(begin, end, p.height, [&](int64_t image, int64_t first, int64_t last) {
      with_floating_type(p.dtype, [&](auto* element) {
        image_rows<std::remove_pointer_t<decltype(element)>>(p, image, {first, last});
      });
    });
  };
  parallel_for(workspace, p.batch * p.height, grain_of(p.channels * p.width), rows);
}

template <class T, Interpolation mode>
void row_sums(const RoiCropParams& p, int64_t k, int64_t i, double* sums) {
  using Acc = typename Accumulate<T>::type;
  const CropMap& map = p.maps[k];
  double gx[kSumLanes] = {}, gx_at[kSumLanes] = {}, gy[kSumLanes] = {};
  const auto y = grid_taps<mode, Acc>(map.y, i, p.padding, p.height);
  if (!y.outside()) {
    const T* image = static_cast<const T*>(p.images) + map.image * p.image_stride.batch;
    const T* grad =
        static_cast<const T*>(p.patches) + k * p.patch_stride.batch + i * p.patch_stride.row;
    for (int64_t j = 0; j < p.patch_width; ++j) {
      const PixelTaps<mode, Acc> taps = {y, grid_taps<mode, Acc>(map.x, j, p.padding, p.width)};
      if (taps.outside()) continue;
      const PixelGradient<Acc> sum = crop_gradient<T, mode>(p, taps, image, grad, j);
      const double x = static_cast<double>(sum.x);
      gx[j % kSumLanes] += x;
      gx_at[j % kSumLanes] += x * patch_fraction(j, p.patch_width);
      gy[j % kSumLanes] += static_cast<double>(sum.y);
    }
  }
  sums[0] = sum_lanes(gx);
  sums[1] = sum_lanes(gx_at);
  sums[2] = sum_lanes(gy);
}

template <class T>
void row_sums(const RoiCropParams& p, int64_t k, int64_t i, double* sums) {
  if (p.mode == Interpolation::kBilinear) {
    row_sums<T, Interpolation::kBilinear>(p, k, i, sums);
  } else {
    row_sums<T, Interpolation::kBicubic>(p, k, i, sums);
  }
}

void sum_rows(const RoiCropParams& p, int64_t begin, int64_t end) {
  for_each_sample(begin, end, p.patch_height, [&](int64_t k, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      double* sums = p.row_sums + (k * p.patch_height + i) * kCropSums;
      if (p.maps[k].image < 0 || p.height == 0 || p.width == 0) {
        for (int s = 0; s < kCropSums; ++s) sums[s] = 0.0;
        continue;
      }
      with_floating_type(p.dtype, [&](auto* element) {
        row_sums<std::remove_pointer_t<decltype(element)>>(p, k, i, sums);
      });
    }
  });
}

// From row_sums to grad_boxes.
void finish_boxes(const RoiCropParams& p, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; ++k) {
    double lanes[4][kSumLanes] = {};
    for (int64_t i = 0; i < p.patch_height; ++i) {
      const double* sums = p.row_sums + (k * p.patch_height + i) * kCropSums;
      const int64_t l = i % kSumLanes;
      lanes[0][l] += sums[0];
      lanes[1][l] += sums[1];
      lanes[2][l] += sums[2];
      lanes[3][l] += sums[2] * patch_fraction(i, p.patch_height);
    }
    store_box_gradient(p, k, sum_lanes(lanes[0]), sum_lanes(lanes[1]), sum_lanes(lanes[2]),
                       sum_lanes(lanes[3]));
  }
}

void roi_crops_backward_boxes_kernel(const RoiCropParams& given, Workspace& workspace) {
  RoiCropParams p = given;
  const int64_t count = p.boxes.count, rows = count * p.patch_height;
  p.row_sums = allocate<double>(workspace, rows * kCropSums);
  constexpr int64_t kCost = 8;  // of a pixel's gradient; see kGrain
  for_items(workspace, p, rows, kCost * p.channels * p.patch_width, sum_rows);
  for_items(workspace, p, count, kCropSums * p.patch_height, finish_boxes);
}

const bool registered =
    roi_crops_backward_images_stub.set(kIsaSlot, roi_crops_backward_images_kernel) &&
    roi_crops_backward_boxes_stub.set(kIsaSlot, roi_crops_backward_boxes_kernel);

}  // namespace
}  // namespace visops
