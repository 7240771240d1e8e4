#include "core/chain/plan.h"

#include <algorithm>

#include "core/check.h"

namespace visops {

bool ColorSteps::takes_means() const {
  return !at.empty() && std::any_of(samples.begin(), samples.end(),
                                    [](const ColorStep& step) { return step.weight != 0.0; });
}

ChainPlan::ChainPlan(const int64_t* sizes, int64_t batch, int64_t channels, bool exact)
    : batch(batch), channels(channels), exact(exact) {
  samples.reserve(static_cast<size_t>(batch));
  for (int64_t i = 0; i < batch; ++i) {
    samples.emplace_back(
        Canvas{static_cast<double>(sizes[2 * i]), static_cast<double>(sizes[2 * i + 1])});
  }
}

std::vector<PixelOperation> operations_of(const ChainPlan& plan, size_t sample, int64_t frame) {
  constexpr int64_t kMostFrames = int64_t{1} << 24;
  std::vector<PixelOperation> own = plan.operations.at(sample);
  for (PixelOperation& operation : own) {
    operation = of_image(operation, plan.image * kMostFrames + frame);
  }
  return own;
}

ChainPlan plan_of_sample(const ChainPlan& plan, size_t sample, int64_t frame) {
  const int64_t size[2] = {1, 1};
  ChainPlan own(size, 1, plan.channels, plan.exact);
  own.samples = {plan.samples.at(sample)};
  for (const ColorSteps& steps : plan.colors) {
    own.colors.push_back({{steps.samples.at(sample)}, steps.has_before, steps.moves, {}});
    if (!steps.at.empty()) own.colors.back().at = {steps.at.at(sample)};
  }
  for (const std::vector<double>& rectangles : plan.erased) {
    const auto first = rectangles.begin() + static_cast<int64_t>(4 * sample);
    own.erased.emplace_back(first, first + 4);
  }
  if (!plan.operations.empty()) own.operations = {operations_of(plan, sample, frame)};
  if (!plan.modes.empty()) own.modes = {plan.modes.at(sample)};
  own.moves = plan.moves;
  own.clamps = plan.clamps;
  return own;
}

ChainPlan plan_of_frames(const ChainPlan& plan, int64_t frames) {
  const auto each = [frames](const auto& list, size_t width) {
    auto all = list;
    all.clear();
    for (size_t i = 0; i < list.size(); i += width) {
      const auto first = list.begin() + static_cast<int64_t>(i);
      for (int64_t f = 0; f < frames; ++f) {
        all.insert(all.end(), first, first + static_cast<int64_t>(width));
      }
    }
    return all;
  };
  ChainPlan own = plan;
  own.batch = plan.batch * frames;
  own.image = 0;
  own.samples = each(plan.samples, 1);
  own.modes = each(plan.modes, 1);
  own.left_out = each(plan.left_out, 1);
  for (ColorSteps& steps : own.colors) {
    steps.samples = each(steps.samples, 1);
    steps.at = each(steps.at, 1);
  }
  for (std::vector<double>& rectangles : own.erased) rectangles = each(rectangles, 4);
  own.operations.clear();
  for (size_t i = 0; i < plan.operations.size(); ++i) {
    for (int64_t f = 0; f < frames; ++f) own.operations.push_back(operations_of(plan, i, f));
  }
  return own;
}

PlanBuilder::PlanBuilder(ChainPlan& plan, int64_t sample, size_t colors, size_t erased)
    : plan_(plan),
      state_(plan.samples[static_cast<size_t>(sample)]),
      sample_(sample),
      color_(colors),
      erase_(erased),
      left_out_(!plan.left_out.empty() && plan.left_out[static_cast<size_t>(sample)] != 0) {}

void PlanBuilder::count_move() {
  if (sample_ == 0) ++plan_.moves;
}

void PlanBuilder::scale(double x_scale, double y_scale, double x_shift, double y_shift,
                        const Canvas& after, bool cuts) {
  count_move();
  state_.scale(x_scale, y_scale, x_shift, y_shift, after, plan_.exact, cuts);
}

void PlanBuilder::shift(double x, double y, const Canvas& after, bool cuts) {
  count_move();
  state_.shift(x, y, after, plan_.exact, cuts);
}

void PlanBuilder::affine(const double (&m)[6], const Canvas& after) {
  count_move();
  state_.affine(m, after);
}

void PlanBuilder::perspective(const double (&m)[9], const Canvas& after) {
  count_move();
  state_.perspective(m, after);
}

ColorSteps& PlanBuilder::next_color(bool alike) {
  require(alike || plan_.channels <= kMostColorChannels, "transforms", "images have ",
          plan_.channels, " channels, must have at most ", kMostColorChannels,
          " for what mixes them");
  if (color_ == plan_.colors.size()) {
    plan_.colors.emplace_back();
    plan_.colors.back().samples.resize(static_cast<size_t>(plan_.batch));
    plan_.colors.back().moves = plan_.moves;
  }
  return plan_.colors[color_++];
}

void PlanBuilder::color(const ColorMatrix& matrix, bool clamps) {
  plan_.clamps |= clamps;
  next_color().samples[static_cast<size_t>(sample_)].matrix =
      left_out_ ? identity_color(plan_.channels) : matrix;
}

void PlanBuilder::color_alike(double scale, double shift) {
  plan_.clamps = true;
  const int64_t count = plan_.color_channels();
  ColorMatrix matrix = identity_color(count);
  for (int64_t c = 0; c < count && !left_out_; ++c) {
    matrix[static_cast<size_t>(c * (count + 2))] = scale;
    matrix[static_cast<size_t>(c * (count + 1) + count)] = shift;
  }
  next_color(true).samples[static_cast<size_t>(sample_)].matrix = matrix;
}

void PlanBuilder::color(const ColorMatrix& matrix, double weight, const ColorMatrix* before) {
  require(plan_.channels != 2, "transforms",
          "images have 2 channels, must have 1, 3 or 4 for a contrast, which takes a grey mean");
  plan_.clamps = true;
  ColorSteps& steps = next_color();
  ColorStep& own = steps.samples[static_cast<size_t>(sample_)];
  own.matrix = left_out_ ? identity_color(plan_.channels) : matrix;
  own.weight = left_out_ ? 0.0 : weight;
  if (before != nullptr) {
    own.before = left_out_ ? identity_color(plan_.channels) : *before;
    steps.has_before = true;
  }
  if (steps.at.empty()) steps.at = plan_.samples;  // those of later samples are not there yet
  steps.at[static_cast<size_t>(sample_)] = state_;
}

void PlanBuilder::erase(double x1, double y1, double x2, double y2) {
  if (erase_ == plan_.erased.size()) {
    plan_.erased.emplace_back(static_cast<size_t>(plan_.batch) * 4);
  }
  double* const out = plan_.erased[erase_++].data() + 4 * sample_;
  const double corners[4] = {x1, y1, x2, y2};
  if (!left_out_) std::copy_n(corners, 4, out);
}

void PlanBuilder::pixels(const PixelOperation& operation) {
  plan_.operations.resize(static_cast<size_t>(plan_.batch));
  if (left_out_ || operation.kind == PixelKind::kIdentity) return;
  plan_.operations[static_cast<size_t>(sample_)].push_back(operation);
}

void PlanBuilder::interpolation(uint8_t number) {
  plan_.modes.resize(static_cast<size_t>(plan_.batch));
  if (!left_out_) plan_.modes[static_cast<size_t>(sample_)] = number;
}

ColorMatrix identity_color(int64_t channels) {
  ColorMatrix matrix = {};
  for (int64_t c = 0; c < channels; ++c) matrix[static_cast<size_t>(c * (channels + 2))] = 1.0;
  return matrix;
}

}  // namespace visops
