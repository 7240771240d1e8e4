// What the samples of a data set have in common: the same keys, and the same types and ranks under
// them. Python splits the first sample of each structure (ops/transforms/sample/outlines.py); what
// that says of its entries holds for all others, as long as nothing else decides it. Where it looks
// into a value (a list of dicts, an object with attributes), a sample has no outline.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace visops {

namespace py = pybind11;

enum class TargetKind { kMask, kBoxes, kKeypoints };

// One value of a sample.
struct Entry {
  size_t holder;  // 0: the sample; then the dicts in it
  py::object key;
  std::string name;
  int rank;           // how many dimensions it has
  TargetKind target;  // of entries that move
  bool per_box;
  bool flagged;  // key points whose visibilities get an entry of their own
};

struct Outline {
  bool is_dict, is_tuple;      // neither: an image by itself
  std::vector<size_t> nested;  // places of the dicts in a tuple
  Entry image;
  std::vector<Entry> targets, labels;
  std::vector<Entry> arrays;  // of fewer than two dimensions
  int boxes;                  // which of the targets; -1: none

  explicit Outline(py::handle outline);  // Python's
  bool is_alone() const { return !is_dict && !is_tuple; }
};

// A sample and the dicts in it.
std::vector<py::object> holders_of(const Outline& outline, py::handle sample);

// Whether this is the content of a file.
bool is_buffer(py::handle value);

// Whether values of a type have no parts that could move: numbers, texts, bytes, None.
bool is_plain_type(PyTypeObject* type);

class Outlines {
 public:
  explicit Outlines(py::dict kinds) : kinds_(std::move(kinds)) {}

  // The kind that a dict's key stands for, a text; null: none.
  PyObject* kind_of(py::handle key) const;
  // Whether it is of a type of tv_tensors that a sample has had.
  bool is_typed(py::handle value) const;
  // The outline of a sample, or null. `outline_of` is called for the first sample of a structure,
  // and returns its outline or None.
  std::shared_ptr<const Outline> find(py::handle sample,
                                      const std::function<py::object()>& outline_of);

 private:
  // Types and ranks as numbers. Their objects are held once a structure is known.
  using Structure = std::vector<uintptr_t>;
  struct Known {
    std::shared_ptr<const Outline> outline;
    std::vector<py::object> held;
  };

  class Reader;

  py::dict kinds_;
  mutable std::mutex mutex_;  // Python without its global lock calls from several threads
  std::map<Structure, Known> known_;
  std::set<PyTypeObject*> typed_;  // types of tv_tensors, once met
};

}  // namespace visops
