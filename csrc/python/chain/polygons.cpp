// Polygons of ops/transforms/targets/polygons.py as arrays: points [P, 2], and counts [N] of how
// many of them each polygon has.
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/chain/moving.h"
#include "python/bindings.h"

namespace visops {
namespace {

using Counts = py::array_t<int64_t, py::array::c_style | py::array::forcecast>;

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
                                           for (const PolygonPoint<2>& p : polygons.points)
                                             out = std::copy_n(p.data(), 2, out);
                                         }),
                        array_of<int64_t>({count}, [&](int64_t* out) {
                          std::copy(polygons.counts.begin(), polygons.counts.end(), out);
                        }));
}

py::tuple clip(const Doubles& points, const Counts& counts, const std::array<double, 4>& window) {
  return as_arrays(clip_polygons(read_polygons(points, counts), window));
}

py::array_t<double> areas(const Doubles& points, const Counts& counts) {
  const Polygons<2> polygons = read_polygons(points, counts);
  return array_of<double>({counts.size()}, [&](double* out) {
    polygons.for_each(
        [&](const PolygonPoint<2>* p, int64_t count) { *out++ = polygon_area(p, count); });
  });
}

py::tuple move(const Doubles& points, const Counts& counts, const Doubles& matrix, double least) {
  if (matrix.size() != 9) throw std::invalid_argument("matrix must be [3, 3]");
  return as_arrays(move_polygons(read_polygons(points, counts), matrix.data(), least));
}

bool is_list(PyObject* value) { return PyList_CheckExact(value) || PyTuple_CheckExact(value); }

// Appends a flat polygon x1, y1, x2, y2, ...; false: it is something else, or is wrong.
bool read_flat(PyObject* value, Polygons<2>& polygons) {
  if (!is_list(value)) return false;
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
  if (size < 6 || size % 2 != 0) return false;
  PyObject** const items = PySequence_Fast_ITEMS(value);
  for (Py_ssize_t i = 0; i < size; i += 2) {
    PolygonPoint<2> point;
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
  m.def("clip_polygons", &clip);
  m.def("polygon_areas", &areas);
  m.def("move_polygons", &move);
  m.def("read_flat_polygons", &read_flat_polygons);
}

}  // namespace visops
