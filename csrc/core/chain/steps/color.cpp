// Steps that change colours: each is an affine map of the channels, v' = A v + a.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/chain/steps/families.h"

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

// Ranges of those kinds that are in use
class ColorJitter : public ChainStep {
 public:
  explicit ColorJitter(FieldReader& fields) {
    uniforms(5);
    param("order", ParamSpec::kWhole, 4);
    for (int kind = 0; kind < 4; ++kind) {
      used_[kind] = fields.has(kNames[kind]);
      if (!used_[kind]) continue;
      fields.numbers(kNames[kind], range_[kind]);
      param(kNames[kind]);
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

// The fields of ColorJitter, and p
class PhotometricDistort : public ColorJitter {
 public:
  explicit PhotometricDistort(FieldReader& fields) : ColorJitter(fields), p_(fields.number("p")) {
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
  explicit Grayscale(FieldReader&) { uniforms(1); }

  void extend(const double*, PlanBuilder& plan) const override { add_grey(true, plan); }
};

class RandomGrayscale : public ChainStep {
 public:
  explicit RandomGrayscale(FieldReader& fields) : p_(fields.number("p")) {
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

// v' = scale v + shift; `shift` has each channel's range, or one for all channels
class ScaleAndShift : public ChainStep {
 public:
  explicit ScaleAndShift(FieldReader& fields) {
    p_ = fields.number("p");
    fields.numbers("scale", scale_);
    shifts_ = fields.list("shift");
    if (shifts_.empty() || shifts_.size() % 2 != 0) fields.refuse("has a 'shift' without pairs");
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

// A matrix of C rows of C + 1 numbers, and perhaps `variation`, what an amount of 1 adds to it
class ColorMatrixStep : public ChainStep {
 public:
  explicit ColorMatrixStep(FieldReader& fields) {
    p_ = fields.number("p");
    fields.numbers("amount", amount_);
    channels_ = fields.whole("channels");
    if (channels_ < 1 || channels_ > kMostColorChannels) fields.refuse("takes 1 to 4 channels");
    const auto size = static_cast<size_t>(channels_ * (channels_ + 1));
    std::copy_n(fields.list("matrix", size).begin(), size, matrix_.begin());
    if (fields.has("variation")) {
      std::copy_n(fields.list("variation", size).begin(), size, variation_.begin());
    }
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

class ChannelPermutation : public ChainStep {
 public:
  explicit ChannelPermutation(FieldReader&) {
    uniforms(kCount);
    param("permutation", ParamSpec::kWhole, kCount);
  }

  // The places of the numbers in order of size.
  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    const int64_t count = std::min(kCount, sample.channels);
    for (int64_t i = count; i < kCount; ++i) params[i] = static_cast<double>(i);
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
    if (channels > kCount) return plan.color({});  // which refuses them
    ColorMatrix matrix = {};
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t from = std::clamp<int64_t>(static_cast<int64_t>(params[c]), 0, channels - 1);
      matrix[static_cast<size_t>(c * (channels + 1) + from)] = 1.0;
    }
    plan.color(matrix, false);
  }

 private:
  static constexpr int64_t kCount = kMostColorChannels;
};

constexpr StepKind kKinds[] = {
    {"ScaleAndShift", make_of<ScaleAndShift>},
    {"ColorMatrix", make_of<ColorMatrixStep>},
    {"ChannelPermutation", make_of<ChannelPermutation>},
    {"ColorJitter", make_of<ColorJitter>},
    {"RandomPhotometricDistort", make_of<PhotometricDistort>},
    {"Grayscale", make_of<Grayscale>},
    {"RandomGrayscale", make_of<RandomGrayscale>},
};

}  // namespace

StepPointer make_color_step(const std::string& name, FieldReader& fields) {
  return find_step(kKinds, name, fields);
}

}  // namespace visops
