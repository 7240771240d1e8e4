// Boxes and key points of ops/transforms/targets, as rows of arrays.
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "core/chain/moving.h"
#include "python/bindings.h"

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

BoxFormat read_format(const std::string& name) {
  if (name == "XYXY") return BoxFormat::kCorners;
  if (name == "XYWH") return BoxFormat::kSizes;
  if (name == "CXCYWH") return BoxFormat::kCentres;
  throw std::invalid_argument("boxes of format " + name);
}

// Boxes moved, clipped to windows of the source before; None for a perspective. If they are
// measured, also by how much areas grow, and the share of each box that is left: (boxes, factors,
// shares), of which the last two may be None.
py::object move_box_array(const Doubles& rows, const std::string& format_name,
                          const Doubles& matrices, const Owners& owners,
                          const std::optional<Doubles>& windows, bool measured) {
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
      large[i] = is_large(format, box, least_side, least_area);
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

// move_points of rows x, y, and anything that stays, whose origin is off by `shift`; and which of
// them lie in windows of the source. None for a perspective.
py::object move_point_array(const Doubles& rows, const Doubles& matrices, const Owners& owners,
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

// Whether all boxes x1, y1, x2, y2 are finite and have sides of 0 or more.
bool are_boxes(const Doubles& rows) {
  const double* box = rows.data();
  for (py::ssize_t i = 0; i < rows.size(); i += 4, box += 4) {
    if (!is_box(box)) return false;
  }
  return true;
}

}  // namespace

void bind_targets(py::module_& m) {
  m.def("move_boxes", &move_box_array);
  m.def("clip_boxes", &clip_boxes);
  m.def("large_boxes", &large_boxes);
  m.def("move_points", &move_point_array);
  m.def("points_inside", &points_inside);
  m.def("are_boxes", &are_boxes);
}

}  // namespace visops
