// NOTE [ Gradients of pairs on the CPU ]
// A box's gradient is summed in 32 lanes (NOTE [ Lane sums ]), in vectors of any width. The
// gradient of the result may have any strides: it is transposed where boxes2's is asked for, with
// the roles swapped, and it may be one expanded number. So for kRows boxes at a time, a part of it
// is copied to adjacent rows. Work is split by boxes, never within a box's sum.
#include <type_traits>

#include "core/boxes/iou.h"
#include "cpu/items.h"
#include "cpu/lane_sum.h"

namespace visops {
namespace {

constexpr int64_t kPairCost = 6;  // elements; see kGrain
constexpr int64_t kRows = 16;     // a cache line of float32
constexpr int64_t kPart = 128;    // pairs of a row at a time; a multiple of the lanes
static_assert(kPart % kSumLanes == 0, "a part begins at the first lane");

template <class Acc>
struct GradientLanes {
  Acc x1[kSumLanes], y1[kSumLanes], x2[kSumLanes], y2[kSumLanes], area[kSumLanes], angle[kSumLanes];
};

// Adds the pairs of `box` with `count` <= kSumLanes others, from `first` on.
template <BoxOverlap kind, class Acc>
VISOPS_ALWAYS_INLINE void add_pairs(const PairBox<Acc>& box, const Acc* VISOPS_RESTRICT columns,
                                    int64_t columns_count, int64_t first, int64_t count, Acc eps,
                                    const Acc* VISOPS_RESTRICT grad,
                                    GradientLanes<Acc>* VISOPS_RESTRICT sums) {
  for (int64_t l = 0; l < count; ++l) {
    const PairBox<Acc> other = load_pair_box(columns, columns_count, first + l);
    const PairGradient<Acc> pair = pair_gradient<kind>(box, other, eps, grad[l]);
    sums->x1[l] += pair.x1;
    sums->y1[l] += pair.y1;
    sums->x2[l] += pair.x2;
    sums->y2[l] += pair.y2;
    sums->area[l] += pair.area;
    if (kind == BoxOverlap::kComplete) sums->angle[l] += pair.angle;
  }
}

// Copies grad[row, column] to rows of kPart.
template <class T, class Acc>
void copy_part(const T* grad, int64_t row_stride, int64_t column_stride, int64_t rows,
               int64_t columns, Acc* VISOPS_RESTRICT part) {
  if (row_stride == 1 && column_stride != 1) {
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = 0; i < rows; ++i) {
        part[i * kPart + j] = static_cast<Acc>(grad[j * column_stride + i]);
      }
    }
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      part[i * kPart + j] = static_cast<Acc>(grad[i * row_stride + j * column_stride]);
    }
  }
}

// The same, from what the gradient of the result holds.
template <class Acc>
void copy_gradient(const BoxIouParams& p, int64_t first, int64_t at, int64_t rows, int64_t columns,
                   Acc* part) {
  const int64_t offset = first * p.grad_row_stride + at * p.grad_column_stride;
  const auto copy = [&](const auto* grad) {
    copy_part(grad + offset, p.grad_row_stride, p.grad_column_stride, rows, columns, part);
  };
  if constexpr (std::is_same<Acc, double>::value) {
    if (p.result_dtype == DType::kFloat64) return copy(static_cast<const double*>(p.grad));
  }
  copy(static_cast<const float*>(p.grad));
}

template <BoxOverlap kind, class Acc>
void gradients_of_rows(const BoxIouParams& p, int64_t begin, int64_t end) {
  const auto* columns1 = static_cast<const Acc*>(p.columns1);
  const auto* columns2 = static_cast<const Acc*>(p.columns2);
  const int64_t count = p.boxes2.count;
  const Acc eps = static_cast<Acc>(p.eps);
  for (int64_t first = begin; first < end; first += kRows) {
    const int64_t rows = end - first < kRows ? end - first : kRows;
    alignas(64) GradientLanes<Acc> sums[kRows] = {};
    alignas(64) Acc part[kRows * kPart];
    for (int64_t at = 0; at < count; at += kPart) {
      const int64_t columns = count - at < kPart ? count - at : kPart;
      copy_gradient(p, first, at, rows, columns, part);
      for (int64_t i = 0; i < rows; ++i) {
        const PairBox<Acc> box = load_pair_box(columns1, p.boxes1.count, first + i);
        const Acc* row = part + i * kPart;
        int64_t j = 0;
        for (; j + kSumLanes <= columns; j += kSumLanes) {
          add_pairs<kind>(box, columns2, count, at + j, kSumLanes, eps, row + j, &sums[i]);
        }
        add_pairs<kind>(box, columns2, count, at + j, columns - j, eps, row + j, &sums[i]);
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      const PairBox<Acc> box = load_pair_box(columns1, p.boxes1.count, first + i);
      GradientLanes<Acc>& l = sums[i];
      const PairGradient<Acc> sum = {sum_lanes(l.x1), sum_lanes(l.y1),   sum_lanes(l.x2),
                                     sum_lanes(l.y2), sum_lanes(l.area), sum_lanes(l.angle)};
      Acc gradient[4];
      finish_gradient(box, sum, gradient);
      for (int k = 0; k < 4; ++k) {
        store_rounded(p.grad_boxes, p.boxes1.dtype, (first + i) * 4 + k, gradient[k]);
      }
    }
  }
}

template <BoxOverlap kind>
void gradients_kernel(const BoxIouParams& p, int64_t begin, int64_t end) {
  p.in_double ? gradients_of_rows<kind, double>(p, begin, end)
              : gradients_of_rows<kind, float>(p, begin, end);
}

void box_iou_backward_range(const BoxIouParams& p, int64_t begin, int64_t end) {
  switch (p.kind) {
    case BoxOverlap::kIou: return gradients_kernel<BoxOverlap::kIou>(p, begin, end);
    case BoxOverlap::kIof: return gradients_kernel<BoxOverlap::kIof>(p, begin, end);
    case BoxOverlap::kIof2: return gradients_kernel<BoxOverlap::kIof2>(p, begin, end);
    case BoxOverlap::kGeneralized: return gradients_kernel<BoxOverlap::kGeneralized>(p, begin, end);
    case BoxOverlap::kDistance: return gradients_kernel<BoxOverlap::kDistance>(p, begin, end);
    case BoxOverlap::kComplete: return gradients_kernel<BoxOverlap::kComplete>(p, begin, end);
  }
}

void box_iou_backward_kernel(const BoxIouParams& p, Workspace& workspace) {
  for_items(workspace, p, p.boxes1.count, kPairCost * p.boxes2.count, box_iou_backward_range);
}

const bool registered = box_iou_backward_stub.set(kIsaSlot, box_iou_backward_kernel);

}  // namespace
}  // namespace visops
