// NOTE [ Pairs of rotated boxes on the CPU ]
// Boxes become RotatedBox once, with sines and cosines. Then a row of the result is one loop over
// boxes2. Most pairs are usually apart, which one comparison tells. A box's gradient is summed in
// 32 lanes (NOTE [ Lane sums ]). Work is split by boxes.
#include "core/boxes/iou.h"
#include "cpu/items.h"
#include "cpu/lane_sum.h"

namespace visops {
namespace {

constexpr int64_t kBoxCost = 80, kPairCost = 16, kPairGradientCost = 48;  // elements; see kGrain

void make_rotated(const BoxSet& set, int64_t begin, int64_t end, void* boxes) {
  for (int64_t i = begin; i < end; ++i) {
    static_cast<RotatedBox*>(boxes)[i] = paired_box(
        load_rotated_box(set.data, set.dtype, i * set.box_stride, set.coordinate_stride));
  }
}

void columns_range(const BoxIouParams& p, int64_t begin, int64_t end) {
  const int64_t split = p.boxes1.count;
  make_rotated(p.boxes1, begin, end < split ? end : split, p.columns1);
  make_rotated(p.boxes2, begin > split ? begin - split : 0, end - split, p.columns2);
}

void columns_kernel(const BoxIouParams& p, Workspace& workspace) {
  for_items(workspace, p, p.boxes1.count + p.boxes2.count, kBoxCost, columns_range);
}

template <class Out>
void overlaps_of_rows(const BoxIouParams& p, int64_t begin, int64_t end) {
  const auto* boxes1 = static_cast<const RotatedBox*>(p.columns1);
  const auto* boxes2 = static_cast<const RotatedBox*>(p.columns2);
  const int64_t count = p.boxes2.count;
  for (int64_t i = begin; i < end; ++i) {
    Out* out = static_cast<Out*>(p.result) + i * count;
    for (int64_t j = 0; j < count; ++j) {
      out[j] = static_cast<Out>(rotated_overlap(boxes1[i], boxes2[j], p.kind));
    }
  }
}

void box_iou_rotated_range(const BoxIouParams& p, int64_t begin, int64_t end) {
  if (p.result_dtype == DType::kFloat64) {
    overlaps_of_rows<double>(p, begin, end);
  } else {
    overlaps_of_rows<float>(p, begin, end);
  }
}

void box_iou_rotated_kernel(const BoxIouParams& p, Workspace& workspace) {
  for_items(workspace, p, p.boxes1.count, kPairCost * p.boxes2.count, box_iou_rotated_range);
}

template <class T>
void gradients_of_rows(const BoxIouParams& p, int64_t begin, int64_t end) {
  const auto* boxes2 = static_cast<const RotatedBox*>(p.columns2);
  for (int64_t i = begin; i < end; ++i) {
    const RotatedBox& box = static_cast<const RotatedBox*>(p.columns1)[i];
    const T* grad = static_cast<const T*>(p.grad) + i * p.grad_row_stride;
    double x[kSumLanes] = {}, y[kSumLanes] = {}, width[kSumLanes] = {}, height[kSumLanes] = {};
    double angle[kSumLanes] = {}, area[kSumLanes] = {};
    for (int64_t j = 0; j < p.boxes2.count; ++j) {
      const int64_t l = j % kSumLanes;
      const RotatedPairGradient pair = rotated_overlap_gradient(
          box, boxes2[j], p.kind, static_cast<double>(grad[j * p.grad_column_stride]));
      x[l] += pair.x;
      y[l] += pair.y;
      width[l] += pair.width;
      height[l] += pair.height;
      angle[l] += pair.angle;
      area[l] += pair.area;
    }
    double gradient[5];
    finish_gradient(box,
                    {sum_lanes(x), sum_lanes(y), sum_lanes(width), sum_lanes(height),
                     sum_lanes(angle), sum_lanes(area)},
                    gradient);
    for (int k = 0; k < 5; ++k) {
      store_rounded(p.grad_boxes, p.boxes1.dtype, i * 5 + k, gradient[k]);
    }
  }
}

void box_iou_rotated_backward_range(const BoxIouParams& p, int64_t begin, int64_t end) {
  if (p.result_dtype == DType::kFloat64) {
    gradients_of_rows<double>(p, begin, end);
  } else {
    gradients_of_rows<float>(p, begin, end);
  }
}

void box_iou_rotated_backward_kernel(const BoxIouParams& p, Workspace& workspace) {
  for_items(workspace, p, p.boxes1.count, kPairGradientCost * p.boxes2.count,
            box_iou_rotated_backward_range);
}

const bool registered =
    rotated_columns_stub.set(kIsaSlot, columns_kernel) &&
    box_iou_rotated_stub.set(kIsaSlot, box_iou_rotated_kernel) &&
    box_iou_rotated_backward_stub.set(kIsaSlot, box_iou_rotated_backward_kernel);

}  // namespace
}  // namespace visops
