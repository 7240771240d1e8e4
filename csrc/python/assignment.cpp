// Assignments for ops/deformable/match.py.
#include "core/numbers/assignment.h"

#include <pybind11/numpy.h>

#include <limits>
#include <vector>

#include "python/bindings.h"

namespace visops {
namespace {

// Solves several problems, each a matrix of `shapes` [N, 2] in turn of `costs`. Returns rows and
// columns of all pairs, and for each problem why there are none: 0 there are, 1 a cost is NaN or
// -inf, 2 too many pairs are forbidden.
py::tuple solve_assignments(const Doubles& costs,
                            const py::array_t<int64_t, py::array::c_style>& shapes) {
  const py::ssize_t count = shapes.shape(0);
  const double* matrix = costs.data();
  const int64_t* const shape = shapes.data();
  std::vector<int64_t> rows, columns, problems;
  {
    const py::gil_scoped_release release;
    for (py::ssize_t i = 0; i < count; ++i) {
      const int64_t height = shape[2 * i], width = shape[2 * i + 1];
      const int64_t elements = height * width;
      int64_t wrong = 0;
      for (int64_t k = 0; k < elements; ++k) {
        wrong += matrix[k] > -std::numeric_limits<double>::infinity() ? 0 : 1;  // so is NaN
      }
      const bool good = wrong == 0;
      std::vector<int64_t> own_rows, own_columns;
      const bool solved = good && solve_assignment(matrix, height, width, &own_rows, &own_columns);
      problems.push_back(solved ? 0 : good ? 2 : 1);
      if (solved) {
        rows.insert(rows.end(), own_rows.begin(), own_rows.end());
        columns.insert(columns.end(), own_columns.begin(), own_columns.end());
      }
      matrix += elements;
    }
  }
  return py::make_tuple(array_of(rows), array_of(columns), array_of(problems));
}

}  // namespace

void bind_assignment(py::module_& m) { m.def("solve_assignments", &solve_assignments); }

}  // namespace visops
