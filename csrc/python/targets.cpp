// Boxes and key points of ops/transforms/targets: what coordinates.py does in NumPy, for affine
// maps, operation by operation, in one call. A dozen boxes take NumPy 40 microseconds.
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "python/array.h"
#include "python/bindings.h"
#include "python/plan.h"
#include "python/strided_data.h"

namespace visops {
namespace {

using Owners = std::optional<py::array_t<int64_t, py::array::c_style | py::array::forcecast>>;

void require_shape(bool fits) {
  if (!fits) throw std::invalid_argument("arrays of other shapes than the caller promises");
}

// Numbers of one sample for each row: all rows are of sample 0 where there are no owners.
class Samples {
 public:
  Samples(const Doubles& numbers, const Owners& owners, py::ssize_t rows)
      : data_(numbers.data()),
        stride_(numbers.size() / std::max<py::ssize_t>(numbers.shape(0), 1)) {
    if (owners) {
      require_shape(owners->ndim() == 1 && owners->shape(0) == rows);
      owners_ = owners->data();
      for (py::ssize_t i = 0; i < rows; ++i) {
        require_shape(owners_[i] >= 0 && owners_[i] < numbers.shape(0));
      }
    } else {
      require_shape(numbers.shape(0) == 1 || rows == 0);
    }
  }
  const double* operator[](py::ssize_t row) const {
    return data_ + (owners_ == nullptr ? 0 : owners_[row]) * stride_;
  }

 private:
  const double* data_;
  py::ssize_t stride_;
  const int64_t* owners_ = nullptr;
};

bool are_affine(const Doubles& matrices) {
  require_shape(matrices.ndim() == 3 && matrices.shape(1) == 3 && matrices.shape(2) == 3);
  const double* m = matrices.data();
  for (py::ssize_t i = 0; i < matrices.shape(0); ++i, m += 9) {
    if (m[6] != 0.0 || m[7] != 0.0 || m[8] != 1.0) return false;
  }
  return true;
}

// NaN, if one is: numpy.minimum and numpy.maximum.
double least(double a, double b) { return a < b || a != a ? a : b; }
double most(double a, double b) { return a > b || a != a ? a : b; }

// The bounds of a box whose corners move.
void move_box(const double* corners, const double* m, double* out) {
  for (int axis = 0; axis < 2; ++axis, m += 3) {
    const double ax1 = m[0] * corners[0], ax2 = m[0] * corners[2];
    const double by1 = m[1] * corners[1], by2 = m[1] * corners[3];
    out[axis] = least(ax1, ax2) + least(by1, by2) + m[2];
    out[2 + axis] = most(ax1, ax2) + most(by1, by2) + m[2];
  }
}

// A point whose origin is off by `shift`.
void move_point(double x, double y, const double* m, double shift, double* out) {
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

BoxFormat read_format(const std::string& name) {
  if (name == "XYXY") return BoxFormat::kCorners;
  if (name == "XYWH") return BoxFormat::kSizes;
  if (name == "CXCYWH") return BoxFormat::kCentres;
  throw std::invalid_argument("boxes of format " + name);
}

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
void write_corners(BoxFormat format, const double* corners, double* box) {
  std::copy_n(corners, 4, box);
  if (format == BoxFormat::kCorners) return;
  for (int k = 0; k < 2; ++k) {
    if (format == BoxFormat::kCentres) box[k] = (corners[k] + corners[2 + k]) / 2.0;
    box[2 + k] = corners[2 + k] - corners[k];
  }
}

// clamp_boxes
std::array<double, 4> clipped(const std::array<double, 4>& corners, const double* window) {
  std::array<double, 4> rest = corners;
  for (int k = 0; k < 4; ++k) {
    rest[k] = least(most(corners[k], window[k % 2]), window[2 + k % 2]);
  }
  return rest;
}

// area_shares: which share of its area is left of a box.
double share_left(const std::array<double, 4>& before, const std::array<double, 4>& after) {
  const auto area = [](const std::array<double, 4>& c) { return (c[2] - c[0]) * (c[3] - c[1]); };
  const double whole = area(before);
  return whole > 0.0 ? area(after) / whole : 1.0;
}

// What a window leaves of a box; a point, where that is nothing: turned, a side that was left would
// span a box again.
std::array<double, 4> visible_part(const std::array<double, 4>& whole, const double* window) {
  const std::array<double, 4> rest = clipped(whole, window);
  return share_left(whole, rest) == 0.0 ? std::array{rest[0], rest[1], rest[0], rest[1]} : rest;
}

// Boxes moved, clipped to windows of the source before; None for a perspective. If they are
// measured, also by how much areas grow, and the share of each box that is left: (boxes, factors,
// shares), of which the last two may be None.
py::object move_boxes(const Doubles& rows, const std::string& format_name, const Doubles& matrices,
                      const Owners& owners, const std::optional<Doubles>& windows, bool measured) {
  if (!are_affine(matrices)) return py::none();
  require_shape(rows.ndim() == 2 && rows.shape(1) == 4);
  const BoxFormat format = read_format(format_name);
  const py::ssize_t count = rows.shape(0);
  const Samples matrix(matrices, owners, count);
  std::optional<Samples> window;
  if (windows) window.emplace(*windows, owners, count);
  Doubles moved({count, py::ssize_t{4}});
  Doubles factors(measured ? count : 0), shares(measured && windows ? count : 0);
  const double* box = rows.data();
  double* out = moved.mutable_data();
  double* const factor = factors.mutable_data();
  double* const share = shares.mutable_data();
  for (py::ssize_t i = 0; i < count; ++i, box += 4, out += 4) {
    const std::array<double, 4> whole = corners_of(format, box);
    const std::array<double, 4> rest = window ? visible_part(whole, (*window)[i]) : whole;
    const double* const m = matrix[i];
    if (measured) factor[i] = std::abs(m[0] * m[4] - m[1] * m[3]);
    if (measured && window) share[i] = share_left(whole, rest);
    double corners[4];
    move_box(rest.data(), m, corners);
    write_corners(format, corners, out);
  }
  return py::make_tuple(moved, measured ? py::object(factors) : py::none(),
                        measured && windows ? py::object(shares) : py::none());
}

// Boxes clipped to windows, and the share that is left of each.
py::tuple clip_boxes(const Doubles& rows, const std::string& format_name, const Doubles& windows,
                     const Owners& owners) {
  require_shape(rows.ndim() == 2 && rows.shape(1) == 4);
  const BoxFormat format = read_format(format_name);
  const py::ssize_t count = rows.shape(0);
  const Samples window(windows, owners, count);
  Doubles rest({count, py::ssize_t{4}}), shares(count);
  const double* box = rows.data();
  double* out = rest.mutable_data();
  for (py::ssize_t i = 0; i < count; ++i, box += 4, out += 4) {
    const std::array<double, 4> before = corners_of(format, box);
    const std::array<double, 4> after = clipped(before, window[i]);
    shares.mutable_data()[i] = share_left(before, after);
    write_corners(format, after.data(), out);
  }
  return py::make_tuple(rest, shares);
}

template <class T>
py::object large_boxes_of(const py::array& boxes, BoxFormat format, double least_side,
                          double least_area) {
  const auto rows = py::array_t<T, py::array::c_style | py::array::forcecast>::ensure(boxes);
  if (!rows) throw py::error_already_set();
  require_shape(rows.ndim() == 2 && rows.shape(1) == 4);
  const T* box = rows.data();
  return array_of<bool>({rows.shape(0)}, [&](bool* large) {
    for (py::ssize_t i = 0; i < rows.shape(0); ++i, box += 4) {
      const std::array<T, 4> corners = corners_of(format, box);
      const T width = corners[2] - corners[0], height = corners[3] - corners[1];
      const auto side_is_large = [&](T side) { return side >= T(least_side) && side > T(0); };
      large[i] = side_is_large(width) && side_is_large(height) &&
                 !(least_area > 0.0 && !(width * height >= T(least_area)));
    }
  });
}

// Which boxes of an array have sides and an area of at least these; None for other dtypes than
// float32 and float64, in which this is worked out.
py::object large_boxes(const py::array& boxes, const std::string& format, double least_side,
                       double least_area) {
  if (py::isinstance<py::array_t<float>>(boxes)) {
    return large_boxes_of<float>(boxes, read_format(format), least_side, least_area);
  }
  if (py::isinstance<py::array_t<double>>(boxes)) {
    return large_boxes_of<double>(boxes, read_format(format), least_side, least_area);
  }
  return py::none();
}

bool is_inside(double x, double y, const double* window, double shift) {
  return x >= window[0] - shift && y >= window[1] - shift && x < window[2] - shift &&
         y < window[3] - shift;
}

// move_points of rows x, y, and anything that stays, whose origin is off by `shift`; and which of
// them lie in windows of the source. None for a perspective.
py::object move_points(const Doubles& rows, const Doubles& matrices, const Owners& owners,
                       const Doubles& windows, double shift) {
  if (!are_affine(matrices)) return py::none();
  require_shape(rows.ndim() == 2 && rows.shape(1) >= 2);
  const py::ssize_t count = rows.shape(0), width = rows.shape(1);
  const Samples matrix(matrices, owners, count), window(windows, owners, count);
  Doubles moved({count, width});
  py::array_t<bool> kept(count);
  const double* point = rows.data();
  double* out = moved.mutable_data();
  bool* seen = kept.mutable_data();
  for (py::ssize_t i = 0; i < count; ++i, point += width, out += width) {
    move_point(point[0], point[1], matrix[i], shift, out);
    std::copy(point + 2, point + width, out + 2);
    seen[i] = is_inside(point[0], point[1], window[i], shift);
  }
  return py::make_tuple(moved, kept);
}

// Which points, x and y first, lie in images of sizes [B, 2].
py::array_t<bool> points_inside(const Doubles& rows, const Doubles& sizes, const Owners& owners,
                                double shift) {
  require_shape(rows.ndim() == 2 && rows.shape(1) >= 2 && sizes.ndim() == 2 && sizes.shape(1) == 2);
  const py::ssize_t count = rows.shape(0), width = rows.shape(1);
  const Samples size(sizes, owners, count);
  py::array_t<bool> inside(count);
  const double* point = rows.data();
  bool* seen = inside.mutable_data();
  for (py::ssize_t i = 0; i < count; ++i, point += width) {
    const double window[4] = {0.0, 0.0, size[i][1], size[i][0]};
    seen[i] = is_inside(point[0], point[1], window, shift);
  }
  return inside;
}

bool is_box(const double* box) {
  if (!(box[2] >= box[0] && box[3] >= box[1])) return false;
  return std::all_of(box, box + 4, [](double v) { return std::isfinite(v); });
}

// Whether all boxes x1, y1, x2, y2 are finite and have sides of 0 or more.
bool are_boxes(const Doubles& rows) {
  const double* box = rows.data();
  for (py::ssize_t i = 0; i < rows.size(); i += 4, box += 4) {
    if (!is_box(box)) return false;
  }
  return true;
}

// The rows of a tensor of float32 or float64, read and written as doubles.
class TensorRows {
 public:
  TensorRows(py::handle data, bool wide) : data_(read_strided_data(data, 2)), wide_(wide) {}

  void read(int64_t row, int64_t width, double* out) const {
    for (int64_t k = 0; k < width; ++k) {
      out[k] = wide_ ? *at<const double>(row, k) : static_cast<double>(*at<const float>(row, k));
    }
  }
  void write(int64_t row, int64_t width, const double* values) const {
    for (int64_t k = 0; k < width; ++k) {
      if (wide_) {
        *at<double>(row, k) = values[k];
      } else {
        *at<float>(row, k) = static_cast<float>(values[k]);
      }
    }
  }

 private:
  template <class T>
  T* at(int64_t row, int64_t k) const {
    return static_cast<T*>(data_.address) + row * data_.strides[0] + k * data_.strides[1];
  }

  StridedData data_;
  bool wide_;
};

// are_boxes of a tensor [N, 4], some of them beyond the first pixel: they may be shares of the
// image's sides otherwise.
bool are_placed_boxes(py::handle data, int64_t count, bool wide) {
  const TensorRows rows(data, wide);
  double box[4];
  bool any_beyond = count == 0;
  for (int64_t i = 0; i < count; ++i) {
    rows.read(i, 4, box);
    if (!is_box(box)) return false;
    any_beyond = any_beyond || box[0] < 0.0 || box[1] < 0.0 || box[2] > 1.0 || box[3] > 1.0;
  }
  return any_beyond;
}

// move_boxes of a tensor [N, 4] into another, as a sample's image moves, by an affine map.
void move_drawn_boxes(const PlanObject& plan, py::handle source, py::handle target, int64_t count,
                      bool wide) {
  const TensorRows from(source, wide), to(target, wide);
  double box[4], moved[4];
  for (int64_t i = 0; i < count; ++i) {
    from.read(i, 4, box);
    move_box(box, plan.first().matrix, moved);
    to.write(i, 4, moved);
  }
}

// move_points, and then points_inside, of a tensor [N, 2 or 3] into another: the third column, a
// visibility, becomes 0 for points that are out of sight, and `visible` [N] tells which are not.
void move_drawn_points(const PlanObject& plan, py::handle source, py::handle target,
                       py::handle visible, int64_t count, int64_t width, bool wide, double shift) {
  require_shape(width == 2 || width == 3);
  const TensorRows from(source, wide), to(target, wide);
  const StridedData flags = read_strided_data(visible, 1);
  const auto window = [](const Canvas& canvas) {
    return std::array<double, 4>{0.0, 0.0, canvas.width, canvas.height};
  };
  const GeometryState& at = plan.first();
  const auto before = window(at.source), after = window(at.canvas);
  const bool is_identity = at.is_identity();
  for (int64_t i = 0; i < count; ++i) {
    double point[3] = {}, moved[3] = {};
    from.read(i, width, point);
    std::copy_n(point, width, moved);
    if (!is_identity) move_point(point[0], point[1], plan.first().matrix, shift, moved);
    const bool seen = is_inside(point[0], point[1], before.data(), shift) &&
                      is_inside(moved[0], moved[1], after.data(), shift);
    if (!seen) moved[2] = 0.0;
    to.write(i, width, moved);
    static_cast<bool*>(flags.address)[i * flags.strides[0]] = seen;
  }
}

}  // namespace

void bind_targets(py::module_& m) {
  m.def("move_boxes", &move_boxes);
  m.def("clip_boxes", &clip_boxes);
  m.def("large_boxes", &large_boxes);
  m.def("move_points", &move_points);
  m.def("points_inside", &points_inside);
  m.def("are_boxes", &are_boxes);
  m.def("are_placed_boxes", &are_placed_boxes);
  m.def("move_drawn_boxes", &move_drawn_boxes);
  m.def("move_drawn_points", &move_drawn_points);
}

}  // namespace visops
