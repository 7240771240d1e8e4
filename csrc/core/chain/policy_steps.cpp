// Policies of AutoAugment's family: operations drawn for each sample.
#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "core/chain/families.h"
#include "core/chain/numbers.h"

namespace visops {
namespace {

using Numbers = std::vector<double>;

// The operations of torchvision's policies, in the order of OPERATIONS in
// ops/transforms/classes/policies.py; the first ones are linear.
enum Operation {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutocontrast,
  kEqualize,
  kInvert,
  kSolarizeAdd  // timm's
};

constexpr int kOfTimm = 15;  // all but the identity

constexpr int kLinear = kContrast + 1;

void add_moved(const AffineMap& map, PlanBuilder& plan) {
  PixelOperation operation = {PixelKind::kAffine};
  std::copy_n(map.m, 6, operation.matrix);
  plan.pixels(operation);
  plan.affine(map.m, plan.canvas());
}

// What torchvision's _apply_image_or_video_transform does. Shears fix the upper left corner.
void add_pixels(int operation, double magnitude, PlanBuilder& plan) {
  const Canvas canvas = plan.canvas();
  switch (operation) {
    case kShearX: return add_moved({{1.0, -magnitude, 0.0, 0.0, 1.0, 0.0}}, plan);
    case kShearY: return add_moved({{1.0, 0.0, 0.0, -magnitude, 1.0, 0.0}}, plan);
    case kTranslateX: return add_moved({{1.0, 0.0, std::trunc(magnitude), 0.0, 1.0, 0.0}}, plan);
    case kTranslateY: return add_moved({{1.0, 0.0, 0.0, 0.0, 1.0, std::trunc(magnitude)}}, plan);
    case kRotate: {
      const Rotation turn = rotation_of(magnitude);
      return add_moved(
          about(turn.c, turn.s, -turn.s, turn.c, canvas.width * 0.5, canvas.height * 0.5), plan);
    }
    case kBrightness: return plan.pixels({PixelKind::kBrightness, 1.0 + magnitude});
    case kColor: return plan.pixels({PixelKind::kSaturation, 1.0 + magnitude});
    case kContrast: return plan.pixels({PixelKind::kContrast, 1.0 + magnitude});
    case kSharpness: return plan.pixels({PixelKind::kSharpness, 1.0 + magnitude});
    case kPosterize: return plan.pixels({PixelKind::kPosterize, magnitude});
    case kSolarize: return plan.pixels({PixelKind::kSolarize, magnitude});
    case kAutocontrast: return plan.pixels({PixelKind::kAutocontrast});
    case kEqualize: return plan.pixels({PixelKind::kEqualize});
    case kInvert: return plan.pixels({PixelKind::kInvert});
    case kSolarizeAdd: return plan.pixels({PixelKind::kSolarizeAdd, magnitude});
    default: return plan.pixels({PixelKind::kIdentity});
  }
}

// What a shift's magnitude is multiplied by.
double side_of(int operation, bool is_relative, const Canvas& canvas) {
  if (!is_relative) return 1.0;
  return operation == kTranslateX ? canvas.width : operation == kTranslateY ? canvas.height : 1.0;
}

void require_count(const Numbers& numbers, size_t count) {
  if (numbers.size() != count) throw std::invalid_argument("another count of numbers");
}

// What a policy adds: some operations in turn, each a pair of parameters.
class Policy : public ChainStep {
 public:
  void extend(const double* params, PlanBuilder& plan) const override {
    for (int64_t i = 0; i < num_params() / 2; ++i) {
      add(static_cast<int>(params[2 * i]), params[2 * i + 1], plan);
    }
  }

 protected:
  virtual void add(int operation, double magnitude, PlanBuilder& plan) const {
    add_pixels(operation, magnitude, plan);
  }
  void add_params(int64_t count, bool numbered) {
    for (int64_t i = 0; i < count; ++i) {
      const std::string end = numbered ? "_" + std::to_string(i) : "";
      param("operation" + end, ParamSpec::kWhole);
      param("magnitude" + end);
    }
  }
};

// How many operations one after another; magnitude or -1, which draws it; bins; whether shifts are
// fractions of the image's sides; whether names end with the operation's place; the largest
// magnitude of each operation
class LinearPolicy : public Policy {
 public:
  explicit LinearPolicy(const Numbers& numbers) {
    Reader n(numbers);
    count_ = static_cast<int64_t>(n.number());
    magnitude_ = n.number();
    bins_ = n.number();
    relative_ = n.flag();
    const bool numbered = n.flag();
    n.numbers(reach_);
    uniforms(3 * count_);
    add_params(count_, numbered);
  }

  void draw(const Draws& all, const Sample& sample, double* params) const override {
    for (int64_t i = 0; i < count_; ++i, params += 2) {
      const Draws uniforms = all.from(3 * i);
      const int operation = static_cast<int>(uniforms[0] * static_cast<double>(kLinear));
      const double level = magnitude_ < 0.0 ? std::floor(uniforms[1] * bins_) : magnitude_;
      const double magnitude = reach_[operation] * (level / (bins_ - 1.0)) *
                               side_of(operation, relative_, sample.canvas);
      params[0] = operation;
      params[1] = uniforms[2] <= 0.5 ? -magnitude : magnitude;
    }
  }

 protected:
  // An operation's geometry and its colour step, of which at most one is not the identity. Shears
  // fix the upper left corner, as in AutoAugment's policies.
  void add(int operation, double magnitude, PlanBuilder& plan) const override {
    const auto of = [&](int own) { return operation == own ? magnitude : 0.0; };
    const Canvas canvas = plan.canvas();
    const Rotation turn = rotation_of(of(kRotate));
    const double turns = operation == kRotate ? 1.0 : 0.0;
    plan.affine(about(turn.c, turn.s - of(kShearX), -turn.s - of(kShearY), turn.c,
                      turns * canvas.width * 0.5, turns * canvas.height * 0.5,
                      std::trunc(of(kTranslateX)), std::trunc(of(kTranslateY)))
                    .m,
                canvas);
    const double contrast = of(kContrast), saturation = 1.0 + of(kColor);
    const double scale = 1.0 + of(kBrightness) + contrast;
    plan.color(jitter_matrix(scale, &saturation, nullptr, plan.channels()), -contrast);
  }

 private:
  int64_t count_;
  double magnitude_, bins_, reach_[kLinear];
  bool relative_;
};

// The magnitudes of an operation by level.
struct Space {
  int operation;
  bool is_signed;
  bool is_relative;  // magnitudes of shifts are shares of the image's side
  Numbers magnitudes;

  void read(Reader& n, size_t bins) {
    operation = static_cast<int>(n.number());
    is_signed = n.flag();
    is_relative = n.flag();
    magnitudes.resize(bins);
    for (double& magnitude : magnitudes) magnitude = n.number();
  }
  double magnitude(size_t level, double sign, const Canvas& canvas) const {
    const double found = magnitudes[level] * side_of(operation, is_relative, canvas);
    return is_signed && sign <= 0.5 ? -found : found;
  }
};

// How many operations; level or -1, which draws it; bins; whether names are numbered; how many
// spaces; then each space: operation, whether signed, whether shifts are shares of the image's
// sides, `bins` magnitudes
class RandomPolicy : public Policy {
 public:
  explicit RandomPolicy(const Numbers& numbers) {
    Reader n(numbers);
    count_ = static_cast<int64_t>(n.number());
    level_ = n.number();
    bins_ = n.number();
    const bool numbered = n.flag();
    spaces_.resize(static_cast<size_t>(n.number()));
    require_count(numbers, 5 + spaces_.size() * (3 + static_cast<size_t>(bins_)));
    for (Space& space : spaces_) space.read(n, static_cast<size_t>(bins_));
    uniforms(3 * count_);
    add_params(count_, numbered);
  }

  void draw(const Draws& all, const Sample& sample, double* params) const override {
    for (int64_t i = 0; i < count_; ++i) {
      const Draws uniforms = all.from(3 * i);
      const double position = std::floor(uniforms[0] * static_cast<double>(spaces_.size()));
      const Space& space = spaces_[static_cast<size_t>(position)];
      const double level = level_ < 0.0 ? std::floor(uniforms[1] * bins_) : level_;
      *params++ = space.operation;
      *params++ = space.magnitude(static_cast<size_t>(level), uniforms[2], sample.canvas);
    }
  }

 private:
  int64_t count_;
  double level_, bins_;
  std::vector<Space> spaces_;
};

// How many pairs; then each of two operations: probability, operation, whether signed, whether its
// shift is a share of the image's side, magnitude
class PairPolicy : public Policy {
 public:
  explicit PairPolicy(const Numbers& numbers) {
    Reader n(numbers);
    pairs_.resize(static_cast<size_t>(n.number()));
    require_count(numbers, 1 + pairs_.size() * 10);
    for (auto& pair : pairs_) {
      for (Step& step : pair) {
        step.p = n.number();
        step.space.read(n, 1);
      }
    }
    uniforms(5);
    add_params(2, true);
  }

  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    const double position = std::floor(uniforms[0] * static_cast<double>(pairs_.size()));
    const auto& pair = pairs_[static_cast<size_t>(position)];
    for (int i = 0; i < 2; ++i) {
      const Step& step = pair[static_cast<size_t>(i)];
      const bool applies = uniforms[1 + 2 * i] <= step.p;
      *params++ = applies ? step.space.operation : kIdentity;
      *params++ = applies ? step.space.magnitude(0, uniforms[2 + 2 * i], sample.canvas) : 0.0;
    }
  }

 private:
  struct Step {
    double p;
    Space space;
  };
  std::vector<std::array<Step, 2>> pairs_;
};

// timm's RandAugment: how many operations; probability of each; magnitude, its standard deviation
// or -1, which draws it from 0 on, and its greatest value; whether all grow with the magnitude
class TimmPolicy : public Policy {
 public:
  explicit TimmPolicy(const Numbers& numbers) {
    Reader n(numbers);
    count_ = static_cast<int64_t>(n.number());
    p_ = n.number();
    magnitude_ = n.number();
    deviation_ = n.number();
    most_ = n.number();
    increasing_ = n.flag();
    uniforms(kDraws * count_);
    add_params(count_, true);
  }

  void draw(const Draws& all, const Sample& sample, double* params) const override {
    for (int64_t i = 0; i < count_; ++i) {
      const Draws uniforms = all.from(kDraws * i);
      const int operation = 1 + static_cast<int>(uniforms[0] * static_cast<double>(kOfTimm));
      const bool applies = uniforms[1] < p_;
      *params++ = applies ? operation : kIdentity;
      *params++ = applies ? magnitude(operation, uniforms, sample.canvas) : 0.0;
    }
  }

 protected:
  // Shifts by parts of a pixel, as Pillow interpolates them.
  void add(int operation, double magnitude, PlanBuilder& plan) const override {
    if (operation == kTranslateX) {
      return add_moved({{1.0, 0.0, magnitude, 0.0, 1.0, 0.0}}, plan);
    }
    if (operation == kTranslateY) {
      return add_moved({{1.0, 0.0, 0.0, 0.0, 1.0, magnitude}}, plan);
    }
    add_pixels(operation, magnitude, plan);
  }

 private:
  static constexpr int64_t kDraws = 5;

  // What an operation of add_pixels() is given: timm's level_fn.
  double magnitude(int operation, const Draws& uniforms, const Canvas& canvas) const {
    double level = magnitude_;
    if (deviation_ < 0.0) {
      level *= uniforms[2];
    } else if (deviation_ > 0.0) {
      const double radius = std::sqrt(-2.0 * std::log(1.0 - uniforms[2]));
      level += deviation_ * radius * cosine(2.0 * kPi * uniforms[3]);
    }
    level = std::clamp(level, 0.0, most_) / 10.0;
    const double sign = uniforms[4] < 0.5 ? -1.0 : 1.0;
    const auto up_to = [level](double most) { return std::trunc(level * most); };
    switch (operation) {
      case kShearX:
      case kShearY: return sign * level * 0.3;
      case kTranslateX: return sign * level * 0.45 * canvas.width;
      case kTranslateY: return sign * level * 0.45 * canvas.height;
      case kRotate: return sign * level * 30.0;
      case kPosterize: return increasing_ ? 4.0 - up_to(4.0) : up_to(4.0);
      case kSolarize: {
        const double threshold = std::min(256.0, up_to(256.0));
        // Between two levels: it doesn't matter how a share of white is rounded.
        return ((increasing_ ? 256.0 - threshold : threshold) - 0.5) / 255.0;
      }
      case kSolarizeAdd: return std::min(128.0, up_to(110.0));
      case kBrightness:
      case kColor:
      case kContrast:
      case kSharpness:
        if (!increasing_) return level * 1.8 + 0.1 - 1.0;
        return std::max(0.1, 1.0 + sign * level * 0.9) - 1.0;
      default: return 0.0;
    }
  }

  int64_t count_;
  double p_, magnitude_, deviation_, most_;
  bool increasing_;
};

constexpr StepKind kKinds[] = {
    {"TimmPolicy", 6, make_of<TimmPolicy>},
    {"LinearPolicy", 5 + kLinear, make_of<LinearPolicy>},
    {"RandomPolicy", kAny, make_of<RandomPolicy>},
    {"PairPolicy", kAny, make_of<PairPolicy>},
};

}  // namespace

StepPointer make_policy_step(const std::string& name, const Numbers& numbers) {
  return find_step(kKinds, name, numbers);
}

}  // namespace visops
