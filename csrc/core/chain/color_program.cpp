#include "core/chain/color_program.h"

#include <algorithm>

namespace visops {
namespace {

// second * first, for colour matrices.
ColorMatrix product(const ColorMatrix& second, const ColorMatrix& first, int64_t channels) {
  const int64_t row = channels + 1;
  ColorMatrix out = {};
  const auto at = [](const ColorMatrix& m, int64_t i) { return m[static_cast<size_t>(i)]; };
  for (int64_t i = 0; i < channels * row; i += row) {
    for (int64_t j = 0; j < row; ++j) {
      double element = j == channels ? at(second, i + channels) : 0.0;
      for (int64_t k = 0; k < channels; ++k) element += at(second, i + k) * at(first, k * row + j);
      out[static_cast<size_t>(i + j)] = element;
    }
  }
  return out;
}

// Composes all steps into one.
class Merged {
 public:
  explicit Merged(const ChainPlan& plan)
      : plan_(plan), batch_(static_cast<size_t>(plan.batch)), channels_(plan.color_channels()) {}

  ColorProgram compose() {
    ColorProgram program;
    for (size_t step = 0; step < plan_.colors.size(); ++step) {
      const ColorSteps& steps = plan_.colors[step];
      const bool takes = steps.takes_means();
      if (takes) program.rounds.push_back({step, prefix(steps), {}});
      for (auto& weights : weights_) weights = moved(steps, weights, false);
      if (takes) add_weights(steps);
      for (size_t i = 0; i < batch_; ++i) {
        const ColorMatrix& own = steps.samples[i].matrix;
        if (step == 0) {
          merged_.push_back(own);
        } else {
          merged_[i] = product(own, merged_[i], channels_);
        }
      }
    }
    program.whole = packed(merged_, weights_);
    return program;
  }

 private:
  using Weights = std::vector<double>;  // [batch, C]

  ColorMatrices prefix(const ColorSteps& steps) const {
    if (merged_.empty() && !steps.has_before) return {};
    std::vector<ColorMatrix> matrices(batch_);
    for (size_t i = 0; i < batch_; ++i) {
      const ColorMatrix& before = steps.samples[i].before;
      if (!steps.has_before) {
        matrices[i] = merged_[i];
      } else {
        matrices[i] = merged_.empty() ? before : product(before, merged_[i], channels_);
      }
    }
    std::vector<Weights> weights = weights_;
    if (steps.has_before) {
      for (Weights& own : weights) own = moved(steps, own, true);
    }
    return packed(matrices, weights);
  }

  // The linear parts of a step, or of what comes before its mean, times weights.
  Weights moved(const ColorSteps& steps, const Weights& weights, bool before) const {
    Weights out(weights.size());
    const size_t count = static_cast<size_t>(channels_);
    for (size_t i = 0; i < batch_; ++i) {
      const ColorMatrix& matrix = before ? steps.samples[i].before : steps.samples[i].matrix;
      for (size_t c = 0; c < count; ++c) {
        const double* const row = matrix.data() + c * (count + 1);
        double sum = row[0] * weights[i * count];
        for (size_t k = 1; k < count; ++k) sum += row[k] * weights[i * count + k];
        out[i * count + c] = sum;
      }
    }
    return out;
  }

  void add_weights(const ColorSteps& steps) {
    Weights weights;
    for (const ColorStep& own : steps.samples) {
      weights.insert(weights.end(), static_cast<size_t>(channels_), own.weight);
    }
    weights_.push_back(std::move(weights));
  }

  ColorMatrices packed(const std::vector<ColorMatrix>& matrices,
                       const std::vector<Weights>& weights) const {
    const int64_t size = channels_ * (channels_ + 1);
    ColorMatrices out = {1, {}, weights};
    out.elements.reserve(batch_ * static_cast<size_t>(size));
    for (const ColorMatrix& matrix : matrices) {
      out.elements.insert(out.elements.end(), matrix.begin(), matrix.begin() + size);
    }
    return out;
  }

  const ChainPlan& plan_;
  size_t batch_;
  int64_t channels_;
  std::vector<ColorMatrix> merged_;
  std::vector<Weights> weights_;  // of each round so far
};

// Keeps all steps: each is followed by a clamp.
class Stepwise {
 public:
  explicit Stepwise(const ChainPlan& plan)
      : plan_(plan), batch_(static_cast<size_t>(plan.batch)), count_(plan.colors.size()) {}

  ColorProgram compose() {
    ColorProgram program;
    find_rounds();
    for (size_t round = 0; round < rounds_.size(); ++round) {
      MeanRound own = {rounds_[round].step, {}, std::vector<uint8_t>(batch_)};
      std::vector<size_t> positions(batch_);  // of the contrast: how many steps come before
      size_t most = 0;
      bool any_plain = false;
      for (size_t i = 0; i < batch_; ++i) {
        const double* const weights = rounds_[round].weights.data() + i * count_;
        const auto found =
            std::find_if(weights, weights + count_, [](double w) { return w != 0.0; });
        positions[i] = found == weights + count_ ? 0 : static_cast<size_t>(found - weights);
        own.plain[i] = positions[i] == 0 ? 1 : 0;
        any_plain |= positions[i] == 0;
        most = std::max(most, positions[i]);
      }
      if (most > 0) own.before = matrices(most, &positions, round);
      if (most == 0 || !any_plain) own.plain.clear();
      program.rounds.push_back(std::move(own));
    }
    program.whole = matrices(count_, nullptr, rounds_.size());
    return program;
  }

 private:
  struct Round {
    size_t step;
    std::vector<double> weights;  // [batch, steps]
  };

  // Contrasts whose means can be taken together: the steps of one jitter, which may place each
  // sample's contrast differently.
  void find_rounds() {
    for (size_t step = 0; step < count_; ++step) {
      const ColorSteps& steps = plan_.colors[step];
      if (!steps.takes_means()) continue;
      if (!joins_last(steps)) rounds_.push_back({step, std::vector<double>(batch_ * count_)});
      for (size_t i = 0; i < batch_; ++i) {
        rounds_.back().weights[i * count_ + step] = steps.samples[i].weight;
      }
    }
  }

  bool joins_last(const ColorSteps& steps) const {
    if (rounds_.empty() || plan_.colors[rounds_.back().step].moves != steps.moves) return false;
    for (size_t i = 0; i < batch_; ++i) {
      const double* const taken = rounds_.back().weights.data() + i * count_;
      if (steps.samples[i].weight != 0.0 &&
          std::any_of(taken, taken + count_, [](double w) { return w != 0.0; })) {
        return false;
      }
    }
    return true;
  }

  // The first steps; where `positions` says so, those from a sample's place on are the identity.
  ColorMatrices matrices(size_t steps, const std::vector<size_t>* positions, size_t rounds) const {
    const int64_t channels = plan_.color_channels(), size = channels * (channels + 1);
    const ColorMatrix nothing = identity_color(channels);
    ColorMatrices out = {static_cast<int64_t>(steps), {}, {}};
    for (size_t i = 0; i < batch_; ++i) {
      for (size_t step = 0; step < steps; ++step) {
        const bool taken = positions == nullptr || step < (*positions)[i];
        const ColorMatrix& matrix = taken ? plan_.colors[step].samples[i].matrix : nothing;
        out.elements.insert(out.elements.end(), matrix.begin(), matrix.begin() + size);
      }
    }
    for (size_t round = 0; round < rounds; ++round) {
      std::vector<double> weights;
      for (size_t i = 0; i < batch_; ++i) {
        for (size_t step = 0; step < steps; ++step) {
          const bool taken = positions == nullptr || step < (*positions)[i];
          const double weight = taken ? rounds_[round].weights[i * count_ + step] : 0.0;
          weights.insert(weights.end(), static_cast<size_t>(channels), weight);
        }
      }
      out.weights.push_back(std::move(weights));
    }
    return out;
  }

  const ChainPlan& plan_;
  size_t batch_, count_;
  std::vector<Round> rounds_;
};

}  // namespace

void write_mean_grid(const GeometryState& at, double* matrix) {
  const double side = static_cast<double>(kMeanGrid);
  const double x_scale = side / at.canvas.width, y_scale = side / at.canvas.height;
  const double own = side * side / (side * side - 1.0), other = side / (side * side - 1.0);
  const double shift = 0.5 * (own - other);
  for (int i = 0; i < 3; ++i) {
    const double x = at.matrix[i] * x_scale, y = at.matrix[3 + i] * y_scale;
    matrix[i] = x * own - y * other;
    matrix[3 + i] = y * own - x * other;
  }
  if (at.projective) {
    for (int i = 0; i < 3; ++i) {
      matrix[6 + i] = at.matrix[6 + i];
      matrix[i] += at.matrix[6 + i] * shift;
      matrix[3 + i] += at.matrix[6 + i] * shift;
    }
  } else {
    matrix[2] += shift;
    matrix[5] += shift;
  }
}

ColorProgram color_program(const ChainPlan& plan) {
  if (plan.colors.empty()) return {};
  return plan.exact ? Stepwise(plan).compose() : Merged(plan).compose();
}

std::vector<double> with_means(const ColorMatrices& colors, int64_t batch, int64_t channels,
                               const std::vector<std::vector<double>>& means) {
  std::vector<double> out = colors.elements;
  const int64_t rows = colors.steps * channels;
  for (size_t mean = 0; mean < colors.weights.size(); ++mean) {
    for (int64_t i = 0; i < batch; ++i) {
      const double value = means[mean][static_cast<size_t>(i)];
      for (int64_t row = 0; row < rows; ++row) {
        const size_t at = static_cast<size_t>(i * rows + row);
        out[at * static_cast<size_t>(channels + 1) + static_cast<size_t>(channels)] +=
            value * colors.weights[mean][at];
      }
    }
  }
  return out;
}

}  // namespace visops
