// Plans of chains: what ops/transforms asks of csrc/core/chain, for the samples of a batch at once.
#include "python/chain/plan.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/chain/color_program.h"
#include "core/chain/run/passes.h"
#include "core/chain/step.h"
#include "core/chain/windows.h"
#include "python/bindings.h"
#include "torch/threads.h"

namespace visops {
namespace {

using Wholes = py::array_t<int64_t, py::array::c_style | py::array::forcecast>;
using Flags = py::array_t<bool, py::array::c_style | py::array::forcecast>;

// Numbers of each sample, [batch, width].
class Columns {
 public:
  Columns(const Doubles& numbers, const ChainPlan& plan, int64_t width)
      : data_(numbers.data()), width_(width) {
    if (numbers.ndim() != 2 || numbers.shape(0) != plan.batch || numbers.shape(1) != width) {
      throw std::invalid_argument("numbers must be [" + std::to_string(plan.batch) + ", " +
                                  std::to_string(width) + "]");
    }
  }
  const double* operator[](int64_t sample) const { return data_ + sample * width_; }

 private:
  const double* data_;
  int64_t width_;
};

// Calls add(builder, sample) for every sample.
template <class Add>
void add_to_each(PlanObject& self, const Add& add) {
  const size_t colors = self.plan.colors.size(), erased = self.plan.erased.size();
  for (int64_t i = 0; i < self.plan.batch; ++i) {
    PlanBuilder builder(self.plan, i, colors, erased);
    add(builder, i);
  }
}

Canvas canvas_at(const Columns& sides, int64_t i) { return {sides[i][0], sides[i][1]}; }

PlanObject make_plan(const Wholes& sizes, int64_t channels, bool exact) {
  if (sizes.ndim() != 2 || sizes.shape(1) != 2) {
    throw std::invalid_argument("sizes must be [B, 2]");
  }
  return {ChainPlan(sizes.data(), sizes.shape(0), channels, exact), {}};
}

// Height and width: floats if all samples have the same, else arrays.
py::tuple canvas_of(const PlanObject& self) {
  const auto& samples = self.plan.samples;
  const Canvas first = samples.empty() ? Canvas{} : samples[0].canvas;
  if (!samples.empty() && std::all_of(samples.begin(), samples.end(), [&](const GeometryState& at) {
        return at.canvas.height == first.height && at.canvas.width == first.width;
      })) {
    return py::make_tuple(first.height, first.width);
  }
  const auto side = [&](double Canvas::* member) {
    return array_of<double>({self.plan.batch}, [&](double* out) {
      for (const GeometryState& at : samples) *out++ = at.canvas.*member;
    });
  };
  return py::make_tuple(side(&Canvas::height), side(&Canvas::width));
}

void scale(PlanObject& self, const Doubles& numbers, const Doubles& sides, bool cuts) {
  const Columns n(numbers, self.plan, 4), after(sides, self.plan, 2);
  add_to_each(self, [&](PlanBuilder& plan, int64_t i) {
    plan.scale(n[i][0], n[i][1], n[i][2], n[i][3], canvas_at(after, i), cuts);
  });
}

void shift(PlanObject& self, const Doubles& numbers, const Doubles& sides, bool cuts) {
  const Columns n(numbers, self.plan, 2), after(sides, self.plan, 2);
  add_to_each(self, [&](PlanBuilder& plan, int64_t i) {
    plan.shift(n[i][0], n[i][1], canvas_at(after, i), cuts);
  });
}

void affine(PlanObject& self, const Doubles& matrices, const Doubles& sides) {
  const Columns m(matrices, self.plan, 6), after(sides, self.plan, 2);
  add_to_each(self, [&](PlanBuilder& plan, int64_t i) {
    double own[6];
    std::copy_n(m[i], 6, own);
    plan.affine(own, canvas_at(after, i));
  });
}

void perspective(PlanObject& self, const Doubles& matrices, const Doubles& sides) {
  const Columns m(matrices, self.plan, 9), after(sides, self.plan, 2);
  add_to_each(self, [&](PlanBuilder& plan, int64_t i) {
    double own[9];
    std::copy_n(m[i], 9, own);
    plan.perspective(own, canvas_at(after, i));
  });
}

// matrices [B, C (C + 1)], weights [B, 1] or None, before as matrices or None
void color(PlanObject& self, const Doubles& matrices, const std::optional<Doubles>& weights,
           const std::optional<Doubles>& before) {
  const int64_t channels = self.plan.channels, size = channels * (channels + 1);
  if (channels > kMostColorChannels) throw std::invalid_argument("at most 4 channels are mixed");
  const Columns m(matrices, self.plan, size);
  std::optional<Columns> w, b;
  if (weights) w.emplace(*weights, self.plan, 1);
  if (before) b.emplace(*before, self.plan, size);
  const auto matrix_of = [&](const Columns& columns, int64_t i) {
    ColorMatrix matrix = {};
    std::copy_n(columns[i], size, matrix.begin());
    return matrix;
  };
  add_to_each(self, [&](PlanBuilder& plan, int64_t i) {
    const ColorMatrix matrix = matrix_of(m, i);
    if (!w) return plan.color(matrix);
    if (!b) return plan.color(matrix, (*w)[i][0]);
    const ColorMatrix first = matrix_of(*b, i);
    plan.color(matrix, (*w)[i][0], &first);
  });
}

void erase(PlanObject& self, const Doubles& rectangles) {
  const Columns r(rectangles, self.plan, 4);
  add_to_each(
      self, [&](PlanBuilder& plan, int64_t i) { plan.erase(r[i][0], r[i][1], r[i][2], r[i][3]); });
}

// What follows applies to the samples for which a condition holds, until finish_if().
void begin_if(PlanObject& self, const Flags& condition) {
  if (condition.ndim() != 1 || condition.shape(0) != self.plan.batch) {
    throw std::invalid_argument("a condition must be [B]");
  }
  std::vector<uint8_t>& left_out = self.plan.left_out;
  self.conditions.push_back({self.plan.samples, left_out});
  left_out.resize(static_cast<size_t>(self.plan.batch));
  for (size_t i = 0; i < left_out.size(); ++i) left_out[i] |= condition.data()[i] ? 0 : 1;
}

void finish_if(PlanObject& self) {
  if (self.conditions.empty()) throw std::invalid_argument("no condition was begun");
  const PlanObject::Condition outside = std::move(self.conditions.back());
  self.conditions.pop_back();
  for (size_t i = 0; i < self.plan.samples.size(); ++i) {
    if (self.plan.left_out[i] != 0) self.plan.samples[i].skip(outside.before[i]);
  }
  self.plan.left_out = outside.left_out;
}

Doubles draw(const PlanObject& self, const ChainStep& step, const Doubles& uniforms) {
  const Columns n(uniforms, self.plan, step.num_uniforms());
  Doubles params({self.plan.batch, step.num_params()});
  draw_step(step, self.plan, n[0], params.mutable_data());
  return params;
}

void extend(PlanObject& self, const ChainStep& step, const Doubles& params) {
  const Columns n(params, self.plan, step.num_params());
  extend_plan(step, n[0], self.plan);
}

// Matrices [B, 2 or 3, 3], as images are sampled: NOTE [ Ties ].
Doubles sampled(const PlanObject& self, bool nearest) {
  const int64_t rows = self.is_projective() ? 3 : 2;
  return array_of<double>({self.plan.batch, rows, 3}, [&](double* out) {
    for (const GeometryState& at : self.plan.samples) {
      at.write_rows(nearest, out);
      out += rows * 3;
    }
  });
}

Doubles matrices(const PlanObject& self) {
  return array_of<double>({self.plan.batch, 3, 3}, [&](double* out) {
    for (const GeometryState& at : self.plan.samples) out = std::copy_n(at.matrix, 9, out);
  });
}

Doubles ties(const PlanObject& self) {
  return array_of<double>({self.plan.batch, 2}, [&](double* out) {
    for (const GeometryState& at : self.plan.samples) out = std::copy_n(at.ties, 2, out);
  });
}

py::object window_of(const std::vector<GeometryState>& samples) {
  if (samples.empty() || !samples[0].has_window) return py::none();
  return array_of<double>({static_cast<py::ssize_t>(samples.size()), 4}, [&](double* out) {
    for (const GeometryState& at : samples) out = std::copy_n(at.window, 4, out);
  });
}

template <class Side>
Wholes sizes_of(const std::vector<GeometryState>& samples, const Side& side) {
  return array_of<int64_t>({static_cast<py::ssize_t>(samples.size()), 2}, [&](int64_t* out) {
    for (const GeometryState& at : samples) {
      *out++ = static_cast<int64_t>(side(at).height);
      *out++ = static_cast<int64_t>(side(at).width);
    }
  });
}

// Height and width as a pair if all samples have the same, else None.
py::object uniform(const std::vector<GeometryState>& samples) {
  if (samples.empty()) return py::none();
  const Canvas& first = samples[0].canvas;
  for (const GeometryState& at : samples) {
    if (at.canvas.height != first.height || at.canvas.width != first.width) return py::none();
  }
  return py::make_tuple(static_cast<int64_t>(first.height), static_cast<int64_t>(first.width));
}

// Rectangles [B, K, 4], or None.
// Which of the pass's interpolations each sample takes, [batch]; None: the first.
py::object modes(const PlanObject& self) {
  const auto& all = self.plan.modes;
  if (all.empty()) return py::none();
  return array_of<int64_t>({self.plan.batch},
                           [&](int64_t* out) { std::copy(all.begin(), all.end(), out); });
}

py::object erased(const PlanObject& self) {
  const auto& all = self.plan.erased;
  if (all.empty()) return py::none();
  const auto count = static_cast<py::ssize_t>(all.size());
  return array_of<int64_t>({self.plan.batch, count, 4}, [&](int64_t* out) {
    for (int64_t i = 0; i < self.plan.batch; ++i) {
      for (const std::vector<double>& rectangles : all) {
        for (int64_t k = 0; k < 4; ++k) {
          *out++ = static_cast<int64_t>(rectangles[static_cast<size_t>(4 * i + k)]);
        }
      }
    }
  });
}

template <class T>
py::array_t<T> array_like(const std::vector<T>& values, std::vector<py::ssize_t> shape) {
  return py::array_t<T>(std::move(shape), values.data());
}

// Elements [B, K, C, C + 1], and weights of each mean [B, K, C].
py::tuple colors_of(const ColorMatrices& colors, const ChainPlan& plan) {
  py::list weights;
  for (const std::vector<double>& own : colors.weights) {
    weights.append(array_like(own, {plan.batch, colors.steps, plan.color_channels()}));
  }
  return py::make_tuple(
      array_like(colors.elements,
                 {plan.batch, colors.steps, plan.color_channels(), plan.color_channels() + 1}),
      weights);
}

// Where a mean is taken: matrices as `sampled`, size or None, sizes [B, 2], window.
py::tuple position_of_mean(const ColorSteps& steps, bool exact, bool nearest) {
  const auto count = static_cast<py::ssize_t>(steps.at.size());
  const int64_t rows = steps.at[0].rows();
  const Doubles matrices = array_of<double>({count, rows, 3}, [&](double* out) {
    for (const GeometryState& at : steps.at) {
      if (exact) {
        at.write_rows(nearest, out);
      } else {
        write_mean_grid(at, out);
      }
      out += rows * 3;
    }
  });
  return py::make_tuple(matrices, uniform(steps.at),
                        sizes_of(steps.at, [](const GeometryState& at) { return at.canvas; }),
                        window_of(steps.at));
}

// Rounds of grey means, each (place, colours or None, plain [B] or None), and all colours.
py::tuple program_of(const PlanObject& self, bool nearest) {
  const ColorProgram program = color_program(self.plan);
  py::list rounds;
  for (const MeanRound& round : program.rounds) {
    const ColorSteps& steps = self.plan.colors[round.step];
    py::object before = py::none(), plain = py::none();
    if (round.before.steps > 0) before = colors_of(round.before, self.plan);
    if (!round.plain.empty()) {
      plain = array_of<bool>({self.plan.batch}, [&](bool* out) {
        for (uint8_t flag : round.plain) *out++ = flag != 0;
      });
    }
    rounds.append(py::make_tuple(position_of_mean(steps, self.plan.exact, nearest), before, plain));
  }
  return py::make_tuple(rounds, colors_of(program.whole, self.plan));
}

// The parts of images that are read: top, left, height, width of each.
py::list windows(const PlanObject& self, double around, double beyond, bool anywhere) {
  py::list out;
  for (const PixelWindow& w : windows_read(self.plan, {around, beyond, anywhere})) {
    out.append(py::make_tuple(w.top, w.left, w.height, w.width));
  }
  return out;
}

// Becomes another plan, for parts of its images: top, left, reduction, height, width of each.
void become_parts(PlanObject& self, const PlanObject& other, const Wholes& parts) {
  if (other.plan.batch != self.plan.batch || parts.ndim() != 2 ||
      parts.shape(0) != self.plan.batch || parts.shape(1) != 5) {
    throw std::invalid_argument("parts must be [B, 5]");
  }
  std::vector<DecodedPart> all;
  for (int64_t i = 0; i < self.plan.batch; ++i) {
    const int64_t* const p = parts.data() + 5 * i;
    all.push_back({p[0], p[1], p[2], p[3], p[4]});
  }
  self = other;
  move_to_parts(all, self.plan);
}

// Any matrices [B, 2 or 3, 3] onto canvases [B, 2].
void set_geometry(PlanObject& self, const Doubles& matrices, const Wholes& sizes) {
  const int64_t rows = matrices.ndim() == 3 ? matrices.shape(1) : 0, batch = self.plan.batch;
  if ((rows != 2 && rows != 3) || matrices.shape(0) != batch || matrices.shape(2) != 3 ||
      sizes.ndim() != 2 || sizes.shape(0) != batch || sizes.shape(1) != 2) {
    throw std::invalid_argument("matrices must be [B, 2 or 3, 3], sizes [B, 2]");
  }
  for (int64_t i = 0; i < batch; ++i) {
    GeometryState& at = self.plan.samples[static_cast<size_t>(i)];
    std::copy_n(matrices.data() + i * rows * 3, rows * 3, at.matrix);
    at.projective = rows == 3;
    at.canvas = {static_cast<double>(sizes.data()[2 * i]),
                 static_cast<double>(sizes.data()[2 * i + 1])};
  }
}

}  // namespace

void bind_plan(py::module_& m) {
  m.attr("GREY") = py::make_tuple(kGrey[0], kGrey[1], kGrey[2]);
  m.attr("MEAN_GRID") = kMeanGrid;
  py::class_<PlanObject>(m, "Plan")
      .def(py::init(&make_plan))
      .def(py::init([] { return PlanObject{ChainPlan(nullptr, 0, 0, false), {}}; }))
      .def_property(
          "image", [](const PlanObject& self) { return self.plan.image; },
          [](PlanObject& self, int64_t image) { self.plan.image = image; })
      .def_property_readonly("batch", [](const PlanObject& self) { return self.plan.batch; })
      .def_property_readonly("channels", [](const PlanObject& self) { return self.plan.channels; })
      .def_property_readonly("exact", [](const PlanObject& self) { return self.plan.exact; })
      .def("canvas_sides", &canvas_of)
      .def("add_scale", &scale)
      .def("add_shift", &shift)
      .def("add_affine", &affine)
      .def("add_perspective", &perspective)
      .def("add_color", &color)
      .def("add_erase", &erase)
      .def("begin_if", &begin_if)
      .def("finish_if", &finish_if)
      .def("draw", &draw)
      .def("add", &extend)
      .def("sampled", &sampled)
      .def_property_readonly("matrices", &matrices)
      .def_property_readonly("ties", &ties)
      .def_property_readonly("window",
                             [](const PlanObject& self) { return window_of(self.plan.samples); })
      .def_property_readonly("erased", &erased)
      .def_property_readonly("modes", &modes)
      .def_property_readonly("has_colors",
                             [](const PlanObject& self) { return !self.plan.colors.empty(); })
      .def_property_readonly("clamps", [](const PlanObject& self) { return self.plan.clamps; })
      .def_property_readonly("source_sizes",
                             [](const PlanObject& self) {
                               return sizes_of(self.plan.samples,
                                               [](const GeometryState& at) { return at.source; });
                             })
      .def_property_readonly("sizes",
                             [](const PlanObject& self) {
                               return sizes_of(self.plan.samples,
                                               [](const GeometryState& at) { return at.canvas; });
                             })
      .def_property_readonly("size",
                             [](const PlanObject& self) { return uniform(self.plan.samples); })
      .def_property_readonly("projective",
                             [](const PlanObject& self) { return self.is_projective(); })
      .def_property_readonly("is_identity",
                             [](const PlanObject& self) {
                               const auto& all = self.plan.samples;
                               return std::all_of(
                                   all.begin(), all.end(),
                                   [](const GeometryState& at) { return at.is_identity(); });
                             })
      .def("color_program", &program_of)
      .def("windows", &windows)
      .def("reductions", [](const PlanObject& self) { return reductions(self.plan); })
      .def("become_parts", &become_parts)
      .def("set_geometry", &set_geometry);
}

namespace {

// Runs one operation on an image [C, H, W], contiguous, uint8 or float32.
void run_operation(int kind, double amount, const std::vector<double>& more, py::handle address,
                   const std::string& dtype, int64_t channels, int64_t height, int64_t width) {
  PixelOperation operation = {static_cast<PixelKind>(kind), amount};
  std::copy_n(more.begin(), std::min<size_t>(more.size(), kMoreNumbers), operation.more);
  const PixelImage image = {read_address(address), dtype_named(dtype), channels, height, width};
  run_unlocked(image.size(), [&] { run_pixel_list({operation}, image, {}, torch_threads()); });
}

// The first operations of all frames of `samples` samples, then all second ones, and so on: for
// each turn arrays of kinds [N], amounts [N] and numbers [N, kMoreNumbers], which are the matrix of
// an affine one and for others what `more` holds. Samples of fewer operations have identities
// behind them.
py::list turns_of(const PlanObject& self, int64_t begin, int64_t samples, int64_t frames) {
  std::vector<std::vector<PixelOperation>> all;
  size_t count = 0;
  for (int64_t i = 0; i < samples * frames && !self.plan.operations.empty(); ++i) {
    all.push_back(operations_of(self.plan, static_cast<size_t>(begin + i / frames), i % frames));
    count = std::max(count, all.back().size());
  }
  const auto batch = static_cast<py::ssize_t>(all.size());
  py::list turns;
  for (size_t turn = 0; turn < count; ++turn) {
    py::array_t<int64_t> kinds(batch);
    py::array_t<double> amounts(batch), numbers({batch, py::ssize_t{kMoreNumbers}});
    std::fill_n(numbers.mutable_data(), numbers.size(), 0.0);
    for (py::ssize_t i = 0; i < batch; ++i) {
      const auto& operations = all[static_cast<size_t>(i)];
      const PixelOperation own =
          turn < operations.size() ? operations[turn] : PixelOperation{PixelKind::kIdentity};
      kinds.mutable_at(i) = static_cast<int64_t>(own.kind);
      amounts.mutable_at(i) = own.amount;
      const bool moves = own.kind == PixelKind::kAffine;
      std::copy_n(moves ? own.matrix : own.more, moves ? 6 : kMoreNumbers,
                  numbers.mutable_data(i, 0));
    }
    turns.append(py::make_tuple(kinds, amounts, numbers));
  }
  return turns;
}

}  // namespace

void bind_pixels(py::module_& m) {
  m.def("run_operation", &run_operation);
  m.def("pixel_turns", &turns_of);
}

}  // namespace visops
