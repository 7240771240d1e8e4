// Policies of AutoAugment's family: operations drawn for each sample.
#include <algorithm>
#include <cmath>

#include "core/chain/steps/families.h"

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

// The level or bin of a policy; below 0: it is drawn.
double level_of(FieldReader& fields) { return fields.has("level") ? fields.number("level") : -1.0; }

// `count` operations one after another, of a `level` among `bins`; whether shifts are fractions of
// the image's sides; whether names end with the operation's place; each operation's greatest
// magnitude
class LinearPolicy : public Policy {
 public:
  explicit LinearPolicy(FieldReader& fields) {
    count_ = fields.whole("count");
    level_ = level_of(fields);
    bins_ = fields.number("bins");
    relative_ = fields.flag("relative");
    fields.numbers("greatest", reach_);
    uniforms(3 * count_);
    add_params(count_, fields.flag("numbered"));
  }

  void draw(const Draws& all, const Sample& sample, double* params) const override {
    for (int64_t i = 0; i < count_; ++i, params += 2) {
      const Draws uniforms = all.from(3 * i);
      const int operation = static_cast<int>(uniforms[0] * static_cast<double>(kLinear));
      const double level = level_ < 0.0 ? std::floor(uniforms[1] * bins_) : level_;
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
  double level_, bins_, reach_[kLinear];
  bool relative_;
};

// The magnitudes of an operation by level.
struct Space {
  int operation;
  bool is_signed;
  bool is_relative;  // magnitudes of shifts are shares of the image's side
  Numbers magnitudes;

  double magnitude(size_t level, double sign, const Canvas& canvas) const {
    const double found = magnitudes[level] * side_of(operation, is_relative, canvas);
    return is_signed && sign <= 0.5 ? -found : found;
  }
};

// Spaces of `bins` magnitudes each: `operations`, their `magnitudes`, and which are `signed`;
// whether shifts are shares of the image's sides
std::vector<Space> read_spaces(FieldReader& fields, size_t bins) {
  const Numbers& operations = fields.list("operations");
  const size_t count = operations.size();
  const Numbers& are_signed = fields.list("signed", count);
  const Numbers& magnitudes = fields.list("magnitudes", count * bins);
  const bool relative = fields.flag("relative");
  std::vector<Space> spaces;
  for (size_t i = 0; i < count; ++i) {
    const double* const first = magnitudes.data() + i * bins;
    spaces.push_back({static_cast<int>(operations[i]), are_signed[i] != 0.0, relative,
                      Numbers(first, first + bins)});
  }
  if (spaces.empty()) fields.refuse("needs 'operations'");
  return spaces;
}

// `count` operations one after another, of a `level` among `bins`, from spaces; whether names end
// with the operation's place
class RandomPolicy : public Policy {
 public:
  explicit RandomPolicy(FieldReader& fields) {
    count_ = fields.whole("count");
    level_ = level_of(fields);
    bins_ = fields.number("bins");
    spaces_ = read_spaces(fields, static_cast<size_t>(bins_));
    uniforms(3 * count_);
    add_params(count_, fields.flag("numbered"));
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

// Pairs of operations: spaces of one magnitude each, of which two are a pair, and each one's `p`
class PairPolicy : public Policy {
 public:
  explicit PairPolicy(FieldReader& fields) {
    spaces_ = read_spaces(fields, 1);
    p_ = fields.list("p", spaces_.size());
    if (spaces_.size() % 2 != 0) fields.refuse("needs pairs of 'operations'");
    uniforms(5);
    add_params(2, true);
  }

  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    const double position = std::floor(uniforms[0] * static_cast<double>(spaces_.size() / 2));
    for (int i = 0; i < 2; ++i) {
      const size_t own = 2 * static_cast<size_t>(position) + static_cast<size_t>(i);
      const bool applies = uniforms[1 + 2 * i] <= p_[own];
      *params++ = applies ? spaces_[own].operation : kIdentity;
      *params++ = applies ? spaces_[own].magnitude(0, uniforms[2 + 2 * i], sample.canvas) : 0.0;
    }
  }

 private:
  std::vector<Space> spaces_;
  Numbers p_;
};

// timm's RandAugment: `count` operations, each with `p`; the magnitude, its `deviation`, without
// which it is drawn from 0 on, and its greatest value; whether all grow with the magnitude
class TimmPolicy : public Policy {
 public:
  explicit TimmPolicy(FieldReader& fields) {
    count_ = fields.whole("count");
    p_ = fields.number("p");
    magnitude_ = fields.number("magnitude");
    deviation_ = fields.has("deviation") ? fields.number("deviation") : -1.0;
    greatest_ = fields.number("greatest");
    increasing_ = fields.flag("increasing");
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
    level = std::clamp(level, 0.0, greatest_) / 10.0;
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
  double p_, magnitude_, deviation_, greatest_;
  bool increasing_;
};

constexpr StepKind kKinds[] = {
    {"TimmPolicy", make_of<TimmPolicy>},
    {"LinearPolicy", make_of<LinearPolicy>},
    {"RandomPolicy", make_of<RandomPolicy>},
    {"PairPolicy", make_of<PairPolicy>},
};

}  // namespace

StepPointer make_policy_step(const std::string& name, FieldReader& fields) {
  return find_step(kKinds, name, fields);
}

}  // namespace visops
