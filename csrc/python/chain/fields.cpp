// Displacement fields, and images and points that follow them.
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "core/chain/make_field.h"
#include "core/warp/fields.h"
#include "python/array.h"
#include "python/bindings.h"
#include "python/chain/chain.h"
#include "python/strided_data.h"
#include "torch/parallel.h"

namespace visops {
namespace {

float* floats_at(py::handle address) { return static_cast<float*>(read_address(address)); }

// Writes fields: (kind, values, height, width, address). One alone shares its axes among threads.
void make_fields(const py::list& given) {
  std::vector<FieldTask> tasks;
  for (const auto& each : given) {
    const auto own = py::cast<py::tuple>(each);
    tasks.push_back({py::cast<std::string>(own[0]),
                     read_fields(own[1]),
                     {py::cast<int64_t>(own[2]), py::cast<int64_t>(own[3])},
                     floats_at(own[4])});
  }
  const py::gil_scoped_release release;
  torch_threads().for_each(static_cast<int64_t>(tasks.size()),
                           [&](size_t i) { make_field(tasks[i], torch_threads()); });
}

// Points [N, 2] of the source where a field [2, *size] puts them.
Doubles move_by_field(const Doubles& points, py::handle field, const std::vector<int64_t>& size) {
  Doubles out({points.shape(0), py::ssize_t{2}});
  invert_field({size.at(0), size.at(1)}, floats_at(field), points.data(), points.shape(0),
               out.mutable_data());
  return out;
}

}  // namespace

void bind_fields(py::module_& m) {
  m.def("make_fields", &make_fields);
  m.def("move_by_field", &move_by_field);
}

}  // namespace visops
