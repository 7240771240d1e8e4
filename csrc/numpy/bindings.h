// One function per operator that has a NumPy front; bindings.cpp calls them all.
#pragma once

#include <pybind11/pybind11.h>

namespace visops {

void bind_affine(pybind11::module_& m);

}  // namespace visops
