// Tensors that Python hands over as (address, strides), with the name of their dtype. No torch.
#pragma once

#include <stdexcept>
#include <string>

#include "core/check.h"
#include "core/images/strided_data.h"
#include "python/array.h"

namespace visops {

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
