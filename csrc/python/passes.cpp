// NOTE [ Passes of one image ]
// A pass that makes an image writes it into a buffer, and the last one into the result. A pass by
// values changes that image in place; the caller's own image is copied before. A pass whose draw
// changes nothing, such as a flip that doesn't apply, is left out: what it would copy has the same
// bits. A pass whose result has one channel computes all, which are equal, and writes them to the
// same place.
#include "python/passes.h"

#include <pybind11/stl.h>

#include <string>

#include "core/dispatch/large_pages.h"
#include "python/bindings.h"
#include "python/pixels.h"

namespace visops {
namespace {

// Whether a pass that makes an image makes another than it takes.
bool changes(const Stage& stage, const ChainPlan& plan, DType dtype) {
  const GeometryState& at = plan.samples[0];
  const bool moves = !at.is_identity() || at.has_window;
  const bool finishes = !stage.mean.empty() || !stage.std.empty() || !plan.erased.empty();
  return moves || finishes || !plan.colors.empty() || stage.dtype != dtype;
}

bool has_operations(const ChainPlan& plan) {
  return !plan.operations.empty() && !plan.operations[0].empty();
}

bool is_contiguous(const StridedData& data, const Canvas& canvas) {
  const auto height = static_cast<int64_t>(canvas.height);
  const auto width = static_cast<int64_t>(canvas.width);
  return data.strides[0] == height * width && data.strides[1] == width && data.strides[2] == 1;
}

// One image on its way through the passes.
class Run {
 public:
  Run(const AugmentImage& image, DType dtype, const StridedData& to, Threads threads)
      : image_(image), dtype_(dtype), to_(to), threads_(threads) {}

  // Makes an image, in the result or between.
  void make(const Stage& stage, const ChainPlan& plan, bool is_last) {
    const Canvas& canvas = plan.samples[0].canvas;
    const auto height = static_cast<int64_t>(canvas.height);
    const auto width = static_cast<int64_t>(canvas.width);
    StridedData to = to_;
    if (!is_last) {
      thread_local Buffer between[2];
      const int64_t bytes = stage.channels * height * width * element_size(stage.dtype);
      to = {between[made_++ % 2].of_size(static_cast<size_t>(bytes)), {height * width, width, 1}};
    }
    if (stage.channels < plan.channels) to.strides[0] = 0;
    stage.chain->run_one(plan, image_, dtype_, to, stage.dtype,
                         {stage.mean, stage.std, stage.erase_value}, threads_);
    image_ = {to.address, height, width, to.strides[0], to.strides[1], to.strides[2]};
    dtype_ = stage.dtype;
    owned_ = true;
  }

  // Makes the same image.
  void copy(const Stage& stage, const ChainPlan& plan, bool is_last) {
    const int64_t size[2] = {image_.height, image_.width};
    const ChainPlan still(size, 1, plan.channels, plan.exact);
    make({stage.chain, false, {}, {}, {0.0}, dtype_, plan.channels}, still, is_last);
  }

  void change(const Stage& stage, const ChainPlan& plan) {
    const Sampling& sampling = stage.chain->sampling();
    run_pixel_list(
        plan.operations[0],
        {const_cast<void*>(image_.data), dtype_, plan.channels, image_.height, image_.width},
        {sampling.modes.at(0), sampling.fill}, threads_);
  }

  DType dtype() const { return dtype_; }
  bool owned() const { return owned_; }
  bool is_done() const { return image_.data == to_.address; }

 private:
  AugmentImage image_;
  DType dtype_;
  StridedData to_;
  Threads threads_;
  bool owned_ = false;  // it may be changed in place
  size_t made_ = 0;
};

}  // namespace

std::vector<ChainPlan> Passes::draw(const SampleKey& key, int64_t height, int64_t width,
                                    int64_t channels, bool exact) const {
  std::vector<ChainPlan> plans;
  plans.reserve(stages_.size());
  for (const Stage& stage : stages_) {
    plans.push_back(stage.chain->plan_of_one(key, height, width, channels, exact));
    const Canvas& canvas = plans.back().samples[0].canvas;
    height = static_cast<int64_t>(canvas.height);
    width = static_cast<int64_t>(canvas.width);
    channels = stage.channels;
  }
  return plans;
}

void Passes::run(const std::vector<const ChainPlan*>& plans, const AugmentImage& image, DType dtype,
                 const StridedData& to, Threads threads) const {
  const size_t count = stages_.size();
  if (plans.size() != count) throw std::invalid_argument("a plan per pass is needed");
  const bool in_place = is_contiguous(to, plans.back()->samples[0].canvas);
  size_t last = count;  // the pass that makes the result; none: a copy is one
  DType before = dtype;
  for (size_t i = 0; i < count; ++i) {
    if (stages_[i].by_values) continue;
    // Passes by values can't follow in a result that isn't contiguous.
    if (!in_place || changes(stages_[i], *plans[i], before)) last = i;
    before = stages_[i].dtype;
  }
  Run run(image, dtype, to, threads);
  for (size_t i = 0; i < count; ++i) {
    const Stage& stage = stages_[i];
    const ChainPlan& plan = *plans[i];
    if (!stage.by_values) {
      if (i == last || changes(stage, plan, run.dtype())) run.make(stage, plan, i == last);
    } else if (has_operations(plan)) {
      if (!run.owned()) run.copy(stage, plan, last == count || i > last);
      run.change(stage, plan);
    }
  }
  if (!run.is_done()) run.copy(stages_.back(), *plans.back(), true);
}

std::vector<Stage> read_stages(const py::list& passes) {
  std::vector<Stage> stages;
  for (py::handle each : passes) {
    const auto own = py::cast<py::tuple>(each);
    using Numbers = std::vector<double>;
    stages.push_back({py::cast<std::shared_ptr<Chain>>(own[0]), py::cast<bool>(own[1]),
                      py::cast<Numbers>(own[2]), py::cast<Numbers>(own[3]),
                      py::cast<Numbers>(own[4]), dtype_named(py::cast<std::string>(own[5])),
                      py::cast<int64_t>(own[6])});
  }
  if (stages.empty()) throw std::invalid_argument("there is no pass");
  return stages;
}

namespace {

py::list draw(const Passes& self, py::handle seed, py::handle epoch, py::handle index,
              int64_t height, int64_t width, int64_t channels, bool exact) {
  const SampleKey key = {low_word(seed), low_word(epoch), low_word(index)};
  py::list plans;
  for (ChainPlan& plan : self.draw(key, height, width, channels, exact)) {
    plans.append(PlanObject{std::move(plan), {}});
  }
  return plans;
}

AugmentImage image_of(const StridedData& data, const Canvas& size) {
  return {data.address,
          static_cast<int64_t>(size.height),
          static_cast<int64_t>(size.width),
          data.strides[0],
          data.strides[1],
          data.strides[2]};
}

int64_t numel(const ChainPlan& plan, int64_t channels) {
  const Canvas& canvas = plan.samples.at(0).canvas;
  return static_cast<int64_t>(canvas.height * canvas.width) * channels;
}

// Images are (address, strides) of [C, H, W]. Where this throws, the caller's other path says what
// is wrong.
void run(const Passes& self, const py::list& plans, py::handle image, const std::string& dtype,
         py::handle out) {
  std::vector<const ChainPlan*> own;
  int64_t elements = 0;
  for (py::handle each : plans) {
    own.push_back(&py::cast<const PlanObject&>(each).plan);
    elements += numel(*own.back(), own.back()->channels);
  }
  if (own.empty()) throw std::invalid_argument("a plan per pass is needed");
  const StridedData to = read_strided_data(out, 3);
  const AugmentImage from = image_of(read_strided_data(image, 3), own[0]->samples[0].source);
  const DType type = dtype_named(dtype);
  const Stage& last = self.stages().back();
  prefer_large_pages(to.address, numel(*own.back(), last.channels) * element_size(last.dtype));
  run_unlocked(elements, [&] { self.run(own, from, type, to, Threads::kTorch); });
}

// The images of a batch, or `frames` for each of its samples, side by side: each goes through all
// passes while it is in the cache.
void run_batch(const Passes& self, const py::list& plans, const py::list& images,
               const std::string& dtype, const py::list& outs, int64_t frames) {
  std::vector<const ChainPlan*> whole;
  for (py::handle each : plans) whole.push_back(&py::cast<const PlanObject&>(each).plan);
  std::vector<StridedData> from, to;
  for (py::handle each : images) from.push_back(read_strided_data(each, 3));
  for (py::handle each : outs) to.push_back(read_strided_data(each, 3));
  if (whole.empty() || from.size() != to.size() || frames < 1) {
    throw std::invalid_argument("a plan per pass and a result per image are needed");
  }
  const DType type = dtype_named(dtype);
  const auto count = static_cast<int64_t>(from.size());
  const py::gil_scoped_release release;
  for_each_on_threads(count, [&](size_t at) {
    std::vector<ChainPlan> own;
    std::vector<const ChainPlan*> pointers;
    own.reserve(whole.size());
    for (const ChainPlan* plan : whole) {
      const auto each = static_cast<size_t>(frames);
      own.push_back(plan_of_sample(*plan, at / each, static_cast<int64_t>(at % each)));
      pointers.push_back(&own.back());
    }
    self.run(pointers, image_of(from[at], own[0].samples[0].source), type, to[at],
             Threads::kCaller);
  });
}

}  // namespace

void bind_passes(py::module_& m) {
  py::class_<Passes>(m, "Passes")
      .def(py::init([](const py::list& passes) { return Passes(read_stages(passes)); }))
      .def("draw", &draw)
      .def("run", &run)
      .def("run_batch", &run_batch);
}

}  // namespace visops
