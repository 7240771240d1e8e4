// Steps of chains, and their parameters as arrays by name.
#include <pybind11/stl.h>
#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "core/chain/make_field.h"
#include "core/chain/step.h"
#include "core/warp/fields.h"
#include "python/bindings.h"
#include "python/chain/chain.h"
#include "torch/threads.h"

namespace visops {

py::dict unpacked_params(const ChainStep& step, const double* first, py::ssize_t batch) {
  const py::ssize_t all = step.num_params();
  py::dict out;
  for (const ParamSpec& spec : step.params()) {
    const py::ssize_t width = spec.width == 0 ? 1 : spec.width;
    std::vector<py::ssize_t> shape = {batch};
    if (spec.width > 0) shape.push_back(width);
    const auto column = [&](auto* to) {
      for (py::ssize_t i = 0; i < batch; ++i) {
        for (py::ssize_t k = 0; k < width; ++k) {
          *to++ = static_cast<std::remove_reference_t<decltype(*to)>>(first[i * all + k]);
        }
      }
    };
    const py::str name(spec.name);
    if (spec.type == ParamSpec::kFlag) {
      out[name] = array_of<bool>(shape, column);
    } else if (spec.type == ParamSpec::kWhole) {
      out[name] = array_of<int64_t>(shape, column);
    } else {
      out[name] = array_of<double>(shape, column);
    }
    first += width;
  }
  return out;
}

namespace {

py::dict unpack(const ChainStep& step, const Doubles& numbers) {
  if (numbers.ndim() != 2 || numbers.shape(1) != step.num_params()) {
    throw std::invalid_argument("numbers must be [B, " + std::to_string(step.num_params()) + "]");
  }
  return unpacked_params(step, numbers.data(), numbers.shape(0));
}

py::list names_of(const ChainStep& step) {
  py::list names;
  for (const ParamSpec& spec : step.params()) names.append(spec.name);
  return names;
}

// What isn't taken would be lost: a transform with other arguments has recorded it.
void reject_others(const ChainStep& step, const py::dict& params) {
  const py::list names = names_of(step);
  for (const auto& [name, values] : params) {
    if (names.contains(name)) continue;
    throw std::invalid_argument(
        "visops.transforms: params has '" + py::cast<std::string>(py::str(name)) +
        "', which this chain's transform does not draw with its arguments; must have " +
        py::cast<std::string>(py::str(names)));
  }
}

// Undoes unpack(); an entry may also be one number for all samples.
Doubles pack(const ChainStep& step, const py::dict& params, py::ssize_t batch) {
  reject_others(step, params);
  const py::ssize_t all = step.num_params();
  Doubles out({batch, all});
  double* first = out.mutable_data();
  for (const ParamSpec& spec : step.params()) {
    const py::str name(spec.name);
    if (!params.contains(name)) {
      throw std::invalid_argument("visops.transforms: params has no '" + spec.name +
                                  "', must have what a call has returned");
    }
    const Doubles values = Doubles::ensure(params[name]);
    if (!values) {
      const std::string kind = py::str(py::type::of(params[name]).attr("__name__"));
      throw py::type_error("visops.transforms: params has a " + kind + " as '" + spec.name +
                           "', must have numbers");
    }
    const py::ssize_t width = spec.width == 0 ? 1 : spec.width;
    if (values.size() != batch * width && values.size() != width) {
      throw std::invalid_argument("visops.transforms: params has " + std::to_string(values.size()) +
                                  " numbers as '" + spec.name + "', must have " +
                                  std::to_string(batch * width));
    }
    const py::ssize_t step_of_sample = values.size() == batch * width ? width : 0;
    for (py::ssize_t i = 0; i < batch; ++i) {
      std::copy_n(values.data() + i * step_of_sample, width, first + i * all);
    }
    first += width;
  }
  return out;
}

}  // namespace

StepFields read_fields(const py::dict& given) {
  StepFields fields;
  for (const auto& [name, value] : given) {
    if (value.is_none()) continue;
    auto& numbers = fields[py::cast<std::string>(name)];
    if (py::isinstance<py::sequence>(value)) {
      numbers = py::cast<std::vector<double>>(value);
    } else {
      numbers = {py::cast<double>(value)};
    }
  }
  return fields;
}

void bind_steps(py::module_& m) {
  py::class_<ChainStep, std::shared_ptr<ChainStep>>(m, "Step")
      .def(py::init([](const std::string& name, const py::dict& fields) {
        return std::const_pointer_cast<ChainStep>(make_step(name, read_fields(fields)));
      }))
      .def_static(
          "choice",
          [](const std::string& param, const std::vector<double>& ends,
             const std::vector<std::vector<std::shared_ptr<ChainStep>>>& groups) {
            std::vector<std::vector<StepPointer>> steps;
            for (const auto& group : groups) steps.emplace_back(group.begin(), group.end());
            return std::const_pointer_cast<ChainStep>(make_choice(param, ends, std::move(steps)));
          })
      .def_static("interpolated",
                  [](const std::shared_ptr<ChainStep>& step, int64_t count) {
                    return std::const_pointer_cast<ChainStep>(make_interpolated(step, count));
                  })
      .def_property_readonly("num_uniforms", &ChainStep::num_uniforms)
      .def_property_readonly("num_params", &ChainStep::num_params)
      .def_property_readonly("names", &names_of)
      .def("unpack", &unpack)
      .def("pack", &pack);
}

namespace {

// Displacement fields, and images and points that follow them.

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
