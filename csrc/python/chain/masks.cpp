// Masks of ops/transforms/targets/masks.py: the nearest pixel, or `fill`. A single mask is small,
// and most of its time would go into a call through torch's dispatcher.
#include <pybind11/stl.h>

#include <string>
#include <utility>

#include "core/chain/moving.h"
#include "python/array.h"
#include "python/bindings.h"
#include "python/strided_data.h"
#include "torch/parallel.h"

namespace visops {
namespace {

// Masks are given as address and strides, which the caller owns.
void move(py::handle source, py::handle target, const std::string& dtype, int64_t count,
          std::pair<int64_t, int64_t> size_in, std::pair<int64_t, int64_t> size_out,
          const py::array_t<double, py::array::c_style>& matrix, double fill) {
  if (matrix.size() != 9) throw std::invalid_argument("the matrix must be [3, 3]");
  move_masks(read_strided_data(source, 3), read_strided_data(target, 3), dtype_named(dtype), count,
             {size_in.first, size_in.second}, {size_out.first, size_out.second}, matrix.data(),
             nullptr, fill, torch_threads());
}

}  // namespace

void bind_masks(py::module_& m) { m.def("move_masks", &move); }

}  // namespace visops
