// Targets that move from their own tensors into new ones, as their image moves by plans in turn.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "core/chain/plan.h"
#include "core/chain/targets.h"
#include "python/chain/outline.h"
#include "python/strided_data.h"
#include "python/torch_api.h"

namespace visops {

struct MaskSize {
  int64_t height, width;
};

// Moves masks [N, H, W] by a 3 x 3 matrix into masks of the same dtype. `window` is what may be
// seen of them: x1, y1, x2, y2; null: all.
void move_masks(const StridedData& from, const StridedData& to, DType dtype, int64_t count,
                MaskSize size_in, MaskSize size_out, const double* matrix, const double* window,
                double fill);

// Whether masks of a dtype move without torch, and it can hold this value.
bool holds(DType dtype, double fill);

// Whether boxes [N, 4] are finite and have sides of 0 or more, and some of them lie beyond the
// first pixel: they may be shares of the image's sides otherwise.
bool are_placed_boxes(const TensorView& boxes, BoxFormat format);

// A tensor of bool that says which boxes [N, 4], float32 or float64, have sides and an area of at
// least these; null: all have.
py::object large_rows(const py::object& boxes, BoxFormat format, double least_side,
                      double least_area);

// The entries of a tensor, an array, a list or a tuple with a flag.
py::object selected_entries(const py::object& values, const py::object& flags);

// How a target moves.
struct TargetMove {
  double fill;       // of masks
  double shift;      // of key points' origin
  BoxFormat format;  // of boxes
  bool clips;        // whether boxes end with the image
};

// A target after plans that move it, a new tensor; itself, where nothing does. Key points whose
// visibilities get an entry of their own also return those: which are in sight.
py::object move_target(const Entry& entry, const TensorView& view, const py::object& tensor,
                       const std::vector<const ChainPlan*>& plans, const TargetMove& move,
                       py::object* visible);

}  // namespace visops
