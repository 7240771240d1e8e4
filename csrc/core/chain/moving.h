// Targets that move from their own memory into other, as their image moves by plans in turn.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/chain/plan.h"
#include "core/dispatch/threads.h"
#include "core/images/pixel.h"

namespace visops {

// How boxes and key points move with an image by an affine map: what
// ops/transforms/targets/rows.py does in NumPy, operation by operation. A dozen boxes take
// NumPy 40 microseconds.

// NaN, if one is: numpy.minimum and numpy.maximum.
inline double least(double a, double b) { return a < b || a != a ? a : b; }
inline double most(double a, double b) { return a > b || a != a ? a : b; }

// The bounds of a box whose corners move.
inline void move_box(const double* corners, const double* m, double* out) {
  for (int axis = 0; axis < 2; ++axis, m += 3) {
    const double ax1 = m[0] * corners[0], ax2 = m[0] * corners[2];
    const double by1 = m[1] * corners[1], by2 = m[1] * corners[3];
    out[axis] = least(ax1, ax2) + least(by1, by2) + m[2];
    out[2 + axis] = most(ax1, ax2) + most(by1, by2) + m[2];
  }
}

// A point whose origin is off by `shift`.
inline void move_point(double x, double y, const double* m, double shift, double* out) {
  for (int axis = 0; axis < 2; ++axis, m += 3) {
    double c = m[2];
    if (shift != 0.0) {  // with_origin
      c += shift * m[0] + shift * m[1];
      c -= shift;
    }
    out[axis] = m[0] * x + m[1] * y + c;
  }
}

enum class BoxFormat { kCorners, kSizes, kCentres };

// to_corners
template <class T>
std::array<T, 4> corners_of(BoxFormat format, const T* box) {
  std::array<T, 4> corners = {box[0], box[1], box[2], box[3]};
  if (format == BoxFormat::kCorners) return corners;
  for (int k = 0; k < 2; ++k) {
    if (format == BoxFormat::kCentres) corners[k] -= box[2 + k] / T(2);
    corners[2 + k] = corners[k] + box[2 + k];
  }
  return corners;
}

// from_corners
inline void write_corners(BoxFormat format, const double* corners, double* box) {
  std::copy_n(corners, 4, box);
  if (format == BoxFormat::kCorners) return;
  for (int k = 0; k < 2; ++k) {
    if (format == BoxFormat::kCentres) box[k] = (corners[k] + corners[2 + k]) / 2.0;
    box[2 + k] = corners[2 + k] - corners[k];
  }
}

// clamp_boxes
inline std::array<double, 4> clipped(const std::array<double, 4>& corners, const double* window) {
  std::array<double, 4> rest = corners;
  for (int k = 0; k < 4; ++k) {
    rest[k] = least(most(corners[k], window[k % 2]), window[2 + k % 2]);
  }
  return rest;
}

// area_shares: which share of its area is left of a box.
inline double share_left(const std::array<double, 4>& before, const std::array<double, 4>& after) {
  const auto area = [](const std::array<double, 4>& c) { return (c[2] - c[0]) * (c[3] - c[1]); };
  const double whole = area(before);
  return whole > 0.0 ? area(after) / whole : 1.0;
}

// What a window leaves of a box; a point, where that is nothing: turned, a side that was left would
// span a box again.
inline std::array<double, 4> visible_part(const std::array<double, 4>& whole,
                                          const double* window) {
  const std::array<double, 4> rest = clipped(whole, window);
  return share_left(whole, rest) == 0.0 ? std::array{rest[0], rest[1], rest[0], rest[1]} : rest;
}

// Whether a box has sides and an area of at least these, in its own precision.
template <class T>
bool is_large(BoxFormat format, const T* box, double least_side, double least_area) {
  const std::array<T, 4> corners = corners_of(format, box);
  const T width = corners[2] - corners[0], height = corners[3] - corners[1];
  const auto is_long = [&](T side) { return side >= T(least_side) && side > T(0); };
  return is_long(width) && is_long(height) &&
         !(least_area > 0.0 && !(width * height >= T(least_area)));
}

// Whether a point lies in a window whose origin is off by `shift`.
inline bool is_inside(double x, double y, const double* window, double shift) {
  return x >= window[0] - shift && y >= window[1] - shift && x < window[2] - shift &&
         y < window[3] - shift;
}

// Whether a box is finite and has sides of 0 or more.
inline bool is_box(const double* box) {
  if (!(box[2] >= box[0] && box[3] >= box[1])) return false;
  return std::all_of(box, box + 4, [](double v) { return std::isfinite(v); });
}

// How a target moves.
struct TargetMove {
  double fill;       // of masks
  double shift;      // of key points' origin
  BoxFormat format;  // of boxes
  bool clips;        // whether boxes end with the image
};

// Whether a plan of one sample leaves its targets where they are.
bool is_still(const ChainPlan& plan);
bool are_still(const std::vector<const ChainPlan*>& plans);

// Moves boxes [N, 4], float32 or float64, into others.
void move_boxes(const TensorView& from, const TensorView& to,
                const std::vector<const ChainPlan*>& plans, const TargetMove& move);

// Moves points [..., 2 or 3], and says which are in sight. A third column, a visibility, becomes 0
// for points that are not.
void move_points(const TensorView& from, const TensorView& to, bool* seen,
                 const std::vector<const ChainPlan*>& plans, double shift);

struct MaskSize {
  int64_t height, width;
};

// Moves masks [N, H, W] by a 3 x 3 matrix into masks of the same dtype. `window` is what may be
// seen of them: x1, y1, x2, y2; null: all.
void move_masks(const StridedData& from, const StridedData& to, DType dtype, int64_t count,
                MaskSize size_in, MaskSize size_out, const double* matrix, const double* window,
                double fill, const Threads& threads);

// Moves masks [H, W] or [N, H, W] by a plan.
void move_masks(const TensorView& from, const TensorView& to, const ChainPlan& plan, double fill,
                const Threads& threads);

// Whether masks of a dtype move without torch, and it can hold this value.
bool holds(DType dtype, double fill);

// Whether boxes [N, 4] are finite and have sides of 0 or more, and some of them lie beyond the
// first pixel: they may be shares of the image's sides otherwise.
bool are_placed_boxes(const TensorView& boxes, BoxFormat format);

// Which boxes [N, 4] have sides and an area of at least these. Returns whether all have.
bool mark_large(const TensorView& boxes, BoxFormat format, double least_side, double least_area,
                bool* flags);

// Polygons that move with an image, all of a sample together.

template <size_t D>
using PolygonPoint = std::array<double, D>;

// Points of D coordinates, of several polygons: they lie one after another, with counts of how many
// points each has.
template <size_t D>
struct Polygons {
  std::vector<PolygonPoint<D>> points;
  std::vector<int64_t> counts;

  template <class Each>
  void for_each(const Each& each) const {
    const PolygonPoint<D>* first = points.data();
    for (const int64_t count : counts) {
      each(first, count);
      first += count;
    }
  }
};

// What lies in a window x1, y1, x2, y2. Polygons without area left have no points.
Polygons<2> clip_polygons(Polygons<2> polygons, const std::array<double, 4>& window);

// Polygons moved by a matrix [3, 3] whose w is 1 at the image's centre. What is nearer to the
// horizon than `least` is cut off.
Polygons<2> move_polygons(Polygons<2> polygons, const double* matrix, double least);

// The area that each polygon encloses.
double polygon_area(const PolygonPoint<2>* points, int64_t count);

}  // namespace visops
