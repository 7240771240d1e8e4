#include "python/chain/chain.h"

#include <pybind11/gil_safe_call_once.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "core/chain/color_program.h"
#include "core/images/image_front.h"
#include "python/bindings.h"
#include "python/chain/plan.h"
#include "torch/threads.h"

namespace visops {
namespace {

constexpr const char* kOp = "augment";

using Numbers = std::vector<double>;

// Images as (address, strides) of a batch [B, C, H, W] or, in a list, of each image [C, H, W].
AugmentParams images_of(py::handle images, DType dtype, const ChainPlan& plan,
                        std::vector<AugmentImage>& list) {
  AugmentParams p = {};
  p.batch = plan.batch;
  p.channels = plan.channels;
  p.dtype = dtype;
  const auto height = [&](size_t i) { return static_cast<int64_t>(plan.samples[i].source.height); };
  const auto width = [&](size_t i) { return static_cast<int64_t>(plan.samples[i].source.width); };
  if (py::isinstance<py::tuple>(images)) {
    const StridedData data = read_strided_data(images, 4);
    const auto& strides = data.strides;
    p.first = {data.address, height(0), width(0), strides[1], strides[2], strides[3]};
    p.image_batch_stride = strides[0];
    return p;
  }
  for (py::handle image : images) {
    const StridedData data = read_strided_data(image, 3);
    const auto& strides = data.strides;
    const size_t i = list.size();
    if (i == plan.samples.size()) throw std::invalid_argument("another batch");
    list.push_back({data.address, height(i), width(i), strides[0], strides[1], strides[2]});
  }
  if (static_cast<int64_t>(list.size()) != plan.batch) throw std::invalid_argument("another batch");
  p.list = list.data();
  return p;
}

}  // namespace

uint64_t low_word(py::handle number) {
  const uint64_t word = PyLong_AsUnsignedLongLongMask(number.ptr());
  if (word == ~uint64_t{0} && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return word;
}

uint64_t call_key(uint64_t seed, uint64_t epoch, uint64_t worker, uint64_t number) {
  // The counter's last word is 0 for samples with an index.
  return philox(seed, epoch, {{1, number, 0, 1 + worker}}).word[0];
}

Chain::Chain(const py::list& steps, const std::vector<std::string>& interpolations,
             const std::string& padding_mode, Numbers fill, bool antialias, bool saturates,
             bool window)
    : sampling_{{},    parse_padding(kOp, padding_mode), std::move(fill), antialias, saturates,
                window} {
  for (const std::string& name : interpolations) {
    sampling_.modes.push_back(parse_sampling(kOp, name));
  }
  for (py::handle each : steps) {
    const auto pair = py::cast<py::tuple>(each);
    const auto first = py::cast<int64_t>(pair[1]);
    if (py::isinstance<py::int_>(pair[0])) {
      steps_.push_back({nullptr, first, py::cast<int64_t>(pair[0])});
    } else {
      const auto step = py::cast<std::shared_ptr<ChainStep>>(pair[0]);
      steps_.push_back({step, first, step->num_uniforms()});
    }
  }
}

namespace {

// Uniform numbers [batch, count] of samples, column by column.
py::array_t<double, py::array::f_style> columns_of(std::vector<Uniforms>& samples, int64_t first,
                                                   int64_t count) {
  const auto batch = static_cast<int64_t>(samples.size());
  py::array_t<double, py::array::f_style> numbers({batch, count});
  double* const to = numbers.mutable_data();
  for (int64_t i = 0; i < batch; ++i) {
    for (int64_t k = 0; k < count; ++k) {
      to[k * batch + i] = samples[static_cast<size_t>(i)][first + k];
    }
  }
  return numbers;
}

// A plan that Python holds for as long as this lives.
class LentPlan {
 public:
  LentPlan(ChainPlan& plan, py::object holder) : plan_(plan), holder_(std::move(holder)) { swap(); }
  ~LentPlan() { swap(); }
  LentPlan(const LentPlan&) = delete;
  LentPlan& operator=(const LentPlan&) = delete;
  py::handle holder() const { return holder_; }

 private:
  void swap() { std::swap(plan_, holder_.cast<PlanObject&>().plan); }

  ChainPlan& plan_;
  py::object holder_;
};

// ops/transforms/chain/plan.py
const py::object& empty_plan() {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::object> made;
  return made
      .call_once_and_store_result(
          [] { return py::module_::import("visops.transforms.chain.plan").attr("empty_plan"); })
      .get_stored();
}

}  // namespace

bool Chain::calls_python() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Member& own) { return own.step == nullptr; });
}

py::object Chain::unpacked(size_t i, const Drawn& drawn, py::ssize_t batch) const {
  if (steps_.at(i).step == nullptr) return drawn.params;
  return unpacked_params(*steps_[i].step, drawn.numbers.data(), batch);
}

void Chain::draw(ChainPlan& plan, std::vector<Uniforms>& uniforms, std::vector<Drawn>* drawn,
                 py::handle in_python) const {
  Numbers scratch;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const auto& [step, first, count] = steps_[i];
    if (drawn != nullptr) drawn->emplace_back();
    if (step == nullptr) {
      const LentPlan lent(plan, empty_plan()());
      py::object params = in_python(i, lent.holder(), columns_of(uniforms, first, count));
      if (drawn != nullptr) drawn->back().params = std::move(params);
      continue;
    }
    Numbers& params = drawn == nullptr ? scratch : drawn->back().numbers;
    params.resize(static_cast<size_t>(plan.batch * step->num_params()));
    draw_step(*step, plan, uniforms, first, params.data());
    extend_plan(*step, params.data(), plan);
  }
}

namespace {

// Draws for a plan that Python holds. Returns the parameters of each step by name, where they are
// wanted.
py::object draw(const Chain& chain, PlanObject& self, py::handle seed, py::handle epoch,
                const py::sequence& indices, bool record, py::handle in_python) {
  if (static_cast<int64_t>(indices.size()) != self.plan.batch) {
    throw std::invalid_argument("an index per sample is needed");
  }
  const uint64_t first = low_word(seed), second = low_word(epoch);
  std::vector<Uniforms> uniforms;
  uniforms.reserve(indices.size());
  for (py::handle index : indices) uniforms.emplace_back(first, second, low_word(index));
  std::vector<Drawn> drawn;
  const auto work = [&] { chain.draw(self.plan, uniforms, record ? &drawn : nullptr, in_python); };
  if (self.plan.batch == 1 || chain.calls_python()) {
    work();
  } else {
    const py::gil_scoped_release release;
    work();
  }
  if (!record) return py::none();
  py::list out;
  const auto batch = static_cast<py::ssize_t>(self.plan.batch);
  for (size_t i = 0; i < drawn.size(); ++i) out.append(chain.unpacked(i, drawn[i], batch));
  return out;
}

}  // namespace

py::array_t<double> Chain::colors(const PlanObject& self, py::handle images,
                                  const std::string& dtype) const {
  const ChainPlan& plan = self.plan;
  std::vector<AugmentImage> list;
  const AugmentParams image = images_of(images, dtype_named(dtype), plan, list);
  Numbers color;
  run_unlocked(plan.batch * kMeanGrid * kMeanGrid,
               [&] { color = colors_with_means(plan, sampling_, image, torch_threads()); });
  const int64_t c = plan.color_channels();
  return py::array_t<double>({plan.batch, int64_t{1}, c, c + 1}, color.data());
}

namespace {

// Uniform numbers [B, count] of samples, column by column.
py::array_t<double, py::array::f_style> uniform_numbers(py::handle seed, py::handle epoch,
                                                        const py::sequence& indices, int64_t count,
                                                        py::handle stream) {
  std::vector<Uniforms> samples;
  for (py::handle index : indices) {
    samples.emplace_back(low_word(seed), low_word(epoch), low_word(index), low_word(stream));
  }
  return columns_of(samples, 0, count);
}

}  // namespace

void bind_chain(py::module_& m) {
  m.def("uniforms", &uniform_numbers);
  m.def("call_key", [](py::handle seed, py::handle epoch, py::handle worker, py::handle number) {
    return call_key(low_word(seed), low_word(epoch), low_word(worker), low_word(number));
  });
  py::class_<Chain, std::shared_ptr<Chain>>(m, "Chain")
      .def(py::init<const py::list&, const std::vector<std::string>&, const std::string&, Numbers,
                    bool, bool, bool>())
      .def("draw", &draw)
      .def("colors", &Chain::colors);
}

}  // namespace visops
