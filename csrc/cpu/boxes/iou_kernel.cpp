// NOTE [ Pairs on the CPU ]
// Boxes become columns once. Then a row of the result is one loop over boxes2, which compilers
// vectorise: nothing in NOTE [ Pairs of boxes ] branches. If boxes2 are fewer than a vector and
// boxes1 are not, the loop is over boxes1 and its results are scattered: every measure is the same
// with the roles swapped. Work is split by boxes; no value depends on where.
#include "core/boxes/iou.h"
#include "cpu/items.h"

namespace visops {
namespace {

constexpr int64_t kPairCost = 2;  // elements; see kGrain
constexpr int64_t kBlock = 256;   // results of a column that are scattered at once
constexpr int64_t kFew = 16;      // fewer boxes than this don't fill a vector

template <class Acc>
void make_columns(const BoxSet& set, bool with_angle, int64_t begin, int64_t end, Acc* columns) {
  if (set.dtype == DType::kFloat32) {  // a constant: no switch on the dtype in the loop
    for (int64_t i = begin; i < end; ++i) {
      make_box_column(set, DType::kFloat32, with_angle, i, columns);
    }
    return;
  }
  for (int64_t i = begin; i < end; ++i) make_box_column(set, set.dtype, with_angle, i, columns);
}

template <class Acc>
void make_all_columns(const BoxIouParams& p, int64_t begin, int64_t end) {
  const bool with_angle = p.kind == BoxOverlap::kComplete;
  const int64_t split = p.boxes1.count;
  make_columns(p.boxes1, with_angle, begin, end < split ? end : split,
               static_cast<Acc*>(p.columns1));
  make_columns(p.boxes2, with_angle, begin > split ? begin - split : 0, end - split,
               static_cast<Acc*>(p.columns2));
}

void columns_range(const BoxIouParams& p, int64_t begin, int64_t end) {
  if (p.in_double) {
    make_all_columns<double>(p, begin, end);
  } else {
    make_all_columns<float>(p, begin, end);
  }
}

void columns_kernel(const BoxIouParams& p, Workspace& workspace) {
  for_items(workspace, p, p.boxes1.count + p.boxes2.count, 8 * kBoxColumns, columns_range);
}

// Overlaps of one box with others.
template <BoxOverlap kind, class Acc, class Out>
void overlaps_with(const PairBox<Acc>& box, const Acc* VISOPS_RESTRICT columns, int64_t count,
                   int64_t begin, int64_t end, Acc eps, Out* VISOPS_RESTRICT out) {
  for (int64_t i = begin; i < end; ++i) {
    const PairBox<Acc> other = load_pair_box(columns, count, i);
    out[i - begin] = static_cast<Out>(pair_overlap<kind>(box, other, eps));
  }
}

template <BoxOverlap kind, class Acc, class Out>
void overlaps_of_rows(const BoxIouParams& p, int64_t begin, int64_t end) {
  const auto* columns1 = static_cast<const Acc*>(p.columns1);
  const auto* columns2 = static_cast<const Acc*>(p.columns2);
  const int64_t rows = p.boxes1.count, count = p.boxes2.count;
  const Acc eps = static_cast<Acc>(p.eps);
  auto* out = static_cast<Out*>(p.result);
  if (count >= kFew || end - begin < kFew) {
    for (int64_t i = begin; i < end; ++i) {
      overlaps_with<kind>(load_pair_box(columns1, rows, i), columns2, count, 0, count, eps,
                          out + i * count);
    }
    return;
  }
  Out block[kBlock];
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t last = end - first < kBlock ? end : first + kBlock;
    for (int64_t j = 0; j < count; ++j) {
      overlaps_with<swapped_roles(kind)>(load_pair_box(columns2, count, j), columns1, rows, first,
                                         last, eps, block);
      for (int64_t i = first; i < last; ++i) out[i * count + j] = block[i - first];
    }
  }
}

template <BoxOverlap kind>
void overlaps_kernel(const BoxIouParams& p, int64_t begin, int64_t end) {
  if (!p.in_double) {
    overlaps_of_rows<kind, float, float>(p, begin, end);
  } else if (p.result_dtype == DType::kFloat64) {
    overlaps_of_rows<kind, double, double>(p, begin, end);
  } else {
    overlaps_of_rows<kind, double, float>(p, begin, end);
  }
}

void box_iou_range(const BoxIouParams& p, int64_t begin, int64_t end) {
  switch (p.kind) {
    case BoxOverlap::kIou: return overlaps_kernel<BoxOverlap::kIou>(p, begin, end);
    case BoxOverlap::kIof: return overlaps_kernel<BoxOverlap::kIof>(p, begin, end);
    case BoxOverlap::kIof2: return overlaps_kernel<BoxOverlap::kIof2>(p, begin, end);
    case BoxOverlap::kGeneralized: return overlaps_kernel<BoxOverlap::kGeneralized>(p, begin, end);
    case BoxOverlap::kDistance: return overlaps_kernel<BoxOverlap::kDistance>(p, begin, end);
    case BoxOverlap::kComplete: return overlaps_kernel<BoxOverlap::kComplete>(p, begin, end);
  }
}

void box_iou_kernel(const BoxIouParams& p, Workspace& workspace) {
  for_items(workspace, p, p.boxes1.count, kPairCost * p.boxes2.count, box_iou_range);
}

const bool registered =
    box_columns_stub.set(kIsaSlot, columns_kernel) && box_iou_stub.set(kIsaSlot, box_iou_kernel);

}  // namespace
}  // namespace visops
