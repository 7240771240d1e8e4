// Steps of pixel operations: one with a probability, and the policies of AutoAugment's family.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/chain/families.h"
#include "core/chain/numbers.h"
#include "core/chain/warps.h"

namespace visops {
namespace {

using Numbers = std::vector<double>;

// kind, p, amount low, high
class RandomOperation : public ChainStep {
 public:
  explicit RandomOperation(const Numbers& numbers) {
    Reader n(numbers);
    kind_ = static_cast<PixelKind>(n.number());
    p_ = n.number();
    n.numbers(amount_);
    draws_amount_ = amount_[0] != amount_[1];
    uniforms(draws_amount_ ? 2 : 1);
    param("apply", ParamSpec::kFlag);
    if (draws_amount_) param("amount");
  }

  void draw(const Draws& uniforms, const Sample&, double* params) const override {
    params[0] = uniforms[0] < p_ ? 1.0 : 0.0;
    if (draws_amount_) params[1] = uniforms.between(1, amount_[0], amount_[1]);
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    const double amount = draws_amount_ ? params[1] : amount_[0];
    plan.pixels({params[0] != 0.0 ? kind_ : PixelKind::kIdentity, amount});
  }

 private:
  PixelKind kind_;
  double p_, amount_[2];
  bool draws_amount_;
};

// The operations of torchvision's policies, in the order of ops/transforms/policies.py.
enum Operation {
  kNothing,
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
  kOperations
};

void add_moved(const AffineMap& map, PlanBuilder& plan) {
  PixelOperation operation = {PixelKind::kAffine};
  std::copy_n(map.m, 6, operation.matrix);
  plan.pixels(operation);
  plan.affine(map.m, plan.canvas());
}

// What torchvision's _apply_image_or_video_transform does. Shears fix the upper left corner.
void add_operation(int operation, double magnitude, PlanBuilder& plan) {
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
    default: return plan.pixels({PixelKind::kIdentity});
  }
}

// The magnitudes of an operation by level.
struct Space {
  int operation;
  bool is_signed;
  double shift_scale;  // of shifts: the image's side, where magnitudes are shares of it
  Numbers magnitudes;

  void read(Reader& n, size_t bins) {
    operation = static_cast<int>(n.number());
    is_signed = n.flag();
    shift_scale = n.number();
    magnitudes.resize(bins);
    for (double& magnitude : magnitudes) magnitude = n.number();
  }
  double magnitude(size_t level, double sign, const Canvas& canvas) const {
    double found = magnitudes[level];
    if (shift_scale != 0.0 && operation == kTranslateX) found *= canvas.width;
    if (shift_scale != 0.0 && operation == kTranslateY) found *= canvas.height;
    return is_signed && sign <= 0.5 ? -found : found;
  }
};

// What a policy adds: some operations in turn, each a pair of parameters.
class Operations : public ChainStep {
 public:
  void extend(const double* params, PlanBuilder& plan) const override {
    for (int64_t i = 0; i < num_params() / 2; ++i) {
      add_operation(static_cast<int>(params[2 * i]), params[2 * i + 1], plan);
    }
  }

 protected:
  void add_params(int64_t count, bool numbered) {
    for (int64_t i = 0; i < count; ++i) {
      const std::string end = numbered ? "_" + std::to_string(i) : "";
      param("operation" + end, ParamSpec::kWhole);
      param("magnitude" + end);
    }
  }
};

// How many operations; level or -1, which draws it; bins; whether names are numbered; how many
// spaces; then each space: operation, whether signed, whether shifts are shares of the image's
// sides, `bins` magnitudes
class RandomPolicy : public Operations {
 public:
  explicit RandomPolicy(const Numbers& numbers) {
    Reader n(numbers);
    count_ = static_cast<int64_t>(n.number());
    level_ = n.number();
    bins_ = n.number();
    const bool numbered = n.flag();
    spaces_.resize(static_cast<size_t>(n.number()));
    require_count(numbers.size() == 5 + spaces_.size() * (3 + static_cast<size_t>(bins_)));
    for (Space& space : spaces_) space.read(n, static_cast<size_t>(bins_));
    uniforms(3 * count_);
    add_params(count_, numbered);
  }

  void draw(const Draws& all, const Sample& sample, double* params) const override {
    for (int64_t i = 0; i < count_; ++i) {
      const Draws uniforms = all.from(3 * i);
      const double place = std::floor(uniforms[0] * static_cast<double>(spaces_.size()));
      const Space& space = spaces_[static_cast<size_t>(place)];
      const double level = level_ < 0.0 ? std::floor(uniforms[1] * bins_) : level_;
      *params++ = space.operation;
      *params++ = space.magnitude(static_cast<size_t>(level), uniforms[2], sample.canvas);
    }
  }

 private:
  static void require_count(bool fits) {
    if (!fits) throw std::invalid_argument("another count of magnitudes");
  }

  int64_t count_;
  double level_, bins_;
  std::vector<Space> spaces_;
};

// How many pairs; then each of two operations: probability, operation, whether signed, whether its
// shift is a share of the image's side, magnitude
class PairPolicy : public Operations {
 public:
  explicit PairPolicy(const Numbers& numbers) {
    Reader n(numbers);
    pairs_.resize(static_cast<size_t>(n.number()));
    if (numbers.size() != 1 + pairs_.size() * 10) {
      throw std::invalid_argument("another count of operations");
    }
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
    const double place = std::floor(uniforms[0] * static_cast<double>(pairs_.size()));
    const auto& pair = pairs_[static_cast<size_t>(place)];
    for (int i = 0; i < 2; ++i) {
      const Step& step = pair[i];
      const bool applies = uniforms[1 + 2 * i] <= step.p;
      *params++ = applies ? step.space.operation : kNothing;
      *params++ = applies ? step.space.magnitude(0, uniforms[2 + 2 * i], sample.canvas) : 0.0;
    }
  }

 private:
  struct Step {
    double p;
    Space space;
  };
  struct Pair {
    Step steps[2];

    Step* begin() { return steps; }
    Step* end() { return steps + 2; }
    const Step& operator[](int i) const { return steps[i]; }
  };

  std::vector<Pair> pairs_;
};

constexpr StepKind kKinds[] = {
    {"RandomOperation", 4, make_of<RandomOperation>},
    {"RandomPolicy", kAny, make_of<RandomPolicy>},
    {"PairPolicy", kAny, make_of<PairPolicy>},
};

}  // namespace

StepPointer make_pixel_step(const std::string& name, const Numbers& numbers) {
  return find_step(kKinds, name, numbers);
}

}  // namespace visops
