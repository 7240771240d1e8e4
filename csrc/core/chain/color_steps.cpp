// Steps that change colours: each is an affine map of the channels, v' = A v + a.
#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "core/chain/families.h"
#include "core/chain/numbers.h"

namespace visops {
namespace {

using Numbers = std::vector<double>;

// As in YIQ, hue turns about the grey axis in planes of equal luma. Each plane's axes are chosen so
// that red, green and blue lie 120 degrees apart, as they do on HSV's wheel. A shift by t has
// matrix elements still + along cos t + across sin t.
struct HueBasis {
  double constant[9], along[9], across[9];

  HueBasis() {
    const double total = kGrey[0] + kGrey[1] + kGrey[2];
    double luma[3], x[3], y[3], to_x[3], to_y[3], x_luma = 0.0, y_luma = 0.0;
    for (int i = 0; i < 3; ++i) {
      luma[i] = kGrey[i] / total;
      x[i] = cosine(i * 2.0 * kPi / 3.0);
      y[i] = sine(i * 2.0 * kPi / 3.0);
    }
    // The axes' directions: x and y, shifted along the grey axis to a luma of 0.
    for (int i = 0; i < 3; ++i) {
      x_luma += luma[i] * x[i];
      y_luma += luma[i] * y[i];
    }
    for (int i = 0; i < 3; ++i) {
      to_x[i] = (x[i] - x_luma) / 1.5;
      to_y[i] = (y[i] - y_luma) / 1.5;
    }
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) {
        constant[3 * i + j] = luma[j];
        along[3 * i + j] = to_x[i] * x[j] + to_y[i] * y[j];
        across[3 * i + j] = to_y[i] * x[j] - to_x[i] * y[j];
      }
    }
  }
};

}  // namespace

ColorMatrix jitter_matrix(double scale, const double* saturation, const double* hue,
                          int64_t channels) {
  static const HueBasis basis;
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
    if (hue != nullptr) turned = basis.constant[i] + c * basis.along[i] + s * basis.across[i];
    if (saturation != nullptr) turned = *saturation * (turned - kGrey[i % 3]) + kGrey[i % 3];
    matrix[static_cast<size_t>(i / 3 * 4 + i % 3)] = scale * turned;
  }
  return matrix;
}

namespace {

enum Kind { kBrightness, kContrast, kSaturation, kHue };

constexpr const char* kNames[] = {"brightness", "contrast", "saturation", "hue"};

// The orders of four kinds, in lexicographic order.
const std::array<std::array<double, 4>, 24>& orders() {
  static const auto all = [] {
    std::array<std::array<double, 4>, 24> found;
    std::array<double, 4> order = {0.0, 1.0, 2.0, 3.0};
    for (auto& own : found) {
      own = order;
      std::next_permutation(order.begin(), order.end());
    }
    return found;
  }();
  return all;
}

// Four of: whether it is in use, low, high.
class ColorJitter : public ChainStep {
 public:
  explicit ColorJitter(const Numbers& numbers) {
    Reader n(numbers);
    uniforms(5);
    param("order", ParamSpec::kWhole, 4);
    for (int kind = 0; kind < 4; ++kind) {
      used_[kind] = n.flag();
      n.numbers(range_[kind]);
      if (used_[kind]) param(kNames[kind]);
    }
  }

  void draw(const Draws& uniforms, const Sample&, double* params) const override {
    put_order(orders()[static_cast<size_t>(uniforms[0] * 24.0)], params);
    draw_factors(uniforms.from(1), params + 4);
  }

  void extend(const double* params, PlanBuilder& plan) const override {
    const double* factors[4] = {};
    const double* next = params + 4;
    for (int kind = 0; kind < 4; ++kind) {
      if (used_[kind]) factors[kind] = next++;
    }
    if (next == params + 4) return;
    const bool scales_only = used_[kBrightness] && next == params + 5;
    if (scales_only) return plan.color_alike(*factors[kBrightness], 0.0);
    if (plan.channels() > kMostColorChannels) return plan.color({});  // which refuses them
    if (plan.channels() == 1) factors[kSaturation] = factors[kHue] = nullptr;
    if (plan.exact()) return extend_by_steps(params, factors, plan);
    // Unclamped, the steps commute: S H = s H + (1 - s) G, since H keeps luma and grey. Nor does
    // the grey mean depend on their order, except on where brightness comes: it may clamp.
    const double *brightness = factors[kBrightness], *contrast = factors[kContrast];
    double scale = contrast == nullptr ? 1.0 : *contrast;
    if (brightness != nullptr) scale *= *brightness;
    const int64_t channels = plan.channels();
    const ColorMatrix matrix = jitter_matrix(scale, factors[kSaturation], factors[kHue], channels);
    if (contrast == nullptr) return plan.color(matrix);
    const double weight = 1.0 - *contrast;
    if (brightness == nullptr) return plan.color(matrix, weight);
    const bool earlier = position(params, kBrightness) < position(params, kContrast);
    const ColorMatrix before =
        jitter_matrix(earlier ? *brightness : 1.0, nullptr, nullptr, channels);
    plan.color(matrix, earlier ? weight : weight * *brightness, &before);
  }

 protected:
  template <class Order>
  static void put_order(const Order& order, double* params) {
    std::copy_n(order.begin(), 4, params);
  }
  void draw_factors(const Draws& uniforms, double* params) const {
    for (int kind = 0; kind < 4; ++kind) {
      if (used_[kind]) *params++ = uniforms.between(kind, range_[kind][0], range_[kind][1]);
    }
  }
  bool used(int kind) const { return used_[kind]; }

 private:
  static int position(const double* order, Kind kind) {
    return static_cast<int>(std::find(order, order + 4, static_cast<double>(kind)) - order);
  }

  // A step for each kind in use, in the sample's order; each clamps its values.
  void extend_by_steps(const double* order, const double* const (&factors)[4],
                       PlanBuilder& plan) const {
    for (int i = 0; i < 4; ++i) {
      const int kind = static_cast<int>(order[i]);
      if (kind < 0 || kind > 3 || factors[kind] == nullptr) continue;
      const double* const factor = factors[kind];
      const bool scales = kind == kBrightness || kind == kContrast;
      const ColorMatrix matrix =
          jitter_matrix(scales ? *factor : 1.0, kind == kSaturation ? factor : nullptr,
                        kind == kHue ? factor : nullptr, plan.channels());
      // Samples take contrast at different places, so every step may have a weight.
      if (used_[kContrast]) {
        plan.color(matrix, kind == kContrast ? 1.0 - *factor : 0.0);
      } else {
        plan.color(matrix);
      }
    }
  }

  bool used_[4];
  double range_[4][2];
};

ColorMatrix rows_of(const double (&linear)[9]) {
  ColorMatrix matrix = {};
  for (size_t i = 0; i < 9; ++i) matrix[i / 3 * 4 + i % 3] = linear[i];
  return matrix;
}

// Those of ColorJitter; p
class PhotometricDistort : public ColorJitter {
 public:
  explicit PhotometricDistort(const Numbers& numbers) : ColorJitter(numbers), p_(numbers[12]) {
    uniforms(11);
    param("permutation", ParamSpec::kWhole);
  }

  void draw(const Draws& uniforms, const Sample&, double* params) const override {
    constexpr std::array<double, 4> kBefore = {kBrightness, kContrast, kSaturation, kHue};
    constexpr std::array<double, 4> kAfter = {kBrightness, kSaturation, kHue, kContrast};
    put_order(uniforms[8] < 0.5 ? kBefore : kAfter, params);
    draw_factors(uniforms, params + 4);
    double* next = params + 4;
    for (int kind = 0; kind < 4; ++kind) {
      if (!used(kind)) continue;
      if (!(uniforms[4 + kind] < p_)) *next = kind == kHue ? 0.0 : 1.0;
      ++next;
    }
    *next = uniforms[9] < p_ ? std::floor(uniforms[10] * 6.0) : 0.0;
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    ColorJitter::extend(params, plan);
    if (plan.channels() != 3) return;
    int order[3] = {0, 1, 2};
    for (int i = static_cast<int>(params[num_params() - 1]); i > 0; --i) {
      std::next_permutation(order, order + 3);
    }
    double linear[9] = {};
    for (int i = 0; i < 3; ++i) linear[3 * i + order[i]] = 1.0;
    plan.color(rows_of(linear));
  }

 private:
  double p_;
};

// Makes all three channels grey, or changes nothing.
void add_grey(bool applies, PlanBuilder& plan) {
  if (plan.channels() != 3) return;
  double linear[9];
  for (int i = 0; i < 9; ++i) linear[i] = applies ? kGrey[i % 3] : (i % 4 == 0 ? 1.0 : 0.0);
  plan.color(rows_of(linear), false);  // a mean of values
}

// The pass may make another number of the equal channels. It draws nothing, but has a number.
class Grayscale : public ChainStep {
 public:
  explicit Grayscale(const Numbers&) { uniforms(1); }

  void extend(const double*, PlanBuilder& plan) const override { add_grey(true, plan); }
};

// p
class RandomGrayscale : public ChainStep {
 public:
  explicit RandomGrayscale(const Numbers& numbers) : p_(numbers[0]) {
    uniforms(1);
    param("apply", ParamSpec::kFlag);
  }

  void draw(const Draws& uniforms, const Sample&, double* params) const override {
    params[0] = uniforms[0] < p_ ? 1.0 : 0.0;
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    add_grey(params[0] != 0.0, plan);
  }

 private:
  double p_;
};

// p; the scale's range; then each channel's range of what is added, or one for all channels
class ScaleAndShift : public ChainStep {
 public:
  explicit ScaleAndShift(const Numbers& numbers) {
    Reader n(numbers);
    p_ = n.number();
    n.numbers(scale_);
    shifts_.assign(numbers.begin() + 3, numbers.end());
    if (shifts_.empty() || shifts_.size() % 2 != 0) {
      throw std::invalid_argument("ranges of shifts must be pairs");
    }
    const int64_t count = static_cast<int64_t>(shifts_.size() / 2);
    uniforms(2 + count);
    param("apply", ParamSpec::kFlag);
    param("scale");
    param("shift", ParamSpec::kNumber, count);
  }

  void draw(const Draws& uniforms, const Sample&, double* params) const override {
    params[0] = uniforms[0] < p_ ? 1.0 : 0.0;
    params[1] = uniforms.between(1, scale_[0], scale_[1]);
    for (size_t i = 0; i < shifts_.size() / 2; ++i) {
      params[2 + i] =
          uniforms.between(2 + static_cast<int64_t>(i), shifts_[2 * i], shifts_[2 * i + 1]);
    }
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    const bool applies = params[0] != 0.0;
    if (shifts_.size() == 2) {
      return plan.color_alike(applies ? params[1] : 1.0, applies ? params[2] : 0.0);
    }
    const int64_t channels = plan.channels();
    if (channels > kMostColorChannels) return plan.color({});  // which refuses them
    ColorMatrix matrix = identity_color(channels);
    for (int64_t c = 0; c < channels && applies; ++c) {
      matrix[static_cast<size_t>(c * (channels + 2))] = params[1];
      matrix[static_cast<size_t>(c * (channels + 1) + channels)] = params[2 + c];
    }
    plan.color(matrix);
  }

 private:
  double p_, scale_[2];
  Numbers shifts_;
};

// p; the amount's range; C; a matrix of C rows of C + 1 numbers, and what an amount of 1 adds to it
class ColorMatrixStep : public ChainStep {
 public:
  explicit ColorMatrixStep(const Numbers& numbers) {
    Reader n(numbers);
    p_ = n.number();
    n.numbers(amount_);
    channels_ = static_cast<int64_t>(n.number());
    const int64_t size = channels_ * (channels_ + 1);
    if (channels_ < 1 || channels_ > kMostColorChannels ||
        numbers.size() != static_cast<size_t>(4 + 2 * size)) {
      throw std::invalid_argument("two matrices of 1 to 4 channels are needed");
    }
    std::copy_n(numbers.begin() + 4, size, matrix_.begin());
    std::copy_n(numbers.begin() + 4 + size, size, variation_.begin());
    uniforms(2);
    param("apply", ParamSpec::kFlag);
    param("amount");
  }

  void draw(const Draws& uniforms, const Sample&, double* params) const override {
    params[0] = uniforms[0] < p_ ? 1.0 : 0.0;
    params[1] = uniforms.between(1, amount_[0], amount_[1]);
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    ColorMatrix matrix = identity_color(channels_);
    for (size_t i = 0; i < matrix.size() && params[0] != 0.0; ++i) {
      matrix[i] = matrix_[i] + params[1] * variation_[i];
    }
    plan.color(matrix);
  }

 private:
  double p_, amount_[2];
  int64_t channels_;
  ColorMatrix matrix_ = {}, variation_ = {};
};

// The most channels that images may have
class ChannelPermutation : public ChainStep {
 public:
  explicit ChannelPermutation(const Numbers& numbers)
      : count_(std::min(static_cast<int64_t>(numbers[0]), kMostColorChannels)) {
    uniforms(count_);
    param("permutation", ParamSpec::kWhole, count_);
  }

  // The places of the numbers in order of size.
  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    const int64_t count = std::min(count_, sample.channels);
    for (int64_t i = count; i < count_; ++i) params[i] = static_cast<double>(i);
    for (int64_t i = 0; i < count; ++i) {
      int64_t position = 0;
      for (int64_t k = 0; k < count; ++k) {
        position += uniforms[k] < uniforms[i] || (uniforms[k] == uniforms[i] && k < i) ? 1 : 0;
      }
      params[position] = static_cast<double>(i);
    }
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    const int64_t channels = plan.channels();
    if (channels > count_) return plan.color({});  // which refuses them
    ColorMatrix matrix = {};
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t from = std::clamp<int64_t>(static_cast<int64_t>(params[c]), 0, channels - 1);
      matrix[static_cast<size_t>(c * (channels + 1) + from)] = 1.0;
    }
    plan.color(matrix, false);
  }

 private:
  int64_t count_;
};

constexpr StepKind kKinds[] = {
    {"ScaleAndShift", kAny, make_of<ScaleAndShift>},
    {"ColorMatrix", kAny, make_of<ColorMatrixStep>},
    {"ChannelPermutation", 1, make_of<ChannelPermutation>},
    {"ColorJitter", 12, make_of<ColorJitter>},
    {"RandomPhotometricDistort", 13, make_of<PhotometricDistort>},
    {"Grayscale", 0, make_of<Grayscale>},
    {"RandomGrayscale", 1, make_of<RandomGrayscale>},
};

}  // namespace

StepPointer make_color_step(const std::string& name, const Numbers& numbers) {
  return find_step(kKinds, name, numbers);
}

}  // namespace visops
