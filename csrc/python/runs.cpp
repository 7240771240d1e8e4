// Runs of masks for ops/masks/runs.py: COCO's texts and counts, areas, overlaps and polygons. Long
// calls release the interpreter's lock.
#include <pybind11/stl.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/chain/moving.h"
#include "core/masks/polygons.h"
#include "core/masks/rle.h"
#include "python/bindings.h"
#include "torch/threads.h"

namespace visops {
namespace {

template <class T>
using Array = py::array_t<T, py::array::c_style>;

RunLists lists_of(const Array<int32_t>& ends, const Array<int64_t>& offsets) {
  return {ends.data(), offsets.data(), static_cast<int64_t>(offsets.size()) - 1};
}

// The characters of all masks, and where each begins.
py::tuple write_text(const Array<int32_t>& ends, const Array<int64_t>& offsets) {
  Array<uint8_t> text(kMostCharacters * ends.size());
  Array<int64_t> begins(offsets.size());
  char* const characters = reinterpret_cast<char*>(text.mutable_data());
  int64_t* const starts = begins.mutable_data();
  const RunLists runs = lists_of(ends, offsets);
  run_unlocked(ends.size(), [&] { write_run_text(runs, characters, starts); });
  return py::make_tuple(text, begins);
}

py::tuple failure_of(const RunFailure& failure) {
  return py::make_tuple(static_cast<int>(failure.error), failure.entry, failure.detail);
}

// Ends, offsets [N + 1], and what is wrong: the number of a RunError, of which mask, and a detail.
py::tuple read_text(const py::bytes& text, const Array<int64_t>& begins,
                    const Array<int64_t>& pixels) {
  const int64_t count = pixels.size();
  Array<int32_t> ends(begins.data()[count]);
  Array<int64_t> offsets(begins.size());
  const char* const characters = PyBytes_AS_STRING(text.ptr());
  int32_t* const found = ends.mutable_data();
  int64_t* const starts = offsets.mutable_data();
  RunFailure failure = {};
  run_unlocked(ends.size(), [&] {
    failure = read_run_text(characters, begins.data(), pixels.data(), count, found, starts);
  });
  return py::make_tuple(ends, offsets, failure_of(failure));
}

// Ends, and what is wrong.
py::tuple read_counts(const Array<int64_t>& counts, const Array<int64_t>& offsets,
                      const Array<int64_t>& pixels) {
  Array<int32_t> ends(counts.size());
  int32_t* const found = ends.mutable_data();
  RunFailure failure = {};
  run_unlocked(ends.size(), [&] {
    failure = read_run_counts(counts.data(), offsets.data(), pixels.data(), pixels.size(), found);
  });
  return py::make_tuple(ends, failure_of(failure));
}

Array<int64_t> areas(const Array<int32_t>& ends, const Array<int64_t>& offsets) {
  Array<int64_t> found(offsets.size() - 1);
  int64_t* const pixels = found.mutable_data();
  const RunLists runs = lists_of(ends, offsets);
  run_unlocked(ends.size(), [&] { run_areas(runs, pixels); });
  return found;
}

Array<double> overlaps(const Array<int32_t>& ends1, const Array<int64_t>& offsets1,
                       const Array<int32_t>& ends2, const Array<int64_t>& offsets2,
                       const std::optional<Array<uint8_t>>& crowd, int64_t height) {
  Array<double> found({offsets1.size() - 1, offsets2.size() - 1});
  double* const values = found.mutable_data();
  const RunLists first = lists_of(ends1, offsets1), second = lists_of(ends2, offsets2);
  const uint8_t* const is_crowd = crowd ? crowd->data() : nullptr;
  const int64_t work = ends1.size() * second.count + ends2.size();
  run_unlocked(work, [&] { run_overlaps(first, second, is_crowd, height, values); });
  return found;
}

// Ends, of which only the first offsets[objects] are, and offsets [objects + 1].
py::tuple of_polygons(const Array<double>& points, const Array<int64_t>& point_offsets,
                      const Array<int64_t>& polygon_offsets, int64_t height, int64_t width) {
  const PolygonLists polygons = {points.data(),
                                 point_offsets.data(),
                                 polygon_offsets.data(),
                                 static_cast<int64_t>(polygon_offsets.size()) - 1,
                                 height,
                                 width};
  Array<int32_t> ends(most_polygon_runs(polygons));
  Array<int64_t> offsets(polygon_offsets.size());
  int32_t* const found = ends.mutable_data();
  int64_t* const starts = offsets.mutable_data();
  run_unlocked(ends.size(), [&] { polygon_runs(polygons, found, starts); });
  return py::make_tuple(ends, offsets);
}

// The borders of masks [N, H, W]: vertices [P, 2], and for each border how many it has and which
// outer border it belongs to; and how many borders each mask has.
py::tuple contours(const Array<uint8_t>& masks, bool keeps_all) {
  const int64_t count = masks.shape(0), height = masks.shape(1), width = masks.shape(2);
  const uint8_t* const data = masks.data();
  Contours found;
  std::vector<int64_t> borders;
  run_unlocked(masks.size(), [&] {
    for (int64_t i = 0; i < count; ++i) {
      const size_t before = found.lengths.size();
      find_contours(data + i * height * width, height, width, keeps_all, &found);
      borders.push_back(static_cast<int64_t>(found.lengths.size() - before));
    }
  });
  const auto points = static_cast<py::ssize_t>(found.points.size() / 2);
  return py::make_tuple(array_of(found.points, {points, 2}), array_of(found.lengths),
                        array_of(found.regions), array_of(borders));
}

}  // namespace

void bind_runs(py::module_& m) {
  m.def("write_run_text", &write_text);
  m.def("read_run_text", &read_text);
  m.def("read_run_counts", &read_counts);
  m.def("run_areas", &areas);
  m.def("run_overlaps", &overlaps);
  m.def("polygon_runs", &of_polygons);
  m.def("contours", &contours);
}

namespace {

// COCO's run lengths for ops/masks/rle.py: dictionaries as COCO's tools write them, read here. A
// call for few masks is mostly checks of their entries, which take Python longer than the counts.

constexpr int64_t kMostPixels = int64_t{1} << 31;

struct Texts {
  std::string text;
  std::vector<int64_t> lengths, pixels;
  int64_t height = -1, width = -1;  // of the first mask
  bool have_one_size = true;

  RunTexts view() const {
    return {text.data(), lengths.data(), pixels.data(), static_cast<int64_t>(lengths.size())};
  }
};

// list[index] or dict[key], owned: in an interpreter without a lock, another thread may let it go.
py::object item(PyObject* list, Py_ssize_t index) {
  PyObject* const found = PySequence_GetItem(list, index);
  if (found == nullptr) PyErr_Clear();
  return py::reinterpret_steal<py::object>(found);
}

py::object item(PyObject* dict, PyObject* key) {
  PyObject* const found = PyObject_GetItem(dict, key);
  if (found == nullptr) PyErr_Clear();
  return py::reinterpret_steal<py::object>(found);
}

// An int from 0 to 2^31, or -1.
int64_t side_of(const py::object& side) {
  if (!side || !PyLong_CheckExact(side.ptr())) return -1;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(side.ptr(), &overflow);
  return overflow != 0 || value < 0 || value > kMostPixels ? -1 : value;
}

// Adds {"size": [H, W], "counts": bytes}. False: it is anything else.
bool add(PyObject* rle, Texts& texts) {
  static PyObject* const size_key = PyUnicode_InternFromString("size");
  static PyObject* const counts_key = PyUnicode_InternFromString("counts");
  if (!PyDict_CheckExact(rle)) return false;
  const py::object size = item(rle, size_key), counts = item(rle, counts_key);
  if (!size || !PyList_CheckExact(size.ptr()) || PyList_GET_SIZE(size.ptr()) != 2) return false;
  if (!counts || !PyBytes_CheckExact(counts.ptr())) return false;
  const int64_t height = side_of(item(size.ptr(), Py_ssize_t{0}));
  const int64_t width = side_of(item(size.ptr(), Py_ssize_t{1}));
  if (height < 0 || width < 0 || height * width >= kMostPixels) return false;
  if (texts.lengths.empty()) {
    texts.height = height;
    texts.width = width;
  }
  texts.have_one_size &= height == texts.height && width == texts.width;
  texts.text.append(PyBytes_AS_STRING(counts.ptr()),
                    static_cast<size_t>(PyBytes_GET_SIZE(counts.ptr())));
  texts.lengths.push_back(PyBytes_GET_SIZE(counts.ptr()));
  texts.pixels.push_back(height * width);
  return true;
}

bool add_list(PyObject* rles, Texts& texts) {
  if (!PyList_CheckExact(rles)) return false;
  const auto count = static_cast<size_t>(PyList_GET_SIZE(rles));
  texts.lengths.reserve(count);
  texts.pixels.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const py::object rle = item(rles, static_cast<Py_ssize_t>(i));
    if (!rle || !add(rle.ptr(), texts)) return false;
  }
  return true;
}

// The pixels of masks, int64 [N], or of one []. None: it is another form of RLE, or none.
py::object rle_areas(py::handle rles) {
  Texts texts;
  const bool is_one = PyDict_CheckExact(rles.ptr());
  if (!(is_one ? add(rles.ptr(), texts) : add_list(rles.ptr(), texts))) return py::none();
  std::vector<py::ssize_t> shape;
  if (!is_one) shape.push_back(static_cast<py::ssize_t>(texts.lengths.size()));
  py::array_t<int64_t> areas(shape);
  int64_t* const found = areas.mutable_data();
  bool is_good = false;
  run_unlocked(static_cast<int64_t>(texts.text.size()),
               [&] { is_good = text_areas(texts.view(), found); });
  if (!is_good) return py::none();
  return areas;
}

// Overlaps, float64 [N, M]; `crowd` is uint8 [M]. None: these are other forms of RLE, none,
// or of several sizes.
py::object rle_overlaps(py::handle rles1, py::handle rles2,
                        const std::optional<py::array_t<uint8_t, py::array::c_style>>& crowd) {
  Texts texts1, texts2;
  const bool are_same = rles1.is(rles2);
  if (!add_list(rles1.ptr(), texts1)) return py::none();
  if (!are_same && !add_list(rles2.ptr(), texts2)) return py::none();
  const Texts &first = texts1, &second = are_same ? texts1 : texts2;
  const bool have_masks = !first.lengths.empty() && !second.lengths.empty();
  if (!have_masks || !first.have_one_size || !second.have_one_size) return py::none();
  if (first.height != second.height || first.width != second.width) return py::none();
  const uint8_t* const is_crowd = crowd ? crowd->data() : nullptr;
  py::array_t<double> overlaps({first.lengths.size(), second.lengths.size()});
  double* const found = overlaps.mutable_data();
  bool is_good = false;
  const size_t work = first.text.size() * second.lengths.size() + second.text.size();
  run_unlocked(static_cast<int64_t>(work), [&] {
    is_good = text_overlaps(first.view(), second.view(), is_crowd, first.height, found);
  });
  if (!is_good) return py::none();
  return overlaps;
}

}  // namespace

void bind_rle(py::module_& m) {
  m.def("rle_areas", &rle_areas);
  m.def("rle_overlaps", &rle_overlaps);
}

namespace {

// Masks of ops/transforms/targets/masks.py: the nearest pixel, or `fill`. A single mask is small,
// and most of its time would go into a call through torch's dispatcher.

// Masks are given as address and strides, which the caller owns.
void move(py::handle source, py::handle target, const std::string& dtype, int64_t count,
          std::pair<int64_t, int64_t> size_in, std::pair<int64_t, int64_t> size_out,
          const py::array_t<double, py::array::c_style>& matrix, double fill) {
  if (matrix.size() != 9) throw std::invalid_argument("the matrix must be [3, 3]");
  move_masks(read_strided_data(source, 3), read_strided_data(target, 3), dtype_named(dtype), count,
             {size_in.first, size_in.second}, {size_out.first, size_out.second}, matrix.data(),
             nullptr, fill, torch_threads());
}

}  // namespace

void bind_masks(py::module_& m) { m.def("move_masks", &move); }

}  // namespace visops
