// The colour steps of chains: drawn, and composed into one matrix per sample.
#include <algorithm>

#include "core/philox.h"
#include "core/warp/chain_steps.h"

namespace visops {
namespace {

// first <- second * first, for colour matrices.
void chain_colors(const ColorMatrix& second, ColorMatrix& first, int64_t channels) {
  const int64_t row = channels + 1;
  ColorMatrix product;
  for (int64_t i = 0; i < channels * row; i += row) {
    for (int64_t j = 0; j < row; ++j) {
      double element = j == channels ? second[i + channels] : 0.0;
      for (int64_t k = 0; k < channels; ++k) element += second[i + k] * first[k * row + j];
      product[i + j] = element;
    }
  }
  std::copy_n(product.begin(), channels * row, first.begin());
}

enum Jitter { kBrightness, kContrast, kSaturation, kHue };

// Whether brightness comes before contrast in the order that a number draws.
bool brightness_first(double uniform) {
  int order[4] = {kBrightness, kContrast, kSaturation, kHue};
  for (int i = static_cast<int>(uniform * 24.0); i > 0; --i)
    std::next_permutation(order, order + 4);
  return std::find(order, order + 4, kBrightness) < std::find(order, order + 4, kContrast);
}

// color.py's jitter: brightness and contrast (`scale`), saturation and hue, as C rows of C + 1.
ColorMatrix jitter(double scale, const double* saturation, const double* hue, const double* basis,
                   int64_t channels) {
  if (channels == 1) return {scale, 0.0};
  double c = 0.0, s = 0.0;
  if (hue != nullptr) {
    const double angle = *hue * (2.0 * kPi);
    c = cosine(angle);
    s = sine(angle);
  }
  ColorMatrix matrix = {};
  for (int i = 0; i < 9; ++i) {
    double turned = i % 4 == 0 ? 1.0 : 0.0;
    if (hue != nullptr) turned = basis[3 * i] + c * basis[3 * i + 1] + s * basis[3 * i + 2];
    if (saturation != nullptr) turned = *saturation * (turned - kGrey[i % 3]) + kGrey[i % 3];
    matrix[static_cast<size_t>(i / 3 * 4 + i % 3)] = scale * turned;
  }
  return matrix;
}

}  // namespace

// Four of: whether it is in use, low, high. Then the hue's basis: 9 triples.
bool color_jitter(const ChainStep& step, Uniforms& uniforms, Draft& draft) {
  const double* const n = step.numbers.data();
  const double* const basis = n + 12;
  const double* used[4] = {};
  double factors[4] = {};
  for (int kind = 0; kind < 4; ++kind) {
    if (n[3 * kind] == 0.0) continue;
    factors[kind] = between(step.draw(uniforms, 1 + kind), n[3 * kind + 1], n[3 * kind + 2]);
    used[kind] = &factors[kind];
  }
  ColorStep& color = *draft.colors++;
  const double brightness = factors[kBrightness], contrast = factors[kContrast];
  double scale = used[kContrast] == nullptr ? 1.0 : contrast;
  if (used[kBrightness] != nullptr) scale *= brightness;
  color.matrix = jitter(scale, used[kSaturation], used[kHue], basis, draft.channels);
  if (used[kContrast] == nullptr) return true;
  color.weight = 1.0 - contrast;
  if (used[kBrightness] != nullptr) {
    const bool earlier = brightness_first(step.draw(uniforms, 0));
    if (!earlier) color.weight *= brightness;
    color.before = jitter(earlier ? brightness : 1.0, nullptr, nullptr, basis, draft.channels);
    color.has_before = true;
  }
  color.at = draft.placement;
  return true;
}

// p
bool grayscale(const ChainStep& step, Uniforms& uniforms, Draft& draft) {
  if (draft.channels != 3) return true;
  ColorStep& color = *draft.colors++;
  const bool apply = step.draw(uniforms, 0) < step.numbers[0];
  for (size_t i = 0; i < 9; ++i) {
    const double kept = i % 4 == 0 ? 1.0 : 0.0;
    color.matrix[i / 3 * 4 + i % 3] = apply ? kGrey[i % 3] : kept;
  }
  return true;
}

void compose_colors(const ChainPlan& plan, GreyMeans& grey, double* composed) {
  const int64_t channels = plan.channels, size = channels * (channels + 1);
  const size_t batch = static_cast<size_t>(plan.batch);
  std::vector<ColorMatrix> merged(batch), prefix;
  std::vector<double> means, packed, taken;  // of each contrast so far: [batch], then
  std::vector<double> weights;               // [batch, C] what each adds to the offsets
  const auto pack = [&](const std::vector<ColorMatrix>& matrices, const std::vector<double>& added,
                        double* out) {
    for (size_t sample = 0; sample < batch; ++sample) {
      double* const matrix = out + static_cast<int64_t>(sample) * size;
      std::copy_n(matrices[sample].begin(), size, matrix);
      for (size_t mean = 0; mean * batch < means.size(); ++mean) {
        const size_t at = mean * batch + sample;
        for (int64_t c = 0; c < channels; ++c) {
          matrix[c * (channels + 1) + channels] +=
              means[at] * added[at * static_cast<size_t>(channels) + static_cast<size_t>(c)];
        }
      }
    }
  };
  // weights <- the linear part of a step, times weights
  const auto times = [&](const ColorMatrix& matrix, const double* weight, double* out) {
    for (int64_t i = 0; i < channels; ++i) {
      const double* const row = matrix.data() + i * (channels + 1);
      double sum = row[0] * weight[0];
      for (int64_t k = 1; k < channels; ++k) sum += row[k] * weight[k];
      out[i] = sum;
    }
  };
  const auto moved = [&](int64_t step, bool before) {
    std::vector<double> out(weights.size());
    for (size_t at = 0; at * static_cast<size_t>(channels) < weights.size(); ++at) {
      const ColorStep& own = plan.colors[(at % batch) * static_cast<size_t>(plan.color_steps) +
                                         static_cast<size_t>(step)];
      const size_t place = at * static_cast<size_t>(channels);
      times(before ? own.before : own.matrix, weights.data() + place, out.data() + place);
    }
    return out;
  };
  for (int64_t step = 0; step < plan.color_steps; ++step) {
    const auto own = [&](size_t sample) -> const ColorStep& {
      return plan
          .colors[sample * static_cast<size_t>(plan.color_steps) + static_cast<size_t>(step)];
    };
    bool contrast = false;
    for (size_t sample = 0; sample < batch; ++sample) contrast |= own(sample).weight != 0.0;
    if (contrast) {
      const bool has_before = own(0).has_before;
      if (has_before || step > 0) {
        prefix = merged;
        for (size_t sample = 0; sample < batch && has_before; ++sample) {
          if (step > 0) {
            chain_colors(own(sample).before, prefix[sample], channels);
          } else {
            prefix[sample] = own(sample).before;
          }
        }
        packed.resize(batch * static_cast<size_t>(size));
        pack(prefix, has_before ? moved(step, true) : weights, packed.data());
      }
      taken.resize(batch);
      grey.take(plan, step, has_before || step > 0 ? packed.data() : nullptr, taken.data());
    }
    if (!means.empty()) weights = moved(step, false);
    if (contrast) {
      means.insert(means.end(), taken.begin(), taken.end());
      for (size_t sample = 0; sample < batch; ++sample) {
        weights.insert(weights.end(), static_cast<size_t>(channels), own(sample).weight);
      }
    }
    for (size_t sample = 0; sample < batch; ++sample) {
      if (step == 0) {
        merged[sample] = own(sample).matrix;
      } else {
        chain_colors(own(sample).matrix, merged[sample], channels);
      }
    }
  }
  pack(merged, weights, composed);
}

}  // namespace visops
