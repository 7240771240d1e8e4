// One function per file of this folder that defines something; bindings.cpp calls them all.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/images/pixel.h"
#include "core/numbers/element.h"

namespace visops {

void bind_affine(pybind11::module_& m);
void bind_assignment(pybind11::module_& m);
void bind_augment(pybind11::module_& m);
void bind_chain(pybind11::module_& m);
void bind_fields(pybind11::module_& m);
void bind_files(pybind11::module_& m);
void bind_masks(pybind11::module_& m);
void bind_passes(pybind11::module_& m);
void bind_pipeline(pybind11::module_& m);
void bind_pixels(pybind11::module_& m);
void bind_plan(pybind11::module_& m);
void bind_png(pybind11::module_& m);
void bind_polygons(pybind11::module_& m);
void bind_rle(pybind11::module_& m);
void bind_runs(pybind11::module_& m);
void bind_steps(pybind11::module_& m);
void bind_targets(pybind11::module_& m);

// The kernels of `_native` are those of libvisops, which the package has loaded before.

// Throws std::runtime_error where the library beside this module is missing or of another build.
void take_kernels();

// Whether those are there that chains run on CUDA; the first call loads them.
bool has_cuda_kernels();

namespace kernels_internal {
void on_device(int index, void (*body)(void* context, void* stream), void* context);
}

// body(stream) with a CUDA device as the current one, and its current stream.
template <class Body>
void with_cuda_device(int index, const Body& body) {
  const auto call = [](void* context, void* stream) {
    (*static_cast<const Body*>(context))(stream);
  };
  kernels_internal::on_device(index, call, const_cast<Body*>(&body));
}

// What the NumPy fronts share: arrays to raw pointers, with errors that say what to do.

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

// Tensors that Python hands over as (address, strides), with the name of their dtype. No torch.

inline void* as_pointer(py::handle address) {
  void* const data = PyLong_AsVoidPtr(address.ptr());
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  return data;
}

// The address of a tensor's elements, of which there are some.
inline void* read_address(py::handle address) {
  void* const data = as_pointer(address);
  if (data == nullptr) {
    throw std::invalid_argument(
        "visops: a tensor has no memory; under torch's FakeTensorMode this can't be computed");
  }
  return data;
}

inline StridedData read_strided_data(py::handle pair, size_t rank) {
  const auto both = py::reinterpret_borrow<py::tuple>(pair);
  const py::tuple strides = both[1];
  if (strides.size() != rank) throw std::invalid_argument("a tensor has another rank");
  StridedData data = {as_pointer(both[0]), {}};
  for (size_t i = 0; i < rank; ++i) data.strides[i] = py::cast<int64_t>(strides[i]);
  return data;
}

inline DType dtype_named(const std::string& name) {
  for (DType dtype :
       {DType::kUInt8, DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64}) {
    if (name == dtype_name(dtype)) return dtype;
  }
  throw std::invalid_argument("no images of dtype " + name);
}

}  // namespace visops
