// COCO's run lengths for ops/masks/rle.py: dictionaries as COCO's tools write them, read here. A
// call for few masks is mostly checks of their entries, which take Python longer than the counts.
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <vector>

#include "core/masks/rle_text.h"
#include "python/array.h"
#include "python/bindings.h"

namespace visops {
namespace {

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

}  // namespace visops
