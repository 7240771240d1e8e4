#include "core/chain/moving.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/warp/augment.h"

namespace visops {
namespace {

// Rows of float32 or float64, read and written as doubles: several plans don't round in between.
class Rows {
 public:
  explicit Rows(const TensorView& view)
      : data_(static_cast<char*>(view.data)),
        step_(view.rank > 1 ? view.stride(2) : 0),
        column_(view.stride(1)),
        is_wide_(view.dtype == DType::kFloat64) {}

  double read(int64_t row, int64_t k) const {
    const int64_t at = row * step_ + k * column_;
    return is_wide_ ? reinterpret_cast<const double*>(data_)[at]
                    : static_cast<double>(reinterpret_cast<const float*>(data_)[at]);
  }
  void write(int64_t row, int64_t k, double value) const {
    const int64_t at = row * step_ + k * column_;
    if (is_wide_) {
      reinterpret_cast<double*>(data_)[at] = value;
    } else {
      reinterpret_cast<float*>(data_)[at] = static_cast<float>(value);
    }
  }

 private:
  char* data_;
  int64_t step_, column_;
  bool is_wide_;
};

std::array<double, 4> window_of(const Canvas& canvas) {
  return {0.0, 0.0, canvas.width, canvas.height};
}

// What may still be seen of the source.
std::array<double, 4> seen_of(const GeometryState& at) {
  std::array<double, 4> whole = window_of(at.source);
  if (!at.has_window) return whole;
  for (int k = 0; k < 2; ++k) {
    whole[k] = most(whole[k], at.window[k]);
    whole[2 + k] = least(whole[2 + k], at.window[2 + k]);
  }
  return whole;
}

}  // namespace

bool is_still(const ChainPlan& plan) { return plan.samples[0].is_still(); }

bool are_still(const std::vector<const ChainPlan*>& plans) {
  return std::all_of(plans.begin(), plans.end(),
                     [](const ChainPlan* plan) { return is_still(*plan); });
}

void move_boxes(const TensorView& from, const TensorView& to,
                const std::vector<const ChainPlan*>& plans, const TargetMove& move) {
  const Rows rows(from), moved(to);
  for (int64_t i = 0; i < from.shape[0]; ++i) {
    double box[4];
    for (int k = 0; k < 4; ++k) box[k] = rows.read(i, k);
    for (const ChainPlan* plan : plans) {
      if (is_still(*plan)) continue;
      const GeometryState& at = plan->samples[0];
      std::array<double, 4> corners = corners_of(move.format, box);
      if (move.clips) corners = visible_part(corners, seen_of(at).data());
      double next[4];
      move_box(corners.data(), at.matrix, next);
      write_corners(move.format, next, box);
    }
    if (move.clips) {
      const auto window = window_of(plans.back()->samples[0].canvas);
      const auto corners = clipped(corners_of(move.format, box), window.data());
      write_corners(move.format, corners.data(), box);
    }
    for (int k = 0; k < 4; ++k) moved.write(i, k, box[k]);
  }
}

void move_points(const TensorView& from, const TensorView& to, bool* seen,
                 const std::vector<const ChainPlan*>& plans, double shift) {
  const int64_t width = from.side(1);
  int64_t count = 1;
  for (int d = 0; d + 1 < from.rank; ++d) count *= from.shape[static_cast<size_t>(d)];
  TensorView points = from;
  points.strides[static_cast<size_t>(from.rank - 1)] = 1;
  const Rows rows(points), moved(to);
  for (int64_t i = 0; i < count; ++i) {
    double point[3] = {};
    bool is_seen = true;
    for (int64_t k = 0; k < width; ++k) point[k] = rows.read(i, k);
    for (const ChainPlan* plan : plans) {
      const GeometryState& at = plan->samples[0];
      double next[2] = {point[0], point[1]};
      if (!is_still(*plan)) move_point(point[0], point[1], at.matrix, shift, next);
      is_seen = is_seen && is_inside(point[0], point[1], seen_of(at).data(), shift) &&
                is_inside(next[0], next[1], window_of(at.canvas).data(), shift);
      std::copy_n(next, 2, point);
      if (!is_seen) point[2] = 0.0;
    }
    for (int64_t k = 0; k < width; ++k) moved.write(i, k, point[k]);
    seen[i] = is_seen;
  }
}

void move_masks(const StridedData& from, const StridedData& to, DType dtype, int64_t count,
                MaskSize size_in, MaskSize size_out, const double* matrix, const double* window,
                double fill, const Threads& threads) {
  AugmentParams p = {};
  p.first = {from.address,    size_in.height,  size_in.width,
             from.strides[0], from.strides[1], from.strides[2]};
  p.batch = 1;
  p.channels = count;
  p.dtype = p.output_dtype = dtype;
  p.matrix = {matrix, DType::kFloat64, true, 0, 3, 1};
  p.matrix_rows = 3;
  p.window = window;
  p.mode = Interpolation::kNearest;
  p.padding = Padding::kConstant;
  p.half_pixel = true;
  p.output_height = size_out.height;
  p.output_width = size_out.width;
  p.output = to.address;
  p.output_stride = {0, to.strides[0], to.strides[1], to.strides[2]};
  const std::vector<double> none, fills = {fill}, zero = {0.0};
  const AugmentValues values = {fills, none, none, zero};
  run_augment(p, values, threads);
}

void move_masks(const TensorView& from, const TensorView& to, const ChainPlan& plan, double fill,
                const Threads& threads) {
  const int64_t count = from.rank == 3 ? from.shape[0] : 1;
  if (count == 0) return;
  const GeometryState& at = plan.samples[0];
  double matrix[9];
  std::copy_n(at.matrix, 9, matrix);
  matrix[2] += at.ties[0];
  matrix[5] += at.ties[1];
  const auto planes = [](const TensorView& masks) {
    const int64_t step = masks.rank == 3 ? masks.strides[0] : 0;
    return StridedData{masks.data, {step, masks.stride(2), masks.stride(1)}};
  };
  const auto size_of = [](const Canvas& canvas) {
    return MaskSize{static_cast<int64_t>(canvas.height), static_cast<int64_t>(canvas.width)};
  };
  // Bytes of bool move as uint8, of which they hold two values.
  const DType dtype = from.dtype == DType::kBool ? DType::kUInt8 : from.dtype;
  move_masks(planes(from), planes(to), dtype, count, size_of(at.source), size_of(at.canvas), matrix,
             at.has_window ? at.window : nullptr, fill, threads);
}

bool holds(DType dtype, double fill) {
  switch (dtype) {
    case DType::kBool: return fill >= 0.0 && fill <= 1.0;
    case DType::kUInt8: return fill >= 0.0 && fill <= 255.0;
    case DType::kFloat16: return fill >= -65504.0 && fill <= 65504.0;
    case DType::kFloat32: return true;
    default: return false;
  }
}

bool are_placed_boxes(const TensorView& boxes, BoxFormat format) {
  const Rows rows(boxes);
  bool any_beyond = boxes.shape[0] == 0;
  for (int64_t i = 0; i < boxes.shape[0]; ++i) {
    double box[4];
    for (int k = 0; k < 4; ++k) box[k] = rows.read(i, k);
    const std::array<double, 4> corners = corners_of(format, box);
    if (!is_box(corners.data())) return false;
    any_beyond =
        any_beyond || corners[0] < 0.0 || corners[1] < 0.0 || corners[2] > 1.0 || corners[3] > 1.0;
  }
  return any_beyond;
}

bool mark_large(const TensorView& boxes, BoxFormat format, double least_side, double least_area,
                bool* flags) {
  const Rows rows(boxes);
  bool all = true;
  for (int64_t i = 0; i < boxes.shape[0]; ++i) {
    double box[4];
    float narrow[4];
    for (int k = 0; k < 4; ++k) {
      box[k] = rows.read(i, k);
      narrow[k] = static_cast<float>(box[k]);
    }
    const bool large = boxes.dtype == DType::kFloat32
                           ? is_large(format, narrow, least_side, least_area)
                           : is_large(format, box, least_side, least_area);
    flags[i] = large;
    all = all && large;
  }
  return all;
}

namespace {

// Clipping follows I. E. Sutherland and G. W. Hodgman, "Reentrant polygon clipping", CACM 17(1),
// 1974.

// The part of polygons with distance(point) of at least 0. Points on the cut are placed(point).
template <size_t D, class Distance, class Placed>
Polygons<D> cut(const Polygons<D>& polygons, const Distance& distance, const Placed& placed) {
  Polygons<D> rest;
  rest.points.reserve(polygons.points.size() + polygons.counts.size());
  polygons.for_each([&](const PolygonPoint<D>* points, int64_t count) {
    const size_t before = rest.points.size();
    for (int64_t i = 0; i < count; ++i) {
      const PolygonPoint<D>&here = points[i], &next = points[i + 1 == count ? 0 : i + 1];
      const double own = distance(here), other = distance(next);
      if (own >= 0.0) rest.points.push_back(here);
      if ((own >= 0.0) == (other >= 0.0)) continue;
      const double share = own / (own - other);
      PolygonPoint<D> crossing;
      for (size_t k = 0; k < D; ++k) crossing[k] = here[k] + share * (next[k] - here[k]);
      rest.points.push_back(placed(crossing));
    }
    rest.counts.push_back(static_cast<int64_t>(rest.points.size() - before));
  });
  return rest;
}

// Polygons of which none has this property; a polygon that does has no points any more.
template <class Property>
void empty_where(Polygons<2>& polygons, const Property& property) {
  Polygons<2> rest;
  polygons.for_each([&](const PolygonPoint<2>* points, int64_t count) {
    const int64_t kept = property(points, count) ? 0 : count;
    rest.points.insert(rest.points.end(), points, points + kept);
    rest.counts.push_back(kept);
  });
  polygons = std::move(rest);
}

}  // namespace

double polygon_area(const PolygonPoint<2>* points, int64_t count) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const PolygonPoint<2>&here = points[i], &next = points[i + 1 == count ? 0 : i + 1];
    const double x = here[0] - points[0][0], y = here[1] - points[0][1];
    sum += x * (next[1] - points[0][1]) - (next[0] - points[0][0]) * y;
  }
  return std::abs(sum) / 2.0;
}

Polygons<2> clip_polygons(Polygons<2> rest, const std::array<double, 4>& window) {
  for (const size_t side : {0, 2, 1, 3}) {
    const size_t axis = side % 2;
    const double edge = window[side], sign = side < 2 ? 1.0 : -1.0;
    const auto distance = [=](const PolygonPoint<2>& p) { return sign * (p[axis] - edge); };
    const auto is_inside = [&](const PolygonPoint<2>& p) { return distance(p) >= 0.0; };
    if (std::all_of(rest.points.begin(), rest.points.end(), is_inside)) continue;
    rest = cut(rest, distance, [=](PolygonPoint<2> p) {
      p[axis] = edge;
      return p;
    });
    empty_where(rest, [](const PolygonPoint<2>*, int64_t count) { return count < 3; });
  }
  empty_where(rest, [](const PolygonPoint<2>* p, int64_t count) {
    return !(polygon_area(p, count) > 0.0);
  });
  return rest;
}

Polygons<2> move_polygons(Polygons<2> own, const double* m, double least) {
  const auto row = [m](int k, const PolygonPoint<2>& p) {
    return m[3 * k] * p[0] + m[3 * k + 1] * p[1] + m[3 * k + 2];
  };
  if (m[6] == 0.0 && m[7] == 0.0 && m[8] == 1.0) {
    for (PolygonPoint<2>& p : own.points) p = {row(0, p), row(1, p)};
    return own;
  }
  Polygons<3> lifted;
  lifted.counts = own.counts;
  for (const PolygonPoint<2>& p : own.points)
    lifted.points.push_back({row(0, p), row(1, p), row(2, p)});
  const auto distance = [least](const PolygonPoint<3>& p) { return p[2] - least; };
  const Polygons<3> rest = cut(lifted, distance, [](const PolygonPoint<3>& p) { return p; });
  own = {{}, rest.counts};
  for (const PolygonPoint<3>& p : rest.points) own.points.push_back({p[0] / p[2], p[1] / p[2]});
  return own;
}

}  // namespace visops
