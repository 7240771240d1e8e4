// NOTE [ Suppression of rotated boxes on the CPU ]
// As NOTE [ Suppression on the CPU ], against all kept boxes: in vectors, whether the circles
// through the corners meet and the areas are alike, which few pairs pass; then NOTE [ Rotated
// overlap ]. Assumes what check_nms() and the fronts establish.
#include "cpu/nms_segments.h"

namespace visops {
namespace {

constexpr int64_t kOnStack = 384;  // candidates of a segment
constexpr int kRun = 16;           // boxes that are tested at a time

// What the first test needs, in arrays of kRun more than the segment has: a run may begin at the
// last box. What was not stored is zero, and so too small.
struct KeptCircles {
  double *x, *y, *radius, *area;
  RotatedBox* boxes;

  static constexpr int64_t circle_elements(int64_t size) { return 4 * (size + kRun); }

  KeptCircles(double* memory, RotatedBox* boxes, int64_t size) : boxes(boxes) {
    const int64_t step = size + kRun;
    x = memory;
    y = x + step;
    radius = y + step;
    area = radius + step;
    memset(memory, 0, static_cast<size_t>(circle_elements(size)) * sizeof(double));
  }

  void store(int64_t i, const RotatedBox& box) {
    x[i] = box.x;
    y[i] = box.y;
    radius[i] = box.radius;
    area[i] = box.area;
    boxes[i] = box;
  }

  // Bits of those of the kRun boxes from i on that can overlap the box by more than a threshold of
  // which `ratio` is a little less.
  VISOPS_ALWAYS_INLINE unsigned near(const RotatedBox& box, double ratio, int64_t i) const {
    const double *xs = x + i, *ys = y + i, *radii = radius + i, *areas = area + i;
    int bits = 0;
    for (int l = 0; l < kRun; ++l) {
      const double dx = box.x - xs[l], dy = box.y - ys[l], reach = radii[l] + box.radius;
      const double least = areas[l] < box.area ? areas[l] : box.area;
      const double most = areas[l] < box.area ? box.area : areas[l];
      const bool near = (dx * dx + dy * dy < reach * reach) & (least >= ratio * most);
      bits |= near & (areas[l] > 0.0) ? 1 << l : 0;
    }
    return static_cast<unsigned>(bits);
  }

  bool meet(const RotatedBox& box, double threshold, int64_t used) const {
    const double ratio = threshold * (1.0 - 1e-9);
    for (int64_t i = 0; i < used; i += kRun) {
      for (unsigned rest = near(box, ratio, i); rest != 0; rest &= rest - 1) {
        if (overlaps(boxes[i + __builtin_ctz(rest)], box, threshold)) return true;
      }
    }
    return false;
  }
};

void suppress(const NmsParams& p, int64_t begin, int64_t count, KeptCircles kept) {
  SegmentOutput output(p, begin, count);
  int64_t used = 0;
  for (int64_t i = 0; i < count; ++i) {
    const RotatedBox box = rotated_candidate_box(p, p.order[begin + i]);
    const bool inert = is_inert(box);
    if (!inert && kept.meet(box, p.iou_threshold, used)) continue;
    if (!output.keep(i)) return;
    if (!inert) kept.store(used++, box);
  }
}

// Of a segment of more than kOnStack candidates, for each of them, in doubles.
constexpr int64_t kCircle = 5, kBox = sizeof(RotatedBox) / sizeof(double);
static_assert(KeptCircles::circle_elements(kOnStack + 1) <= kCircle * (kOnStack + 1));
static_assert(kCircle + kBox == 14, "nms_cpu_scratch_bytes()");

void nms_rotated_kernel(const NmsParams& p, int64_t begin, int64_t end) {
  for_each_segment(p, begin, end, [&](int64_t first, int64_t count) {
    if (count <= kOnStack) {
      alignas(64) double circles[KeptCircles::circle_elements(kOnStack)];
      RotatedBox boxes[kOnStack];
      suppress(p, first, count, KeptCircles(circles, boxes, count));
    } else {
      double* circles = static_cast<double*>(p.scratch);
      auto* boxes = reinterpret_cast<RotatedBox*>(circles + p.count * kCircle);
      suppress(p, first, count, KeptCircles(circles + first * kCircle, boxes + first, count));
    }
  });
}

const bool registered = nms_rotated_stub.set(kIsaSlot, nms_rotated_kernel);

}  // namespace
}  // namespace visops
