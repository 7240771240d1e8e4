#include "python/bindings.h"

#include "core/check.h"

namespace visops {
namespace {

template <class... Parts>
[[noreturn]] void type_error(const char* op, const Parts&... parts) {
  std::ostringstream message;
  message << "visops." << op << ": ";
  (message << ... << parts);
  throw py::type_error(message.str());
}

std::string type_name(py::handle value) { return Py_TYPE(value.ptr())->tp_name; }

double to_double(const char* op, const char* name, py::handle value) {
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    type_error(op, name, " holds a ", type_name(value), ", must be a number or one per channel");
  }
  return number;
}

py::array array_argument(const char* op, const char* name, py::handle value) {
  if (!py::isinstance<py::array>(value)) {
    type_error(op, name, " is a ", type_name(value), ", must be a numpy.ndarray or a torch.Tensor");
  }
  return py::reinterpret_borrow<py::array>(value);
}

bool is_native(const py::array& array) {
  const char order = array.dtype().byteorder();
  return order == '=' || order == '|';
}

bool is_aligned(const py::array& array) {
  const int flags = py::detail::array_proxy(array.ptr())->flags;
  bool aligned = (flags & py::detail::npy_api::NPY_ARRAY_ALIGNED_) != 0;
  for (py::ssize_t d = 0; d < array.ndim() && array.itemsize() > 0; ++d) {
    aligned = aligned && array.strides(d) % array.itemsize() == 0;
  }
  return aligned;
}

}  // namespace

py::array input_argument(const char* op, const char* name, py::handle value) {
  const py::array array = array_argument(op, name, value);
  if (is_native(array) && is_aligned(array)) return array;
  return array.attr("astype")(array.dtype().attr("newbyteorder")("="), "C");
}

py::array output_argument(const char* op, const char* name, py::handle value) {
  py::array array = array_argument(op, name, value);
  if (!is_native(array)) {
    type_error(op, name, " has byte order '", array.dtype().byteorder(),
               "', must have this machine's");
  }
  if (!is_aligned(array)) type_error(op, name, " is not aligned to its element size");
  return array;
}

DType dtype_of(const char* op, const char* name, const py::array& array) {
  const auto dtype = array.dtype();
  const auto size = dtype.itemsize();
  switch (dtype.kind()) {
    case 'b': return DType::kBool;
    case 'u':
      if (size == 1) return DType::kUInt8;
      if (size == 2) return DType::kUInt16;
      break;
    case 'i':
      if (size == 1) return DType::kInt8;
      if (size == 2) return DType::kInt16;
      if (size == 4) return DType::kInt32;
      if (size == 8) return DType::kInt64;
      break;
    case 'f':
      if (size == 2) return DType::kFloat16;
      if (size == 4) return DType::kFloat32;
      if (size == 8) return DType::kFloat64;
      break;
    default: break;
  }
  type_error(op, name, " has dtype ", py::str(dtype).cast<std::string>(),
             ", which is not supported");
}

std::vector<double> number_list(const char* op, const char* name, py::handle value) {
  if (PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr())) return {to_double(op, name, value)};
  if (PyUnicode_Check(value.ptr()) || !PySequence_Check(value.ptr())) {
    return {to_double(op, name, value)};
  }
  // Zero-dimensional arrays and tensors claim to be sequences but have no length.
  const Py_ssize_t count = PySequence_Size(value.ptr());
  if (count < 0) {
    PyErr_Clear();
    return {to_double(op, name, value)};
  }
  std::vector<double> numbers;
  numbers.reserve(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    const auto item = py::reinterpret_steal<py::object>(PySequence_GetItem(value.ptr(), i));
    if (!item) throw py::error_already_set();
    numbers.push_back(to_double(op, name, item));
  }
  return numbers;
}

std::string_view text_argument(const char* op, const char* name, py::handle value) {
  Py_ssize_t size = 0;
  const char* text =
      PyUnicode_Check(value.ptr()) ? PyUnicode_AsUTF8AndSize(value.ptr(), &size) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    type_error(op, name, " is a ", type_name(value), ", must be a string");
  }
  return {text, static_cast<size_t>(size)};
}

int64_t integer_argument(const char* op, const char* name, py::handle value) {
  const Py_ssize_t number = PyNumber_AsSsize_t(value.ptr(), PyExc_OverflowError);
  if (number == -1 && PyErr_Occurred() != nullptr) {
    const bool overflow = PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
    PyErr_Clear();
    if (overflow) fail(op, name, " does not fit 64 bits");
    type_error(op, name, " is a ", type_name(value), ", must be an integer");
  }
  return number;
}

}  // namespace visops
