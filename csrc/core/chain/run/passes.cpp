// NOTE [ Passes of one image ]
// A pass that makes an image writes it into a buffer, and the last one into the result. A pass by
// values changes that image in place; the caller's own image is copied before. A pass whose draw
// changes nothing, such as a flip that doesn't apply, is left out: what it would copy has the same
// bits. A pass whose result has fewer channels than its image computes all, which are equal, and
// writes them to the same place; one with more writes the only channel of its image several times.
#include "core/chain/run/passes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <utility>

#include "core/chain/color_program.h"
#include "core/pixels/colors/grey_means.h"
#include "core/warp/augment.h"
#include "core/warp/augment_segment.h"

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

namespace {

using Numbers = std::vector<double>;
using Means = std::vector<Numbers>;

// Means of small pictures of the images: NOTE [ Grey means ].
Numbers grey_means(const ChainPlan& plan, const MeanRound& round, const Means& before,
                   const Sampling& sampling, const AugmentParams& images, const Threads& threads) {
  PassProblem problem = PassProblem::of_mean(plan.colors[round.step].at, sampling);
  problem.set_images(images);
  Numbers color;
  if (round.before.steps > 0) {
    color = with_means(round.before, plan.batch, plan.channels, before);
  }
  problem.set_color(color, 1, false);
  AugmentParams& p = problem.params;
  p.clamp = !color.empty();
  constexpr int64_t kPixels = kMeanGrid * kMeanGrid;
  std::vector<uint8_t> picture(static_cast<size_t>(plan.batch * p.channels * kPixels));
  p.output = picture.data();
  p.output_stride = {p.channels * kPixels, kPixels, kMeanGrid, 1};
  const Numbers none, zero = {0.0};
  run_augment(p, {sampling.fill, none, none, zero}, threads);
  Numbers means;
  for (int64_t i = 0; i < plan.batch; ++i) {
    const uint8_t* const own = picture.data() + i * p.channels * kPixels;
    means.push_back(mean_of_picture(own, p.channels, kPixels, mean_scale(kPixels)));
  }
  return means;
}

Numbers colors_of(const ChainPlan& plan, const ColorProgram& program, const Sampling& sampling,
                  const AugmentParams& images, const Threads& threads) {
  Means means;
  for (const MeanRound& round : program.rounds) {
    means.push_back(grey_means(plan, round, means, sampling, images, threads));
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
                     const AugmentParams& image, const Threads& threads) {
  const Numbers none, zero = {0.0};
  Means means;
  std::vector<float> picture;
  for (const MeanRound& round : program.rounds) {
    PassProblem problem(plan.colors[round.step].at, sampling.modes.at(0), sampling);
    problem.set_images(image);
    Numbers color;
    const bool is_plain = !round.plain.empty() && round.plain[0] != 0;
    if (round.before.steps > 0 && !is_plain) {
      color = with_means(round.before, 1, plan.channels, means);
    }
    problem.set_color(color, round.before.steps, true);
    AugmentParams& p = problem.params;
    p.clamp = !color.empty();
    p.output_dtype = DType::kFloat32;
    const int64_t pixels = p.output_height * p.output_width;
    picture.resize(static_cast<size_t>(p.channels * pixels));
    p.output = picture.data();
    p.output_stride = {0, pixels, p.output_width, 1};
    run_augment(p, {sampling.fill, none, none, zero}, threads);
    means.push_back({exact_mean(picture.data(), p.channels, pixels)});
  }
  return with_means(program.whole, 1, plan.color_channels(), means);
}

// The number of a channel, of numbers of which there is one or one for each.
Numbers of_channel(const Numbers& numbers, int64_t channel) {
  return numbers.size() > 1 ? Numbers{numbers.at(static_cast<size_t>(channel))} : numbers;
}

// run_pass(), of channels that colours see together.
void run_channels(const Stage& stage, const ChainPlan& plan, const AugmentImage& image, DType dtype,
                  const StridedData& to, const AugmentValues& values, const Threads& threads) {
  const Sampling& sampling = stage.sampling;
  const Interpolation mode = sampling.mode_of(plan, 0);
  AugmentParams source = {};
  source.channels = plan.channels;
  source.first = image;
  source.dtype = dtype;
  PassProblem problem(plan.samples, mode, sampling);
  problem.set_images(source);
  problem.erase(plan.erased);
  AugmentParams& p = problem.params;
  p.output_dtype = stage.dtype;
  p.output = to.address;
  p.output_stride = {0, to.strides[0], to.strides[1], to.strides[2]};
  const bool saturates = sampling.clamps(mode, dtype);
  const ColorProgram program = color_program(plan);
  Numbers color;
  int64_t steps = program.whole.steps;
  if (!plan.colors.empty()) {
    color = plan.exact ? exact_colors(plan, program, sampling, source, threads)
                       : colors_of(plan, program, sampling, source, threads);
    if (plan.exact && saturates) {  // before colours change
      put_identity_first(color, 1, plan.color_channels());
      ++steps;
    }
    p.clamp = plan.clamps;
  }
  problem.set_color(color, steps, true);
  p.clamp = p.clamp || saturates;
  run_augment(p, values, threads);
}

// Warps an image into another of its size.
void warp(const PixelImage& from, void* to, const PixelOperation& operation,
          const PixelSampling& sampling, const Threads& threads) {
  const int64_t plane = from.height * from.width;
  warp_image({from.data, from.height, from.width, plane, from.width, 1}, from.channels, from.dtype,
             operation.matrix, sampling.mode, sampling.fill, to, {0, plane, from.width, 1},
             threads);
}

}  // namespace

void run_pass(const Stage& stage, const ChainPlan& plan, const AugmentImage& image, DType dtype,
              const StridedData& to, const Threads& threads) {
  const Numbers& fills = stage.sampling.fill;
  if (plan.colors.empty() || plan.color_channels() == plan.channels) {
    return run_channels(stage, plan, image, dtype, to,
                        {fills, stage.mean, stage.std, stage.erase_value}, threads);
  }
  ChainPlan own = plan;
  own.channels = 1;
  const int64_t step = element_size(dtype), out_step = element_size(stage.dtype);
  for (int64_t c = 0; c < plan.channels; ++c) {
    AugmentImage from = image;
    from.data = static_cast<const char*>(image.data) + c * image.channel_stride * step;
    StridedData out = to;
    out.address = static_cast<char*>(to.address) + c * to.strides[0] * out_step;
    const Numbers fill = of_channel(fills, c), mean = of_channel(stage.mean, c),
                  std = of_channel(stage.std, c), erased = of_channel(stage.erase_value, c);
    run_channels(stage, own, from, dtype, out, {fill, mean, std, erased}, threads);
  }
}

std::vector<double> colors_with_means(const ChainPlan& plan, const Sampling& sampling,
                                      const AugmentParams& images, const Threads& threads) {
  return colors_of(plan, color_program(plan), sampling, images, threads);
}

void run_pixel_list(const std::vector<PixelOperation>& operations, const PixelImage& image,
                    const PixelSampling& sampling, const Threads& threads) {
  if (operations.empty() || image.size() == 0) return;
  const size_t bytes = static_cast<size_t>(image.size() * element_size(image.dtype));
  // Not filled with zeros: most operations don't touch it.
  const std::unique_ptr<unsigned char[]> scratch(new unsigned char[bytes]);
  for (const PixelOperation& operation : operations) {
    if (operation.kind == PixelKind::kAffine) {
      warp(image, scratch.get(), operation, sampling, threads);
      std::memcpy(image.data, scratch.get(), bytes);
    } else {
      run_pixel_operation(operation, image, scratch.get());
    }
  }
}

namespace {

// Those of a batch have one form.
int64_t rows_of(const std::vector<GeometryState>& at) {
  const bool any =
      std::any_of(at.begin(), at.end(), [](const GeometryState& own) { return own.projective; });
  return any ? 3 : 2;
}

// write(state, rows) for each sample; matrices of two rows get a third where others have one.
template <class Write>
std::vector<double> matrices_of(const std::vector<GeometryState>& at, int64_t rows,
                                const Write& write) {
  std::vector<double> matrices(at.size() * static_cast<size_t>(rows * 3));
  double* next = matrices.data();
  for (const GeometryState& own : at) {
    if (rows == 3) next[8] = 1.0;
    write(own, next);
    next += rows * 3;
  }
  return matrices;
}

}  // namespace

PassProblem::PassProblem(const std::vector<GeometryState>& at, Interpolation mode,
                         const Sampling& sampling) {
  const int64_t rows = rows_of(at);
  const bool nearest = mode == Interpolation::kNearest;
  const auto write = [&](const GeometryState& own, double* to) { own.write_rows(nearest, to); };
  set_matrices(matrices_of(at, rows, write), rows);
  set_windows(at, sampling);
  params.mode = mode;
  params.padding = sampling.padding;
  params.antialias = sampling.antialias && !nearest;
  params.output_height = static_cast<int64_t>(at[0].canvas.height);
  params.output_width = static_cast<int64_t>(at[0].canvas.width);
}

PassProblem::PassProblem(std::vector<double> matrices, Interpolation mode, const Canvas& size) {
  set_matrices(std::move(matrices), 2);
  params.mode = mode;
  params.padding = Padding::kConstant;
  params.output_height = static_cast<int64_t>(size.height);
  params.output_width = static_cast<int64_t>(size.width);
}

PassProblem PassProblem::of_mean(const std::vector<GeometryState>& at, const Sampling& sampling) {
  PassProblem problem;
  const int64_t rows = rows_of(at);
  problem.set_matrices(matrices_of(at, rows, write_mean_grid), rows);
  problem.set_windows(at, sampling);
  AugmentParams& p = problem.params;
  p.mode = Interpolation::kNearest;
  p.padding = sampling.padding;
  p.output_dtype = DType::kUInt8;
  p.output_height = p.output_width = kMeanGrid;
  return problem;
}

void PassProblem::set_matrices(std::vector<double> matrices, int64_t rows) {
  matrices_ = std::move(matrices);
  params.batch = static_cast<int64_t>(matrices_.size()) / (rows * 3);
  params.matrix = {matrices_.data(), DType::kFloat64, false, rows * 3, 3, 1};
  params.matrix_rows = static_cast<int>(rows);
  params.half_pixel = true;
}

void PassProblem::set_windows(const std::vector<GeometryState>& at, const Sampling& sampling) {
  if (!sampling.window && !at[0].has_window) return;
  for (const GeometryState& own : at) {
    const double whole[4] = {0.0, 0.0, own.source.width, own.source.height};
    const double* const window = own.has_window ? own.window : whole;
    windows_.insert(windows_.end(), window, window + 4);
  }
  params.window = windows_.data();
}

void PassProblem::erase(const std::vector<std::vector<double>>& rectangles) {
  if (rectangles.empty()) return;
  for (int64_t i = 0; i < params.batch; ++i) {
    for (const std::vector<double>& own : rectangles) {
      const auto first = own.begin() + 4 * i;
      std::transform(first, first + 4, std::back_inserter(erased_),
                     [](double edge) { return static_cast<int64_t>(edge); });
    }
  }
  params.erase = erased_.data();
  params.erase_count = static_cast<int64_t>(rectangles.size());
}

void PassProblem::set_color(const std::vector<double>& color, int64_t steps, bool shared) {
  params.color = color.empty() ? nullptr : color.data();
  params.color_steps = color.empty() ? 0 : steps;
  params.color_shared = !color.empty() && shared;
}

void PassProblem::set_images(const AugmentParams& source) {
  params.first = source.first;
  params.image_batch_stride = source.image_batch_stride;
  params.list = source.list;
  params.channels = source.channels;
  params.dtype = source.dtype;
}

void put_identity_first(std::vector<double>& color, int64_t batch, int64_t channels) {
  const ColorMatrix identity = identity_color(channels);
  const auto step = static_cast<size_t>(channels * (channels + 1));
  const size_t steps = color.size() / static_cast<size_t>(batch);
  std::vector<double> with_identity;
  for (size_t i = 0; i < color.size(); i += steps) {
    const auto own = color.begin() + static_cast<int64_t>(i);
    with_identity.insert(with_identity.end(), identity.begin(),
                         identity.begin() + static_cast<int64_t>(step));
    with_identity.insert(with_identity.end(), own, own + static_cast<int64_t>(steps));
  }
  color = std::move(with_identity);
}

}  // namespace visops
