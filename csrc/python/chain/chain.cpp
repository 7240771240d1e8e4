#include "python/chain/chain.h"

#include <pybind11/gil_safe_call_once.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>

#include "core/chain/color_program.h"
#include "core/images/image_front.h"
#include "core/pixels/colors/grey_means.h"
#include "core/warp/augment_segment.h"
#include "python/array.h"
#include "python/bindings.h"
#include "python/chain/plan.h"
#include "python/strided_data.h"

namespace visops {
namespace {

constexpr const char* kOp = "augment";

using Numbers = std::vector<double>;
using Means = std::vector<Numbers>;

// Windows [batch, 4] of samples, if there are any.
Numbers windows_of(const std::vector<GeometryState>& samples, const Sampling& sampling) {
  Numbers windows;
  if (!sampling.window && !samples[0].has_window) return windows;
  for (const GeometryState& at : samples) {
    const double whole[4] = {0.0, 0.0, at.source.width, at.source.height};
    const double* const window = at.has_window ? at.window : whole;
    windows.insert(windows.end(), window, window + 4);
  }
  return windows;
}

// How one image is sampled onto its canvas. `matrix`, of 9 numbers, is the caller's.
void set_sampling(const GeometryState& at, Interpolation mode, const Sampling& sampling,
                  double* matrix, AugmentParams& p) {
  at.write_rows(mode == Interpolation::kNearest, matrix);
  p.matrix = {matrix, DType::kFloat64, false, at.rows() * 3, 3, 1};
  p.matrix_rows = at.rows();
  p.mode = mode;
  p.padding = sampling.padding;
  p.antialias = sampling.antialias && mode != Interpolation::kNearest;
  p.half_pixel = true;
  p.output_height = static_cast<int64_t>(at.canvas.height);
  p.output_width = static_cast<int64_t>(at.canvas.width);
}

// Means of small pictures of the images: NOTE [ Grey means ].
Numbers grey_means(const ChainPlan& plan, const MeanRound& round, const Means& before,
                   const Sampling& sampling, const AugmentParams& image, const Numbers& windows,
                   Threads threads) {
  const ColorSteps& steps = plan.colors[round.step];
  const int64_t rows = steps.at[0].rows();
  Numbers matrices(static_cast<size_t>(plan.batch * rows * 3));
  double* next = matrices.data();
  for (const GeometryState& at : steps.at) {
    write_mean_grid(at, next);
    next += rows * 3;
  }
  Numbers color;
  if (round.before.steps > 0) {
    color = with_means(round.before, plan.batch, plan.channels, before);
  }
  AugmentParams p = image;
  p.matrix = {matrices.data(), DType::kFloat64, false, rows * 3, 3, 1};
  p.matrix_rows = static_cast<int>(rows);
  p.mode = Interpolation::kNearest;
  p.padding = sampling.padding;
  p.half_pixel = true;
  p.clamp = !color.empty();
  p.window = windows.empty() ? nullptr : windows.data();
  p.color = color.empty() ? nullptr : color.data();
  p.color_steps = color.empty() ? 0 : 1;
  p.output_dtype = DType::kUInt8;
  p.output_height = p.output_width = kMeanGrid;
  std::vector<uint8_t> picture(
      static_cast<size_t>(plan.batch * p.channels * kMeanGrid * kMeanGrid));
  p.output = picture.data();
  p.output_stride = {p.channels * kMeanGrid * kMeanGrid, kMeanGrid * kMeanGrid, kMeanGrid, 1};
  const Numbers none, zero = {0.0};
  const AugmentValues values = {sampling.fill, none, none, zero};
  run_augment(p, values, threads);
  Numbers means;
  constexpr int64_t kPixels = kMeanGrid * kMeanGrid;
  for (int64_t i = 0; i < plan.batch; ++i) {
    const uint8_t* const own = picture.data() + i * p.channels * kPixels;
    means.push_back(mean_of_picture(own, p.channels, kPixels, mean_scale(kPixels)));
  }
  return means;
}

// Colour matrices [batch, 1, C, C + 1] of a plan that is not exact.
Numbers colors_with_means(const ChainPlan& plan, const Sampling& sampling,
                          const AugmentParams& image, const Numbers& windows, Threads threads) {
  const ColorProgram program = color_program(plan);
  Means means;
  for (const MeanRound& round : program.rounds) {
    means.push_back(grey_means(plan, round, means, sampling, image, windows, threads));
  }
  return with_means(program.whole, plan.batch, plan.color_channels(), means);
}

// The grey mean of a picture [channels, pixels] with white at 1. Its sums are of integers, so they
// don't depend on order.
double exact_mean(const float* picture, int64_t channels, int64_t pixels) {
  constexpr double kScale = 4294967296.0;
  double sums[kGreyChannels] = {};
  for (int c = 0; c < grey_channels(channels); ++c) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < pixels; ++i) {
      const double value = static_cast<double>(picture[c * pixels + i]);
      const double bounded = value != value ? 0.0 : std::clamp(value, -1024.0, 1024.0);
      sum += static_cast<uint64_t>(static_cast<int64_t>(std::nearbyint(bounded * kScale)));
    }
    sums[c] = static_cast<double>(static_cast<int64_t>(sum));
  }
  double grey = sums[0];
  if (channels > 1) grey = grey * kGrey[0] + sums[1] * kGrey[1] + sums[2] * kGrey[2];
  return grey / (static_cast<double>(pixels) * kScale);
}

// Colour matrices [1, steps, C, C + 1] of an exact plan for one image, whose contrasts take the
// mean of all pixels, as they are at that point.
Numbers exact_colors(const ChainPlan& plan, const ColorProgram& program, const Sampling& sampling,
                     const AugmentParams& image, Threads threads) {
  const Numbers none, zero = {0.0};
  const AugmentValues values = {sampling.fill, none, none, zero};
  const Interpolation mode = sampling.modes.at(0);
  Means means;
  std::vector<float> picture;
  for (const MeanRound& round : program.rounds) {
    const std::vector<GeometryState>& at = plan.colors[round.step].at;
    Numbers color;
    const bool is_plain = !round.plain.empty() && round.plain[0] != 0;
    if (round.before.steps > 0 && !is_plain) {
      color = with_means(round.before, 1, plan.channels, means);
    }
    AugmentParams p = image;
    double matrix[9];
    set_sampling(at[0], mode, sampling, matrix, p);
    p.clamp = !color.empty();
    const Numbers windows = windows_of(at, sampling);
    p.window = windows.empty() ? nullptr : windows.data();
    p.color = color.empty() ? nullptr : color.data();
    p.color_shared = !color.empty();
    p.color_steps = color.empty() ? 0 : round.before.steps;
    p.output_dtype = DType::kFloat32;
    const int64_t pixels = p.output_height * p.output_width;
    picture.resize(static_cast<size_t>(p.channels * pixels));
    p.output = picture.data();
    p.output_stride = {0, pixels, p.output_width, 1};
    run_augment(p, values, threads);
    means.push_back({exact_mean(picture.data(), p.channels, pixels)});
  }
  return with_means(program.whole, 1, plan.color_channels(), means);
}

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

// The number of a channel, of numbers of which there is one or one for each.
Numbers of_channel(const Numbers& numbers, int64_t channel) {
  return numbers.size() > 1 ? Numbers{numbers.at(static_cast<size_t>(channel))} : numbers;
}

}  // namespace

void Chain::run_one(const ChainPlan& plan, const AugmentImage& image, DType dtype,
                    const StridedData& to, DType out_dtype, const Finish& finish,
                    Threads threads) const {
  if (plan.colors.empty() || plan.color_channels() == plan.channels) {
    return run_channels(plan, image, dtype, to, out_dtype,
                        {sampling_.fill, finish.mean, finish.std, finish.erase_value}, threads);
  }
  ChainPlan own = plan;
  own.channels = 1;
  const int64_t step = element_size(dtype), out_step = element_size(out_dtype);
  for (int64_t c = 0; c < plan.channels; ++c) {
    AugmentImage from = image;
    from.data = static_cast<const char*>(image.data) + c * image.channel_stride * step;
    StridedData out = to;
    out.address = static_cast<char*>(to.address) + c * to.strides[0] * out_step;
    const Numbers fill = of_channel(sampling_.fill, c), mean = of_channel(finish.mean, c),
                  std = of_channel(finish.std, c), erased = of_channel(finish.erase_value, c);
    run_channels(own, from, dtype, out, out_dtype, {fill, mean, std, erased}, threads);
  }
}

void Chain::run_channels(const ChainPlan& plan, const AugmentImage& image, DType dtype,
                         const StridedData& to, DType out_dtype, const AugmentValues& values,
                         Threads threads) const {
  AugmentParams p = {};
  p.batch = 1;
  p.channels = plan.channels;
  p.first = image;
  p.dtype = dtype;
  const AugmentParams source = p;
  p.output_dtype = out_dtype;
  p.output = to.address;
  p.output_stride = {0, to.strides[0], to.strides[1], to.strides[2]};
  double matrix[9];
  const Interpolation mode = sampling_.mode_of(plan, 0);
  set_sampling(plan.samples.at(0), mode, sampling_, matrix, p);
  const Numbers windows = windows_of(plan.samples, sampling_);
  if (!windows.empty()) p.window = windows.data();
  std::vector<int64_t> erased;
  for (const Numbers& rectangle : plan.erased) {
    for (double edge : rectangle) erased.push_back(static_cast<int64_t>(edge));
  }
  if (!erased.empty()) {
    p.erase = erased.data();
    p.erase_count = static_cast<int64_t>(plan.erased.size());
  }
  Numbers color;
  const bool saturates = sampling_.clamps(mode, dtype);
  if (!plan.colors.empty()) {
    int64_t steps = 1;
    if (plan.exact) {
      const ColorProgram program = color_program(plan);
      color = exact_colors(plan, program, sampling_, source, threads);
      steps = program.whole.steps;
      if (saturates) {  // before colours change: a first step that only clamps
        const ColorMatrix identity = identity_color(plan.color_channels());
        const int64_t size = plan.color_channels() * (plan.color_channels() + 1);
        color.insert(color.begin(), identity.begin(), identity.begin() + size);
        ++steps;
      }
    } else {
      color = colors_with_means(plan, sampling_, source, windows, threads);
    }
    p.color = color.data();
    p.color_shared = true;
    p.clamp = plan.clamps;
    p.color_steps = steps;
  }
  p.clamp = p.clamp || saturates;
  run_augment(p, values, threads);
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
  const Numbers windows = windows_of(plan.samples, sampling_);
  Numbers color;
  run_unlocked(plan.batch * kMeanGrid * kMeanGrid, [&] {
    color = colors_with_means(plan, sampling_, image, windows, Threads::kTorch);
  });
  const int64_t c = plan.color_channels();
  return py::array_t<double>({plan.batch, int64_t{1}, c, c + 1}, color.data());
}

int64_t Chain::kinds(const PlanObject& self, bool bytes, size_t number) const {
  const ChainPlan& plan = self.plan;
  const Numbers windows = windows_of(plan.samples, sampling_);
  AugmentParams p = {};
  p.mode = sampling_.modes.at(number);
  p.padding = sampling_.padding;
  p.antialias = p.half_pixel = true;
  p.integers = bytes;
  int64_t kinds = 0;
  for (size_t i = 0; i < plan.samples.size(); ++i) {
    if (!plan.modes.empty() && plan.modes[i] != number) continue;
    const GeometryState& at = plan.samples[i];
    double matrix[9];
    at.write_rows(false, matrix);
    p.matrix = {matrix, DType::kFloat64, true, 0, 3, 1};
    p.matrix_rows = static_cast<int>(at.rows());
    p.window = windows.empty() ? nullptr : windows.data() + 4 * i;
    AugmentImage image = {};
    image.height = static_cast<int64_t>(at.source.height);
    image.width = static_cast<int64_t>(at.source.width);
    kinds |= bit_of(kind_of(augment_sample(p, 0, image)));
  }
  return kinds;
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
      .def("colors", &Chain::colors)
      .def("kinds", &Chain::kinds);
}

}  // namespace visops
