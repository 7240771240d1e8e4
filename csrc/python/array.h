// What the NumPy fronts share: arrays to raw pointers, with errors that say what to do.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <string_view>
#include <utility>
#include <vector>

#include "core/numbers/element.h"

namespace visops {

namespace py = pybind11;

// The argument as an ndarray that kernels can read: in place, or a copy of an array with foreign
// byte order, unaligned data or strides that are not multiples of the element size. TypeError
// naming op and argument for anything else.
py::array input_argument(const char* op, const char* name, py::handle value);

// The argument as an ndarray that kernels can write to; TypeError where input_argument() would
// copy.
py::array output_argument(const char* op, const char* name, py::handle value);

// TypeError for a dtype that no visops op takes.
DType dtype_of(const char* op, const char* name, const py::array& array);

using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;

// A new array, into whose elements fill() writes.
template <class T, class Fill>
py::array_t<T> array_of(std::vector<py::ssize_t> shape, const Fill& fill) {
  py::array_t<T> out(std::move(shape));
  fill(out.mutable_data());
  return out;
}

// The same, of values that are there already.
template <class T>
py::array_t<T> array_of(const std::vector<T>& values, std::vector<py::ssize_t> shape) {
  return py::array_t<T>(std::move(shape), values.data());
}
template <class T>
py::array_t<T> array_of(const std::vector<T>& values) {
  return array_of(values, {static_cast<py::ssize_t>(values.size())});
}

// A number, or a sequence of numbers.
std::vector<double> number_list(const char* op, const char* name, py::handle value);

std::string_view text_argument(const char* op, const char* name, py::handle value);

int64_t integer_argument(const char* op, const char* name, py::handle value);

// run(), a kernel over so many elements, without the interpreter's lock; but with fewer, a call
// ends before another thread could use the interpreter.
template <class Run>
void run_unlocked(int64_t elements, const Run& run) {
  constexpr int64_t kKeepGil = 16384;
  if (elements < kKeepGil) return run();
  const py::gil_scoped_release release;
  run();
}

}  // namespace visops
