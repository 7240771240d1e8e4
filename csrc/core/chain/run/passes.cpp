// NOTE [ Passes of one image ]
// A pass that makes an image writes it into a buffer, and the last one into the result. A pass by
// values changes that image in place; the caller's own image is copied before. A pass whose draw
// changes nothing, such as a flip that doesn't apply, is left out: what it would copy has the same
// bits. A pass whose result has fewer channels than its image computes all, which are equal, and
// writes them to the same place; one with more writes the only channel of its image several times.
#include "core/chain/run/passes.h"

#include <algorithm>
#include <stdexcept>

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
  Run(const AugmentImage& image, DType dtype, const StridedData& to, const Threads& threads)
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
    StridedData plane = to;
    if (stage.channels < plan.channels) plane.strides[0] = 0;
    const int64_t step = to.strides[0] * element_size(stage.dtype);
    for (int64_t c = 0; c < std::max<int64_t>(stage.channels / plan.channels, 1); ++c) {
      run_pass(stage, plan, image_, dtype_, plane, threads_);
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
    make({stage.sampling, false, {}, {}, {0.0}, dtype_, plan.channels}, still, is_last);
  }

  void change(const Stage& stage, const ChainPlan& plan) {
    const Sampling& sampling = stage.sampling;
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
  const Threads& threads_;
  bool owned_ = false;  // it may be changed in place
  size_t made_ = 0;
  Buffer large_[2];
};

}  // namespace

void run_passes(const std::vector<Stage>& stages, const std::vector<const ChainPlan*>& plans,
                const AugmentImage& image, DType dtype, const StridedData& to,
                const Threads& threads) {
  const size_t count = stages.size();
  if (plans.size() != count) throw std::invalid_argument("a plan per pass is needed");
  const bool in_place = is_contiguous(to, plans.back()->samples[0].canvas);
  size_t last = count;  // the pass that makes the result; none: a copy is one
  DType before = dtype;
  for (size_t i = 0; i < count; ++i) {
    if (stages[i].by_values) continue;
    // Passes by values can't follow in a result that isn't contiguous.
    if (!in_place || changes(stages[i], *plans[i], before)) last = i;
    before = stages[i].dtype;
  }
  Run run(image, dtype, to, threads);
  for (size_t i = 0; i < count; ++i) {
    const Stage& stage = stages[i];
    const ChainPlan& plan = *plans[i];
    if (!stage.by_values) {
      if (i == last || changes(stage, plan, run.dtype())) run.make(stage, plan, i == last);
    } else if (has_operations(plan)) {
      if (!run.owned()) run.copy(stage, plan, last == count || i > last);
      run.change(stage, plan);
    }
  }
  if (!run.is_done()) run.copy(stages.back(), *plans.back(), true);
}

void run_each_image(const std::vector<Stage>& stages, const std::vector<const ChainPlan*>& plans,
                    const std::vector<AugmentImage>& images, DType dtype,
                    const std::vector<StridedData>& to, int64_t frames, const Threads& threads) {
  const auto work = [&](size_t at, const Threads& own_threads) {
    if (images.size() == 1 && plans[0]->image == 0) {
      return run_passes(stages, plans, images[0], dtype, to[0], own_threads);
    }
    std::vector<ChainPlan> own;
    std::vector<const ChainPlan*> pointers;
    own.reserve(plans.size());
    for (const ChainPlan* plan : plans) {
      const auto each = static_cast<size_t>(frames);
      own.push_back(plan_of_sample(*plan, at / each, static_cast<int64_t>(at % each)));
      pointers.push_back(&own.back());
    }
    run_passes(stages, pointers, images[at], dtype, to[at], own_threads);
  };
  const auto count = static_cast<int64_t>(images.size());
  // Side by side, each image goes through all passes while it is in the cache. Fewer images than
  // threads share all threads, one after another.
  if (count == 1 || count < threads.count()) {
    for (size_t i = 0; i < images.size(); ++i) work(i, threads);
  } else {
    threads.for_each(count, [&](size_t i) { work(i, caller_thread()); });
  }
}

}  // namespace visops
