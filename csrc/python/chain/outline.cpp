#include "python/chain/outline.h"

#include <pybind11/gil_safe_call_once.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <utility>

#include "python/torch_api.h"

namespace visops {
namespace {

constexpr size_t kMostKnown = 64;

// What marks the parts of a structure.
enum Mark : uintptr_t { kDict, kTuple, kImages, kRank, kType, kArray, kPicture, kSequence, kAtoms };

// What Python says of types: ops/transforms/sample/.
struct Types {
  py::object atoms, tv_kind, is_pil, may_be_image;
  std::set<PyTypeObject*> plain;  // types without parts

  Types() {
    const py::module_ names = py::module_::import("visops.transforms.sample.names");
    const py::module_ leaf = py::module_::import("visops.transforms.sample.leaf");
    atoms = names.attr("ATOMS");
    tv_kind = leaf.attr("tv_kind");
    is_pil = leaf.attr("is_pil");
    may_be_image = py::module_::import("visops.transforms.sample.images").attr("may_be_image");
    for (py::handle type : names.attr("PLAIN_ATOMS")) {
      plain.insert(reinterpret_cast<PyTypeObject*>(type.ptr()));
    }
  }
};

const Types& types() {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<Types> found;
  return found.call_once_and_store_result([] { return Types(); }).get_stored();
}

bool is_type(const py::object& value, PyTypeObject* type) {
  return value.ptr() == reinterpret_cast<PyObject*>(type);
}

Entry entry_of(py::handle entry) {
  const auto kind = entry.attr("kind").cast<std::string>();
  return {entry.attr("holder").cast<size_t>(),
          entry.attr("key"),
          entry.attr("name").cast<std::string>(),
          entry.attr("rank").cast<int>(),
          kind == "mask"    ? TargetKind::kMask
          : kind == "boxes" ? TargetKind::kBoxes
                            : TargetKind::kKeypoints,
          entry.attr("per_box").cast<bool>(),
          entry.attr("flagged").cast<bool>()};
}

std::vector<Entry> entries_of(py::handle entries) {
  std::vector<Entry> out;
  for (py::handle entry : entries) out.push_back(entry_of(entry));
  return out;
}

}  // namespace

Outline::Outline(py::handle outline)
    : is_dict(is_type(outline.attr("container"), &PyDict_Type)),
      is_tuple(is_type(outline.attr("container"), &PyTuple_Type)),
      nested(outline.attr("nested").cast<std::vector<size_t>>()),
      image(entry_of(outline.attr("image"))),
      targets(entries_of(outline.attr("targets"))),
      labels(entries_of(outline.attr("labels"))),
      arrays(entries_of(outline.attr("arrays"))),
      boxes(-1) {
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].target == TargetKind::kBoxes) boxes = static_cast<int>(i);
  }
}

std::vector<py::object> holders_of(const Outline& outline, py::handle sample) {
  std::vector<py::object> holders = {py::reinterpret_borrow<py::object>(sample)};
  for (size_t position : outline.nested) {
    holders.push_back(py::reinterpret_borrow<py::object>(
        PyTuple_GET_ITEM(sample.ptr(), static_cast<Py_ssize_t>(position))));
  }
  return holders;
}

bool is_buffer(py::handle value) {
  PyObject* const own = value.ptr();
  return PyBytes_CheckExact(own) || PyByteArray_CheckExact(own) || PyMemoryView_Check(own);
}

bool is_plain_type(PyTypeObject* type) { return types().plain.count(type) != 0; }

// Reads what decides what the values of a sample are. Each function returns false where their
// contents do.
class Outlines::Reader {
 public:
  explicit Reader(Outlines& outlines) : outlines_(outlines) {}

  bool read(py::handle sample) {
    PyObject* const own = sample.ptr();
    if (PyDict_CheckExact(own)) return read_dict(own);
    if (PyTuple_CheckExact(own)) {
      mark(kTuple, static_cast<uintptr_t>(PyTuple_GET_SIZE(own)));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(own); ++i) {
        PyObject* const value = PyTuple_GET_ITEM(own, i);
        if (!(PyDict_CheckExact(value) ? read_dict(value) : read_value(value, nullptr))) {
          return false;
        }
      }
      return true;
    }
    if (PyList_CheckExact(own)) {
      structure.push_back(kImages);
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(own); ++i) {
        if (!may_be_image(PyList_GET_ITEM(own, i))) return false;
      }
      return PyList_GET_SIZE(own) > 0;
    }
    return read_value(own, nullptr);
  }

  Structure structure;
  std::vector<py::object> held;

 private:
  void mark(Mark what, uintptr_t number) {
    structure.push_back(what);
    structure.push_back(number);
  }

  void mark_type(Mark what, PyObject* value) {
    PyTypeObject* const type = Py_TYPE(value);
    hold(reinterpret_cast<PyObject*>(type));
    mark(what, reinterpret_cast<uintptr_t>(type));
  }

  void hold(PyObject* object) { held.push_back(py::reinterpret_borrow<py::object>(object)); }

  // A text by one address, however often it was made.
  uintptr_t address_of(PyObject* text) {
    Py_INCREF(text);
    PyUnicode_InternInPlace(&text);
    held.push_back(py::reinterpret_steal<py::object>(text));
    return reinterpret_cast<uintptr_t>(text);
  }

  bool read_dict(PyObject* sample) {
    mark(kDict, static_cast<uintptr_t>(PyDict_GET_SIZE(sample)));
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    const py::object whole = py::reinterpret_borrow<py::object>(sample);
    const Py_ssize_t size = PyDict_GET_SIZE(sample);
    while (PyDict_Next(sample, &position, &key, &value) != 0) {
      if (!PyUnicode_CheckExact(key)) return false;
      const py::object own_key = py::reinterpret_borrow<py::object>(key);
      const py::object own_value = py::reinterpret_borrow<py::object>(value);
      structure.push_back(address_of(key));
      if (!read_value(value, outlines_.kind_of(key))) return false;
      if (PyDict_GET_SIZE(sample) != size) return false;  // another thread has changed it
    }
    return true;
  }

  void learn(PyTypeObject* type) {
    Py_INCREF(type);  // kept as long as the process
    const std::lock_guard<std::mutex> lock(outlines_.mutex_);
    outlines_.typed_.insert(type);
  }

  // What decides what a value is, besides its name.
  bool read_value(PyObject* value, PyObject* kind) {
    PyTypeObject* const type = Py_TYPE(value);
    if (is_plain_tensor(value)) {
      mark(kRank, static_cast<uintptr_t>(rank_of_tensor(value)));
      return true;
    }
    const bool is_whole = is_plain_type(type) || is_kind(kind, "other") || is_buffer(value);
    if (is_whole || outlines_.is_typed(value)) {
      mark_type(kType, value);
      return true;
    }
    if (PyList_CheckExact(value) || PyTuple_CheckExact(value)) return read_sequence(value, kind);
    if (is_tensor(value)) {
      if (types().tv_kind(py::handle(value)).is_none()) {
        mark_type(kType, value);
        mark(kRank, static_cast<uintptr_t>(rank_of_tensor(as_plain_tensor(value))));
      } else {
        learn(type);
        mark_type(kType, value);
      }
      return true;
    }
    if (py::isinstance<py::array>(value)) {
      const auto array = py::reinterpret_borrow<py::array>(value);
      const char dtype = array.dtype().kind();
      mark_type(kArray, value);
      mark(kRank, static_cast<uintptr_t>(array.ndim()));
      structure.push_back(static_cast<uintptr_t>(dtype));
      return dtype != 'O';
    }
    if (types().is_pil(py::handle(value)).cast<bool>()) {
      mark_type(kPicture, value);
      structure.push_back(address_of(py::object(py::handle(value).attr("mode")).ptr()));
      return true;
    }
    const int is_atom = PyObject_IsInstance(value, types().atoms.ptr());
    if (is_atom < 0) throw py::error_already_set();
    mark_type(kType, value);
    return is_atom != 0;
  }

  bool read_sequence(PyObject* value, PyObject* kind) {
    if (is_kind(kind, "image")) {
      mark_type(kSequence, value);
      return true;
    }
    mark_type(kAtoms, value);
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (!is_plain_type(Py_TYPE(PySequence_Fast_GET_ITEM(value, i)))) return false;
    }
    return true;
  }

  static bool is_kind(PyObject* kind, const char* name) {
    return kind != nullptr && PyUnicode_CompareWithASCIIString(kind, name) == 0;
  }

  bool may_be_image(PyObject* value) {
    if (is_plain_tensor(value)) return rank_of_tensor(value) >= 3;
    const bool may_be = types().may_be_image(py::handle(value)).cast<bool>();
    if (may_be && is_tensor(value) && !types().tv_kind(py::handle(value)).is_none()) {
      learn(Py_TYPE(value));
    }
    return may_be;
  }

  Outlines& outlines_;
};

PyObject* Outlines::kind_of(py::handle key) const {
  PyObject* const kind = PyDict_GetItemWithError(kinds_.ptr(), key.ptr());
  if (kind == nullptr && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return kind;
}

bool Outlines::is_typed(py::handle value) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return typed_.count(Py_TYPE(value.ptr())) != 0;
}

std::shared_ptr<const Outline> Outlines::find(py::handle sample,
                                              const std::function<py::object()>& outline_of) {
  Reader reader(*this);
  if (!reader.read(sample)) return nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = known_.find(reader.structure);
    if (found != known_.end()) return found->second.outline;
  }
  const py::object made = outline_of();
  std::shared_ptr<const Outline> outline;
  if (!made.is_none()) outline = std::make_shared<const Outline>(made);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (known_.size() >= kMostKnown) known_.clear();
  known_[reader.structure] = {outline, std::move(reader.held)};
  return outline;
}

}  // namespace visops
