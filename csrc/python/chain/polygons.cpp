// Polygons of ops/transforms/targets/polygons.py: all of a sample in one call. They lie one after
// another in points [P, 2], with counts [N] of how many points each has.
//
// Clipping follows I. E. Sutherland and G. W. Hodgman, "Reentrant polygon clipping", CACM 17(1),
// 1974.
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "python/array.h"
#include "python/bindings.h"

namespace visops {
namespace {

using Counts = py::array_t<int64_t, py::array::c_style | py::array::forcecast>;

template <size_t D>
using Point = std::array<double, D>;

// Points of D coordinates, of several polygons.
template <size_t D>
struct Polygons {
  std::vector<Point<D>> points;
  std::vector<int64_t> counts;

  template <class Each>
  void for_each(const Each& each) const {
    const Point<D>* first = points.data();
    for (const int64_t count : counts) {
      each(first, count);
      first += count;
    }
  }
};

Polygons<2> read_polygons(const Doubles& points, const Counts& counts) {
  if (points.ndim() != 2 || points.shape(1) != 2 || counts.ndim() != 1) {
    throw std::invalid_argument("points must be [P, 2], counts [N]");
  }
  Polygons<2> read;
  int64_t total = 0;
  for (py::ssize_t i = 0; i < counts.size(); ++i) {
    const int64_t count = counts.data()[i];
    if (count < 0 || count > points.shape(0) - total) total = points.shape(0) + 1;
    total += count;
    read.counts.push_back(count);
  }
  if (total != points.shape(0)) throw std::invalid_argument("counts must add up to all points");
  const double* p = points.data();
  for (int64_t i = 0; i < total; ++i, p += 2) read.points.push_back({p[0], p[1]});
  return read;
}

py::tuple as_arrays(const Polygons<2>& polygons) {
  const auto points = static_cast<py::ssize_t>(polygons.points.size());
  const auto count = static_cast<py::ssize_t>(polygons.counts.size());
  return py::make_tuple(array_of<double>({points, 2},
                                         [&](double* out) {
                                           for (const Point<2>& p : polygons.points)
                                             out = std::copy_n(p.data(), 2, out);
                                         }),
                        array_of<int64_t>({count}, [&](int64_t* out) {
                          std::copy(polygons.counts.begin(), polygons.counts.end(), out);
                        }));
}

// The part of polygons with distance(point) of at least 0. Points on the cut are placed(point).
template <size_t D, class Distance, class Placed>
Polygons<D> cut(const Polygons<D>& polygons, const Distance& distance, const Placed& placed) {
  Polygons<D> rest;
  rest.points.reserve(polygons.points.size() + polygons.counts.size());
  polygons.for_each([&](const Point<D>* points, int64_t count) {
    const size_t before = rest.points.size();
    for (int64_t i = 0; i < count; ++i) {
      const Point<D>&here = points[i], &next = points[i + 1 == count ? 0 : i + 1];
      const double own = distance(here), other = distance(next);
      if (own >= 0.0) rest.points.push_back(here);
      if ((own >= 0.0) == (other >= 0.0)) continue;
      const double share = own / (own - other);
      Point<D> crossing;
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
  polygons.for_each([&](const Point<2>* points, int64_t count) {
    const int64_t kept = property(points, count) ? 0 : count;
    rest.points.insert(rest.points.end(), points, points + kept);
    rest.counts.push_back(kept);
  });
  polygons = std::move(rest);
}

double area(const Point<2>* points, int64_t count) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const Point<2>&here = points[i], &next = points[i + 1 == count ? 0 : i + 1];
    const double x = here[0] - points[0][0], y = here[1] - points[0][1];
    sum += x * (next[1] - points[0][1]) - (next[0] - points[0][0]) * y;
  }
  return std::abs(sum) / 2.0;
}

// What lies in a window x1, y1, x2, y2. Polygons without area left have no points.
py::tuple clip_polygons(const Doubles& points, const Counts& counts,
                        const std::array<double, 4>& window) {
  Polygons<2> rest = read_polygons(points, counts);
  for (const size_t side : {0, 2, 1, 3}) {
    const size_t axis = side % 2;
    const double edge = window[side], sign = side < 2 ? 1.0 : -1.0;
    const auto distance = [=](const Point<2>& p) { return sign * (p[axis] - edge); };
    const auto is_inside = [&](const Point<2>& p) { return distance(p) >= 0.0; };
    if (std::all_of(rest.points.begin(), rest.points.end(), is_inside)) continue;
    rest = cut(rest, distance, [=](Point<2> p) {
      p[axis] = edge;
      return p;
    });
    empty_where(rest, [](const Point<2>*, int64_t count) { return count < 3; });
  }
  empty_where(rest, [](const Point<2>* p, int64_t count) { return !(area(p, count) > 0.0); });
  return as_arrays(rest);
}

py::array_t<double> polygon_areas(const Doubles& points, const Counts& counts) {
  const Polygons<2> polygons = read_polygons(points, counts);
  return array_of<double>({counts.size()}, [&](double* out) {
    polygons.for_each([&](const Point<2>* p, int64_t count) { *out++ = area(p, count); });
  });
}

// Polygons moved by a matrix [3, 3] whose w is 1 at the image's centre. What is nearer to the
// horizon than `least` is cut off.
py::tuple move_polygons(const Doubles& points, const Counts& counts, const Doubles& matrix,
                        double least) {
  if (matrix.size() != 9) throw std::invalid_argument("matrix must be [3, 3]");
  const double* const m = matrix.data();
  Polygons<2> own = read_polygons(points, counts);
  const auto row = [m](int k, const Point<2>& p) {
    return m[3 * k] * p[0] + m[3 * k + 1] * p[1] + m[3 * k + 2];
  };
  if (m[6] == 0.0 && m[7] == 0.0 && m[8] == 1.0) {
    for (Point<2>& p : own.points) p = {row(0, p), row(1, p)};
    return as_arrays(own);
  }
  Polygons<3> moved;
  moved.counts = own.counts;
  for (const Point<2>& p : own.points) moved.points.push_back({row(0, p), row(1, p), row(2, p)});
  const auto distance = [least](const Point<3>& p) { return p[2] - least; };
  const Polygons<3> rest = cut(moved, distance, [](const Point<3>& p) { return p; });
  own = {{}, rest.counts};
  for (const Point<3>& p : rest.points) own.points.push_back({p[0] / p[2], p[1] / p[2]});
  return as_arrays(own);
}

bool is_list(PyObject* value) { return PyList_CheckExact(value) || PyTuple_CheckExact(value); }

// Appends a flat polygon x1, y1, x2, y2, ...; false: it is something else, or is wrong.
bool read_flat(PyObject* value, Polygons<2>& polygons) {
  if (!is_list(value)) return false;
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
  if (size < 6 || size % 2 != 0) return false;
  PyObject** const items = PySequence_Fast_ITEMS(value);
  for (Py_ssize_t i = 0; i < size; i += 2) {
    Point<2> point;
    for (Py_ssize_t k = 0; k < 2; ++k) {
      PyObject* const number = items[i + k];
      if (!PyFloat_CheckExact(number) && !PyLong_CheckExact(number)) return false;
      point[k] = PyFloat_AsDouble(number);
      if (point[k] == -1.0 && PyErr_Occurred() != nullptr) {  // too large an integer
        PyErr_Clear();
        return false;
      }
      if (!std::isfinite(point[k])) return false;
    }
    polygons.points.push_back(point);
  }
  polygons.counts.push_back(size / 2);
  return true;
}

// Objects as COCO has them, lists of flat lists of numbers, as (points, counts, how many polygons
// each object has); None for anything else.
py::object read_flat_polygons(py::handle objects) {
  if (!is_list(objects.ptr())) return py::none();
  Polygons<2> polygons;
  py::list sizes;
  for (const py::handle object : py::reinterpret_borrow<py::sequence>(objects)) {
    if (!is_list(object.ptr())) return py::none();
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(object.ptr());
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (!read_flat(PySequence_Fast_ITEMS(object.ptr())[i], polygons)) return py::none();
    }
    sizes.append(count);
  }
  const py::tuple arrays = as_arrays(polygons);
  return py::make_tuple(arrays[0], arrays[1], sizes);
}

}  // namespace

void bind_polygons(py::module_& m) {
  m.def("clip_polygons", &clip_polygons);
  m.def("polygon_areas", &polygon_areas);
  m.def("move_polygons", &move_polygons);
  m.def("read_flat_polygons", &read_flat_polygons);
}

}  // namespace visops
