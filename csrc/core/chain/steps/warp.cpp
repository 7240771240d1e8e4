// Steps that rotate, shear or tilt the image.
#include <algorithm>
#include <cmath>

#include "core/chain/steps/families.h"

namespace visops {

Rotation rotation_of(double degrees) {
  const double quarters = std::nearbyint(degrees * (1.0 / 90.0));
  const double rest = (degrees - 90.0 * quarters) * (kPi / 180.0);
  const double c = cosine(rest), s = sine(rest);
  double quarter = std::fmod(quarters, 4.0);
  if (quarter < 0.0) quarter += 4.0;
  if (quarter == 1.0) return {-s, c};
  if (quarter == 2.0) return {-c, -s};
  if (quarter == 3.0) return {s, -c};
  return {c, s};
}

AffineMap about(double a, double b, double c, double d, double x, double y, double x_shift,
                double y_shift) {
  return {{a, b, x - (a * x + b * y) + x_shift, c, d, y - (c * x + d * y) + y_shift}};
}

namespace {

double tangent(double degrees) {
  const double angle = degrees * (kPi / 180.0);
  return sine(angle) / cosine(angle);
}

// The point given, or else the image's middle.
struct Centre {
  bool given;
  double x, y;

  static Centre read(FieldReader& fields) {
    if (!fields.has("center")) return {false, 0.0, 0.0};
    const std::vector<double>& point = fields.list("center", 2);
    return {true, point[0], point[1]};
  }
  Centre on(const Canvas& canvas) const {
    return given ? *this : Centre{false, canvas.width * 0.5, canvas.height * 0.5};
  }
};

// Degrees, and perhaps `translate`, `scale`, `shear` of one range or two, and `center`
class RandomAffine : public ChainStep {
 public:
  explicit RandomAffine(FieldReader& fields) {
    fields.numbers("degrees", degrees_);
    centre_ = Centre::read(fields);
    uniforms(6);
    param("angle");
    translates_ = fields.has("translate");
    if (translates_) {
      fields.numbers("translate", translate_);
      param("translate_x");
      param("translate_y");
    }
    scales_ = fields.has("scale");
    if (scales_) {
      fields.numbers("scale", scale_);
      param("scale");
    }
    if (fields.has("shear")) {
      const size_t count = fields.list("shear").size();
      std::copy_n(fields.list("shear", count > 2 ? 4 : 2).begin(), count, shear_);
      shears_ = count / 2;
    }
    if (shears_ > 0) param("shear_x");
    if (shears_ > 1) param("shear_y");
  }

  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    const Canvas& canvas = sample.canvas;
    *params++ = uniforms.between(0, degrees_[0], degrees_[1]);
    if (translates_) {
      *params++ = std::nearbyint(translate_[0] * canvas.width * (2.0 * uniforms[1] - 1.0));
      *params++ = std::nearbyint(translate_[1] * canvas.height * (2.0 * uniforms[2] - 1.0));
    }
    if (scales_) *params++ = uniforms.between(3, scale_[0], scale_[1]);
    if (shears_ > 0) *params++ = uniforms.between(4, shear_[0], shear_[1]);
    if (shears_ > 1) *params++ = uniforms.between(5, shear_[2], shear_[3]);
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    const Rotation turn = rotation_of(*params++);
    double x_shift = 0.0, y_shift = 0.0, scale = 1.0;
    if (translates_) {
      x_shift = *params++;
      y_shift = *params++;
    }
    if (scales_) scale = *params++;
    // The product is rotation, shear along y, shear along x: in time, x shears first.
    double a = turn.c, c = turn.s;
    if (shears_ > 1) {
      const double t = tangent(params[1]);
      a = turn.c + turn.s * t;
      c = turn.s - turn.c * t;
    }
    double b = -turn.s, d = turn.c;
    if (shears_ > 0) {
      const double t = tangent(params[0]);
      b = b - a * t;
      d = d - c * t;
    }
    if (scales_) a *= scale, b *= scale, c *= scale, d *= scale;
    const Canvas canvas = plan.canvas();
    const Centre fixed = centre_.on(canvas);
    plan.affine(about(a, b, c, d, fixed.x, fixed.y, x_shift, y_shift).m, canvas);
  }

 private:
  double degrees_[2], translate_[2], scale_[2], shear_[4];  // shears along x, and then y
  bool translates_, scales_;
  size_t shears_ = 0;
  Centre centre_;
};

class RandomRotation : public ChainStep {
 public:
  explicit RandomRotation(FieldReader& fields) {
    fields.numbers("degrees", degrees_);
    expand_ = fields.flag("expand");
    centre_ = Centre::read(fields);
    uniforms(1);
    param("angle");
  }

  void draw(const Draws& uniforms, const Sample&, double* params) const override {
    params[0] = uniforms.between(0, degrees_[0], degrees_[1]);
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    const Rotation turn = rotation_of(params[0]);
    const Canvas old = plan.canvas();
    const Centre fixed = centre_.on(old);
    Canvas canvas = old;
    double x_shift = 0.0, y_shift = 0.0;
    if (expand_) {
      // As torchvision and Pillow: from where the corners come, not where they go.
      canvas = bounds(about(turn.c, -turn.s, turn.s, turn.c, fixed.x, fixed.y), old);
      if (!centre_.given && (turn.s == 1.0 || turn.s == -1.0)) canvas = {old.width, old.height};
      x_shift = (canvas.width - old.width) * 0.5;
      y_shift = (canvas.height - old.height) * 0.5;
    }
    plan.affine(about(turn.c, turn.s, -turn.s, turn.c, fixed.x, fixed.y, x_shift, y_shift).m,
                canvas);
  }

 private:
  // The bounds of the moved canvas, in whole pixels.
  static Canvas bounds(const AffineMap& map, const Canvas& canvas) {
    double sides[2];
    for (int axis = 0; axis < 2; ++axis) {
      const double* const m = map.m + 3 * axis;
      double low = 0.0, high = 0.0;
      for (int corner = 0; corner < 4; ++corner) {
        const double x = corner % 2 == 1 ? canvas.width : 0.0;
        const double y = corner >= 2 ? canvas.height : 0.0;
        // A corner 1e-14 beyond a pixel's edge must not add a pixel.
        const double moved = std::trunc((m[0] * x + m[1] * y + m[2]) * 1e4) * 1e-4;
        low = corner == 0 ? moved : std::min(low, moved);
        high = corner == 0 ? moved : std::max(high, moved);
      }
      sides[axis] = std::ceil(high) - std::floor(low);
    }
    return {sides[1], sides[0]};
  }

  double degrees_[2];
  bool expand_;
  Centre centre_;
};

struct Point {
  double x, y;
};

// The perspective, row by row, that takes (0, 0), (W-1, 0), (W-1, H-1), (0, H-1) to these corners.
// False where there is none: three of the corners lie on a line, or W or H is 1. Source of the
// closed form: P. Heckbert, "Fundamentals of Texture Mapping and Image Warping", 1989, 2.2.3.
bool rectangle_to_corners(const Canvas& canvas, const Point (&p)[4], double (&m)[9]) {
  const double height = canvas.height, width = canvas.width;
  bool regular = width > 1.0 && height > 1.0;
  for (int i = 0; i < 4; ++i) {
    const Point &a = p[(i + 3) % 4], &b = p[i], &c = p[(i + 1) % 4];
    regular &= (a.x - b.x) * (c.y - b.y) != (c.x - b.x) * (a.y - b.y);
  }
  if (!regular) return false;
  const double ax = p[1].x - p[2].x, ay = p[1].y - p[2].y;
  const double bx = p[3].x - p[2].x, by = p[3].y - p[2].y;
  const double cx = p[0].x - p[1].x + p[2].x - p[3].x, cy = p[0].y - p[1].y + p[2].y - p[3].y;
  const double determinant = ax * by - bx * ay;
  const double g = (cx * by - bx * cy) / determinant, h = (ax * cy - cx * ay) / determinant;
  // The closed form is for the unit square: scale the rectangle to it.
  const double u = 1.0 / std::max(width - 1.0, 1.0), v = 1.0 / std::max(height - 1.0, 1.0);
  const double found[9] = {(p[1].x - p[0].x + g * p[1].x) * u,
                           (p[3].x - p[0].x + h * p[3].x) * v,
                           p[0].x,
                           (p[1].y - p[0].y + g * p[1].y) * u,
                           (p[3].y - p[0].y + h * p[3].y) * v,
                           p[0].y,
                           g * u,
                           h * v,
                           1.0};
  std::copy_n(found, 9, m);
  return true;
}

class RandomPerspective : public ChainStep {
 public:
  explicit RandomPerspective(FieldReader& fields)
      : distortion_(fields.number("distortion_scale")), p_(fields.number("p")) {
    uniforms(9);
    param("apply", ParamSpec::kFlag);
    for (const char* corner : {"topleft", "topright", "bottomright", "bottomleft"}) {
      param(std::string(corner) + "_x");
      param(std::string(corner) + "_y");
    }
  }

  void draw(const Draws& uniforms, const Sample& sample, double* params) const override {
    const Canvas& canvas = sample.canvas;
    const double x_bound = std::floor(distortion_ * std::floor(canvas.width * 0.5)) + 1.0;
    const double y_bound = std::floor(distortion_ * std::floor(canvas.height * 0.5)) + 1.0;
    params[0] = uniforms[0] < p_ ? 1.0 : 0.0;
    for (int i = 0; i < 4; ++i) {
      const double x = std::floor(uniforms[1 + 2 * i] * x_bound);
      const double y = std::floor(uniforms[2 + 2 * i] * y_bound);
      // On the right and at the bottom: one of the last `bound` columns or rows.
      const bool right = i == 1 || i == 2, bottom = i >= 2;
      params[1 + 2 * i] = right ? canvas.width - x_bound + x : x;
      params[2 + 2 * i] = bottom ? canvas.height - y_bound + y : y;
    }
  }
  void extend(const double* params, PlanBuilder& plan) const override {
    const Canvas canvas = plan.canvas();
    double matrix[9] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0};
    if (params[0] != 0.0) {
      Point corners[4];
      for (int i = 0; i < 4; ++i) corners[i] = {params[1 + 2 * i], params[2 + 2 * i]};
      rectangle_to_corners(canvas, corners, matrix);
    }
    plan.perspective(matrix, canvas);
  }

 private:
  double distortion_, p_;
};

// One of the square's symmetries, each as likely as the others; or always the swap of the axes.
class Symmetry : public ChainStep {
 public:
  explicit Symmetry(FieldReader& fields) {
    p_ = fields.number("p");
    mirrors_ = fields.flag("mirrors");
    transposes_ = fields.flag("transposes");
    uniforms(3);
    param("apply", ParamSpec::kFlag);
    if (transposes_) return;
    param("quarters", ParamSpec::kWhole);
    if (mirrors_) param("mirror", ParamSpec::kFlag);
  }

  void draw(const Draws& uniforms, const Sample&, double* params) const override {
    params[0] = uniforms[0] < p_ ? 1.0 : 0.0;
    if (transposes_) return;
    params[1] = std::floor(uniforms[1] * 4.0);
    if (mirrors_) params[2] = uniforms[2] < 0.5 ? 1.0 : 0.0;
  }

  // Quarters turn counter-clockwise on screen, after the mirror.
  void extend(const double* params, PlanBuilder& plan) const override {
    const Canvas old = plan.canvas();
    int quarters = 0;
    bool mirror = false;
    if (params[0] != 0.0) {
      quarters = transposes_ ? 1 : static_cast<int>(params[1]);
      mirror = transposes_ || (mirrors_ && params[2] != 0.0);
    }
    const double x_sign = mirror ? -1.0 : 1.0, x_shift = mirror ? old.width : 0.0;
    const double w = old.width, h = old.height;
    const double maps[4][6] = {
        {x_sign, 0.0, x_shift, 0.0, 1.0, 0.0},
        {0.0, 1.0, 0.0, -x_sign, 0.0, w - x_shift},
        {-x_sign, 0.0, w - x_shift, 0.0, -1.0, h},
        {0.0, -1.0, h, x_sign, 0.0, x_shift},
    };
    double map[6];
    std::copy_n(maps[quarters & 3], 6, map);
    plan.affine(map, quarters % 2 == 0 ? old : Canvas{w, h});
  }

 private:
  double p_;
  bool mirrors_, transposes_;
};

constexpr StepKind kKinds[] = {
    {"Symmetry", make_of<Symmetry>},
    {"RandomAffine", make_of<RandomAffine>},
    {"RandomRotation", make_of<RandomRotation>},
    {"RandomPerspective", make_of<RandomPerspective>},
};

}  // namespace

StepPointer make_warp_step(const std::string& name, FieldReader& fields) {
  return find_step(kKinds, name, fields);
}

}  // namespace visops
