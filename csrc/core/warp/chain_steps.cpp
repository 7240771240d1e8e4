// The transforms that a chain may consist of. Each is the `draw` and `extend` of the class of its
// name in ops/transforms; the comment beside it lists its numbers.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/philox.h"
#include "core/warp/chain_steps.h"

namespace visops {
namespace {

constexpr double kRadians = kPi / 180.0;
constexpr int kAttempts = 10;  // in engine/rectangles.py

const volatile ElementaryFunction exponential = std::exp;

struct Turn {
  double c, s;
};

// Exact at multiples of 90 degrees.
Turn cos_sin(double degrees) {
  const double quarters = std::nearbyint(degrees * (1.0 / 90.0));
  const double rest = (degrees - 90.0 * quarters) * kRadians;
  const double c = cosine(rest), s = sine(rest);
  double quarter = std::fmod(quarters, 4.0);
  if (quarter < 0.0) quarter += 4.0;
  if (quarter == 1.0) return {-s, c};
  if (quarter == 2.0) return {-c, -s};
  if (quarter == 3.0) return {s, -c};
  return {c, s};
}

double tangent(double degrees) {
  const double angle = degrees * kRadians;
  return sine(angle) / cosine(angle);
}

struct Affine {
  double m[6];
};

// The affine map with linear part a, b, c, d that fixes (x, y) and then shifts.
Affine about(double a, double b, double c, double d, double x, double y, double x_shift,
             double y_shift) {
  return {{a, b, x - (a * x + b * y) + x_shift, c, d, y - (c * x + d * y) + y_shift}};
}

struct Sides {
  double first, second;
  bool fits;
};

// engine/rectangles.py's draw_rectangles; n: scale low, high, log ratio low, high
Sides draw_rectangle(const ChainStep& step, Uniforms& uniforms, int64_t place, const double* n,
                     double first_limit, double second_limit, bool strict) {
  const double area = first_limit * second_limit;
  const double span = n[1] - n[0], log_span = n[3] - n[2];
  Sides sides = {0.0, 0.0, false};
  for (int attempt = 0; attempt < kAttempts && !sides.fits; ++attempt) {
    const double wanted = area * (n[0] + step.draw(uniforms, place + attempt) * span);
    const double aspect =
        exponential(n[2] + step.draw(uniforms, place + kAttempts + attempt) * log_span);
    sides.first = std::nearbyint(std::sqrt(wanted * aspect));
    sides.second = std::nearbyint(std::sqrt(wanted / aspect));
    sides.fits = strict ? sides.first < first_limit && sides.second < second_limit
                        : sides.first <= first_limit && sides.second <= second_limit &&
                              sides.first > 0.0 && sides.second > 0.0;
  }
  return sides;
}

// height, width, scale low, high, log ratio low, high, ratio low, high
bool resized_crop(const ChainStep& step, Uniforms& uniforms, Draft& draft) {
  const double* const n = step.numbers.data();
  Placement& p = draft.placement;
  Sides sides = draw_rectangle(step, uniforms, 0, n + 2, p.width, p.height, false);
  if (!sides.fits) {
    sides.first = std::min(p.width, std::nearbyint(p.height * n[7]));
    sides.second = std::min(p.height, std::nearbyint(p.width / n[6]));
  }
  const double free_rows = p.height - sides.second, free_columns = p.width - sides.first;
  double top = std::floor(free_rows * 0.5), left = std::floor(free_columns * 0.5);
  if (sides.fits) {
    top = std::floor(step.draw(uniforms, 2 * kAttempts) * (free_rows + 1.0));
    left = std::floor(step.draw(uniforms, 2 * kAttempts + 1) * (free_columns + 1.0));
  }
  const double x_scale = n[1] / sides.first, y_scale = n[0] / sides.second;
  p.scale(x_scale, y_scale, left * -x_scale, top * -y_scale, n[0], n[1]);
  return true;
}

void resize_to(Placement& p, double height, double width) {
  p.scale(width / p.width, height / p.height, 0.0, 0.0, height, width);
}

void resize_sides(Placement& p, double longer, double shorter) {
  const bool upright = p.width <= p.height;
  resize_to(p, upright ? longer : shorter, upright ? shorter : longer);
}

// height, width
bool resize(const ChainStep& step, Uniforms&, Draft& draft) {
  resize_to(draft.placement, step.numbers[0], step.numbers[1]);
  return true;
}

// size or -1, max_size or -1
bool resize_side(const ChainStep& step, Uniforms&, Draft& draft) {
  Placement& p = draft.placement;
  const double size = step.numbers[0], limit = step.numbers[1];
  const double shorter = std::min(p.height, p.width), longer = std::max(p.height, p.width);
  double new_short = size, new_long = limit;
  if (size < 0.0) {
    new_short = std::floor(new_long * shorter / longer);
  } else {
    new_long = std::floor(new_short * longer / shorter);
    if (limit > 0.0 && new_long > limit) {
      new_short = std::floor(limit * new_short / new_long);
      new_long = limit;
    }
  }
  if (!(new_short > 0.0)) return false;
  resize_sides(p, new_long, new_short);
  return true;
}

// height, width
bool center_crop(const ChainStep& step, Uniforms&, Draft& draft) {
  const double* const n = step.numbers.data();
  const auto offset = [](double length, double wanted) {
    const double free = (length - wanted) * 0.5;
    return free < 0.0 ? -std::floor(-free) : std::nearbyint(free);
  };
  Placement& p = draft.placement;
  p.shift(-offset(p.width, n[1]), -offset(p.height, n[0]), n[0], n[1]);
  return true;
}

// height, width, left, top, right, bottom, pad_if_needed
bool random_crop(const ChainStep& step, Uniforms& uniforms, Draft& draft) {
  const double* const n = step.numbers.data();
  Placement& p = draft.placement;
  const double lengths[2] = {p.height, p.width}, before[2] = {n[3], n[2]}, after[2] = {n[5], n[4]};
  double offsets[2];
  for (int axis = 0; axis < 2; ++axis) {
    double padded = lengths[axis] + (before[axis] + after[axis]), first = -before[axis];
    if (n[6] != 0.0) {
      const double missing = std::max(n[axis] - padded, 0.0);
      padded += 2.0 * missing;
      first -= missing;
    }
    if (padded < n[axis]) return false;
    offsets[axis] = first + std::floor(step.draw(uniforms, axis) * (padded - n[axis] + 1.0));
  }
  p.shift(-offsets[1], -offsets[0], n[0], n[1]);
  return true;
}

// left, top, right, bottom
bool pad(const ChainStep& step, Uniforms&, Draft& draft) {
  const double* const n = step.numbers.data();
  Placement& p = draft.placement;
  p.shift(n[0], n[1], p.height + (n[1] + n[3]), p.width + (n[0] + n[2]));
  return true;
}

// p
bool horizontal_flip(const ChainStep& step, Uniforms& uniforms, Draft& draft) {
  Placement& p = draft.placement;
  const double flips = step.draw(uniforms, 0) < step.numbers[0] ? 1.0 : 0.0;
  p.scale(1.0 - 2.0 * flips, 1.0, flips * p.width, 0.0, p.height, p.width);
  return true;
}

// p
bool vertical_flip(const ChainStep& step, Uniforms& uniforms, Draft& draft) {
  Placement& p = draft.placement;
  const double flips = step.draw(uniforms, 0) < step.numbers[0] ? 1.0 : 0.0;
  p.scale(1.0, 1.0 - 2.0 * flips, 0.0, flips * p.height, p.height, p.width);
  return true;
}

// degrees low, high; translate x, y or -1; scale low, high or -1; shears: 0, 1 or 2, x low, high,
// y low, high; whether there is a centre, x, y
bool random_affine(const ChainStep& step, Uniforms& uniforms, Draft& draft) {
  const double* const n = step.numbers.data();
  Placement& p = draft.placement;
  const Turn turn = cos_sin(between(step.draw(uniforms, 0), n[0], n[1]));
  double x_shift = 0.0, y_shift = 0.0;
  if (n[2] >= 0.0) {
    x_shift = std::nearbyint(n[2] * p.width * (2.0 * step.draw(uniforms, 1) - 1.0));
    y_shift = std::nearbyint(n[3] * p.height * (2.0 * step.draw(uniforms, 2) - 1.0));
  }
  double a = turn.c, c = turn.s;
  if (n[6] >= 2.0) {
    const double t = tangent(between(step.draw(uniforms, 5), n[9], n[10]));
    a = turn.c + turn.s * t;
    c = turn.s - turn.c * t;
  }
  double b = -turn.s, d = turn.c;
  if (n[6] >= 1.0) {
    const double t = tangent(between(step.draw(uniforms, 4), n[7], n[8]));
    b = b - a * t;
    d = d - c * t;
  }
  if (n[4] >= 0.0) {
    const double scale = between(step.draw(uniforms, 3), n[4], n[5]);
    a *= scale, b *= scale, c *= scale, d *= scale;
  }
  const bool centred = n[11] != 0.0;
  const double x = centred ? n[12] : p.width * 0.5, y = centred ? n[13] : p.height * 0.5;
  p.affine(about(a, b, c, d, x, y, x_shift, y_shift).m);
  return true;
}

// degrees low, high; whether there is a centre, x, y
bool random_rotation(const ChainStep& step, Uniforms& uniforms, Draft& draft) {
  const double* const n = step.numbers.data();
  Placement& p = draft.placement;
  const Turn turn = cos_sin(between(step.draw(uniforms, 0), n[0], n[1]));
  const bool centred = n[2] != 0.0;
  const double x = centred ? n[3] : p.width * 0.5, y = centred ? n[4] : p.height * 0.5;
  p.affine(about(turn.c, turn.s, -turn.s, turn.c, x, y, 0.0, 0.0).m);
  return true;
}

struct Point {
  double x, y;
};

// The perspective that takes (0, 0), (W-1, 0), (W-1, H-1), (0, H-1) to these corners; false where
// there is none.
bool rectangle_to_corners(double height, double width, const Point (&p)[4], double (&m)[9]) {
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

// distortion_scale, p
bool random_perspective(const ChainStep& step, Uniforms& uniforms, Draft& draft) {
  const double* const n = step.numbers.data();
  Placement& p = draft.placement;
  const double x_bound = std::floor(n[0] * std::floor(p.width * 0.5)) + 1.0;
  const double y_bound = std::floor(n[0] * std::floor(p.height * 0.5)) + 1.0;
  Point corners[4];
  for (int i = 0; i < 4; ++i) {
    const double x = std::floor(step.draw(uniforms, 1 + 2 * i) * x_bound);
    const double y = std::floor(step.draw(uniforms, 2 + 2 * i) * y_bound);
    const bool right = i == 1 || i == 2, bottom = i >= 2;
    corners[i] = {right ? p.width - x_bound + x : x, bottom ? p.height - y_bound + y : y};
  }
  double matrix[9] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0};
  if (step.draw(uniforms, 0) < n[1]) rectangle_to_corners(p.height, p.width, corners, matrix);
  p.perspective(matrix);
  return true;
}

// height, width, center, scaleup
bool letterbox(const ChainStep& step, Uniforms&, Draft& draft) {
  const double* const n = step.numbers.data();
  Placement& p = draft.placement;
  double factor = std::min(n[0] / p.height, n[1] / p.width);
  if (n[3] == 0.0) factor = std::min(factor, 1.0);
  const double height = std::max(std::nearbyint(p.height * factor), 1.0);
  const double width = std::max(std::nearbyint(p.width * factor), 1.0);
  const double share = n[2] != 0.0 ? 0.5 : 0.0;
  const double top = std::floor((n[0] - height) * share);
  const double left = std::floor((n[1] - width) * share);
  p.scale(width / p.width, height / p.height, left, top, n[0], n[1]);
  return true;
}

void resize_by(Placement& p, double factor) {
  resize_to(p, std::max(std::floor(p.height * factor), 1.0),
            std::max(std::floor(p.width * factor), 1.0));
}

// target width, height, scale low, high
bool scale_jitter(const ChainStep& step, Uniforms& uniforms, Draft& draft) {
  const double* const n = step.numbers.data();
  Placement& p = draft.placement;
  const double scale = between(step.draw(uniforms, 0), n[2], n[3]);
  const double fit = std::min(n[1] / p.height, n[0] / p.width);
  resize_by(p, fit * scale * (1.0 + 1e-9));
  return true;
}

// max_size or -1, then any number of lengths
bool shortest_size(const ChainStep& step, Uniforms& uniforms, Draft& draft) {
  const double* const n = step.numbers.data();
  Placement& p = draft.placement;
  const double count = static_cast<double>(step.numbers.size() - 1);
  const double size = n[1 + static_cast<size_t>(step.draw(uniforms, 0) * count)];
  double factor = size / std::min(p.height, p.width);
  if (n[0] > 0.0) factor = std::min(factor, n[0] / std::max(p.height, p.width));
  resize_by(p, factor);
  return true;
}

// min_size, max_size
bool random_resize(const ChainStep& step, Uniforms& uniforms, Draft& draft) {
  const double* const n = step.numbers.data();
  Placement& p = draft.placement;
  const double shorter = n[0] + std::floor(step.draw(uniforms, 0) * (n[1] - n[0]));
  resize_sides(p, std::floor(shorter * std::max(p.height, p.width) / std::min(p.height, p.width)),
               shorter);
  return true;
}

// p, side range low, high
bool zoom_out(const ChainStep& step, Uniforms& uniforms, Draft& draft) {
  const double* const n = step.numbers.data();
  Placement& p = draft.placement;
  const double grown = between(step.draw(uniforms, 1), n[1], n[2]);
  const double factor = step.draw(uniforms, 0) < n[0] ? grown : 1.0;
  const double height = std::floor(p.height * factor), width = std::floor(p.width * factor);
  const double left = std::floor((width - p.width) * step.draw(uniforms, 2));
  const double top = std::floor((height - p.height) * step.draw(uniforms, 3));
  p.shift(left, top, height, width);
  return true;
}

// p, scale low, high, log ratio low, high
bool erasing(const ChainStep& step, Uniforms& uniforms, Draft& draft) {
  const double* const n = step.numbers.data();
  const Placement& p = draft.placement;
  int64_t* const corners = draft.erased;
  draft.erased += 4;
  std::fill_n(corners, 4, 0);
  if (!(step.draw(uniforms, 0) < n[0])) return true;
  const Sides sides = draw_rectangle(step, uniforms, 1, n + 1, p.height, p.width, true);
  if (!sides.fits) return true;
  const double top =
      std::floor(step.draw(uniforms, 2 * kAttempts + 1) * (p.height - sides.first + 1.0));
  const double left =
      std::floor(step.draw(uniforms, 2 * kAttempts + 2) * (p.width - sides.second + 1.0));
  const double found[4] = {left, top, left + sides.second, top + sides.first};
  std::transform(found, found + 4, corners, [](double v) { return static_cast<int64_t>(v); });
  return true;
}

struct Kind {
  const char* name;
  ChainStep::Run run;
  size_t numbers;
  int colors, gray_colors, erases;
};

constexpr Kind kKinds[] = {
    {"RandomResizedCrop", resized_crop, 8, 0, 0, 0},
    {"Resize", resize, 2, 0, 0, 0},
    {"ResizeSide", resize_side, 2, 0, 0, 0},
    {"CenterCrop", center_crop, 2, 0, 0, 0},
    {"RandomCrop", random_crop, 7, 0, 0, 0},
    {"Pad", pad, 4, 0, 0, 0},
    {"RandomHorizontalFlip", horizontal_flip, 1, 0, 0, 0},
    {"RandomVerticalFlip", vertical_flip, 1, 0, 0, 0},
    {"RandomAffine", random_affine, 14, 0, 0, 0},
    {"RandomRotation", random_rotation, 5, 0, 0, 0},
    {"RandomPerspective", random_perspective, 2, 0, 0, 0},
    {"Letterbox", letterbox, 4, 0, 0, 0},
    {"ScaleJitter", scale_jitter, 4, 0, 0, 0},
    {"RandomShortestSize", shortest_size, 0, 0, 0, 0},  // any number from 2
    {"RandomResize", random_resize, 2, 0, 0, 0},
    {"RandomZoomOut", zoom_out, 3, 0, 0, 0},
    {"ColorJitter", color_jitter, 39, 1, 1, 0},
    {"RandomGrayscale", grayscale, 1, 1, 0, 0},
    {"RandomErasing", erasing, 5, 0, 0, 1},
};

}  // namespace

ChainStep chain_step(const std::string& name, int64_t first, std::vector<double> numbers) {
  for (const Kind& kind : kKinds) {
    if (name != kind.name) continue;
    const size_t count = numbers.size();
    if (kind.numbers == 0 ? count < 2 : count != kind.numbers) break;
    return {kind.run, first, std::move(numbers), kind.colors, kind.erases, kind.gray_colors};
  }
  throw std::invalid_argument("no transform " + name + " of " + std::to_string(numbers.size()) +
                              " numbers");
}

}  // namespace visops
