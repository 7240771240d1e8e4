// What the NumPy fronts share: from arrays to raw pointers, with errors that say what to do.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <string_view>
#include <vector>

#include "core/element.h"

namespace visops {

namespace py = pybind11;

// The argument as an ndarray; TypeError naming op and argument for anything else, for a dtype that
// no visops op takes, for a byte order that is not the machine's, and for unaligned data.
py::array array_argument(const char* op, const char* name, py::handle value);

DType dtype_of(const char* op, const char* name, const py::array& array);

// A number, or a sequence of numbers.
std::vector<double> number_list(const char* op, const char* name, py::handle value);

std::string_view text_argument(const char* op, const char* name, py::handle value);

int64_t integer_argument(const char* op, const char* name, py::handle value);

}  // namespace visops
