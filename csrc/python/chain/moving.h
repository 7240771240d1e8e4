// Targets that move from their own tensors into new ones, as their image moves by plans in turn.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "core/chain/moving.h"
#include "python/bindings.h"
#include "python/chain/outline.h"
#include "python/torch_api.h"

namespace visops {

// A tensor of bool that says which boxes [N, 4], float32 or float64, have sides and an area of at
// least these; null: all have.
py::object large_rows(const py::object& boxes, BoxFormat format, double least_side,
                      double least_area);

// The entries of a tensor, an array, a list or a tuple with a flag.
py::object selected_entries(const py::object& values, const py::object& flags);

// A target after plans that move it, a new tensor; itself, where nothing does. Key points whose
// visibilities get an entry of their own also return those: which are in sight.
py::object move_target(const Entry& entry, const TensorView& view, const py::object& tensor,
                       const std::vector<const ChainPlan*>& plans, const TargetMove& move,
                       py::object* visible);

}  // namespace visops
