// One function per file of this folder that defines something; bindings.cpp calls them all.
#pragma once

#include <pybind11/pybind11.h>

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

}  // namespace visops
