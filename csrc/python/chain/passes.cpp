// NOTE [ Passes of one image ]
// A pass that makes an image writes it into a buffer, and the last one into the result. A pass by
// values changes that image in place; the caller's own image is copied before. A pass whose draw
// changes nothing, such as a flip that doesn't apply, is left out: what it would copy has the same
// bits. A pass whose result has fewer channels than its image computes all, which are equal, and
// writes them to the same place; one with more writes the only channel of its image several times.
#include "python/chain/passes.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <string>

#include "python/bindings.h"
#include "python/chain/pixels.h"

namespace visops {
namespace {

// Whether a pass that makes an image makes another than it takes.
bool changes(const Stage& stage, const ChainPlan& plan, DType dtype) {
  const GeometryState& at = plan.samples[0];
  const bool moves = !at.is_identity() || at.has_window;
  const bool finishes = !stage.mean.empty() || !stage.std.empty() || !plan.erased.empty();
  return moves || finishes || !plan.colors.empty() || stage.dtype != dtype ||
         stage.channels != plan.channels;
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
      const int64_t bytes = stage.channels * height * width * element_size(stage.dtype);
      to = {between(static_cast<size_t>(bytes)), {height * width, width, 1}};
    }
    const Finish finish = {stage.mean, stage.std, stage.erase_value};
    StridedData plane = to;
    if (stage.channels < plan.channels) plane.strides[0] = 0;
    const int64_t step = to.strides[0] * element_size(stage.dtype);
    for (int64_t c = 0; c < std::max<int64_t>(stage.channels / plan.channels, 1); ++c) {
      stage.chain->run_one(plan, image_, dtype_, plane, stage.dtype, finish, threads_);
      plane.address = static_cast<char*>(plane.address) + step;
    }
    image_ = {to.address, height, width, to.strides[0], to.strides[1], to.strides[2]};
    dtype_ = stage.dtype;
    owned_ = true;
  }

  // Makes the same image.
  void copy(const Stage& stage, const ChainPlan& plan, bool is_last) {
    const int64_t size[2] = {image_.height, image_.width};
    const ChainPlan still(size, 1, plan.channels, plan.exact);
    make({stage.chain, false, {}, {}, {0.0}, dtype_, plan.channels, {}}, still, is_last);
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
  // Memory for an image between two passes. Threads keep what small ones need.
  uint8_t* between(size_t bytes) {
    constexpr size_t kKept = size_t{1} << 24;
    thread_local Buffer kept[2];
    const size_t which = made_++ % 2;
    return (bytes > kKept ? large_[which] : kept[which]).of_size(bytes);
  }

  AugmentImage image_;
  DType dtype_;
  StridedData to_;
  Threads threads_;
  bool owned_ = false;  // it may be changed in place
  size_t made_ = 0;
  Buffer large_[2];
};

}  // namespace

std::vector<ChainPlan> Passes::draw(const std::vector<SampleKey>& keys, std::vector<int64_t> sizes,
                                    int64_t channels, bool exact, std::vector<Drawn>* drawn) const {
  std::vector<Uniforms> uniforms;
  uniforms.reserve(keys.size());
  for (const SampleKey& key : keys) uniforms.emplace_back(key.seed, key.epoch, key.index);
  std::vector<ChainPlan> plans;
  plans.reserve(stages_.size());
  for (const Stage& stage : stages_) {
    plans.emplace_back(sizes.data(), static_cast<int64_t>(keys.size()), channels, exact);
    stage.chain->draw(plans.back(), uniforms, drawn, stage.in_python);
    int64_t* next = sizes.data();
    for (const GeometryState& at : plans.back().samples) {
      *next++ = static_cast<int64_t>(at.canvas.height);
      *next++ = static_cast<int64_t>(at.canvas.width);
    }
    channels = stage.channels;
  }
  return plans;
}

py::list Passes::unpacked(const std::vector<Drawn>& drawn, py::ssize_t batch) const {
  py::list params;
  auto next = drawn.begin();
  for (const Stage& stage : stages_) {
    for (size_t i = 0; i < stage.chain->num_steps(); ++i) {
      params.append(stage.chain->unpacked(i, *next++, batch));
    }
  }
  return params;
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

void Passes::run_each(const std::vector<const ChainPlan*>& plans,
                      const std::vector<AugmentImage>& images, DType dtype,
                      const std::vector<StridedData>& to, int64_t frames) const {
  const auto work = [&](size_t at, Threads threads) {
    if (images.size() == 1 && plans[0]->image == 0) {
      return run(plans, images[0], dtype, to[0], threads);
    }
    std::vector<ChainPlan> own;
    std::vector<const ChainPlan*> pointers;
    own.reserve(plans.size());
    for (const ChainPlan* plan : plans) {
      const auto each = static_cast<size_t>(frames);
      own.push_back(plan_of_sample(*plan, at / each, static_cast<int64_t>(at % each)));
      pointers.push_back(&own.back());
    }
    run(pointers, images[at], dtype, to[at], threads);
  };
  const auto count = static_cast<int64_t>(images.size());
  // Side by side, each image goes through all passes while it is in the cache. Fewer images than
  // threads share all threads, one after another.
  if (count == 1 || count < torch::stable::get_num_threads()) {
    for (size_t i = 0; i < images.size(); ++i) work(i, Threads::kTorch);
  } else {
    for_each_on_threads(count, [&](size_t i) { work(i, Threads::kCaller); });
  }
}

bool Passes::call_python() const {
  return std::any_of(stages_.begin(), stages_.end(),
                     [](const Stage& stage) { return stage.chain->calls_python(); });
}

bool view_image(py::handle tensor, const ImageShape& shape, DType dtype, TensorView* view) {
  return is_plain_tensor(tensor) && view_tensor(tensor, view) && view->rank == 3 &&
         view->dtype == dtype &&
         std::equal(shape.begin(), shape.end(), view->shape.begin(),
                    [](int64_t wanted, int64_t side) { return wanted < 0 || wanted == side; });
}

StridedData strides_of(const TensorView& image) {
  return {image.data, {image.strides[0], image.strides[1], image.strides[2]}};
}

py::object image_memory(const py::object& memory, size_t number, const ImageShape& shape,
                        DType dtype, TensorView* view) {
  const py::tuple sides = py::make_tuple(shape[0], shape[1], shape[2]);
  py::object made = memory(number, sides, torch_dtype(dtype));
  if (!view_image(made, shape, dtype, view)) {
    throw std::invalid_argument("visops: memory for an image has another shape or dtype");
  }
  return made;
}

std::vector<Stage> read_stages(const py::list& passes) {
  std::vector<Stage> stages;
  for (py::handle each : passes) {
    const auto own = py::cast<py::tuple>(each);
    using Numbers = std::vector<double>;
    stages.push_back({py::cast<std::shared_ptr<Chain>>(own[0]), py::cast<bool>(own[1]),
                      py::cast<Numbers>(own[2]), py::cast<Numbers>(own[3]),
                      py::cast<Numbers>(own[4]), dtype_named(py::cast<std::string>(own[5])),
                      py::cast<int64_t>(own[6]), own[7]});
    if (stages.back().channels < 1) throw std::invalid_argument("a pass makes no channels");
  }
  if (stages.empty()) throw std::invalid_argument("there is no pass");
  return stages;
}

namespace {

AugmentImage image_of(const StridedData& data, const Canvas& size) {
  return {data.address,
          static_cast<int64_t>(size.height),
          static_cast<int64_t>(size.width),
          data.strides[0],
          data.strides[1],
          data.strides[2]};
}

// As run_each(), with images and results as lists.
void run_each(const Passes& self, const py::list& plans, const py::list& images,
              const std::string& dtype, const py::list& outs, int64_t frames) {
  std::vector<const ChainPlan*> whole;
  for (py::handle each : plans) whole.push_back(&py::cast<const PlanObject&>(each).plan);
  if (whole.empty() || images.size() != outs.size() || frames < 1) {
    throw std::invalid_argument("a plan per pass and a result per image are needed");
  }
  std::vector<AugmentImage> from;
  std::vector<StridedData> to;
  for (py::handle each : images) {
    const size_t sample = from.size() / static_cast<size_t>(frames);
    from.push_back(image_of(read_strided_data(each, 3), whole[0]->samples.at(sample).source));
  }
  for (py::handle each : outs) to.push_back(read_strided_data(each, 3));
  const DType type = dtype_named(dtype);
  const py::gil_scoped_release release;
  self.run_each(whole, from, type, to, frames);
}

}  // namespace

void bind_passes(py::module_& m) {
  py::class_<Passes, std::shared_ptr<Passes>>(m, "Passes")
      .def(py::init(
          [](const py::list& passes) { return std::make_shared<Passes>(read_stages(passes)); }))
      .def("run_each", &run_each);
}

}  // namespace visops
