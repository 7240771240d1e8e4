#include "core/chain/windows.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace visops {
namespace {

struct Bounds {
  double top, left, bottom, right;
};

// The bounds, in the source, of a canvas and what is `around` it. False: there are no finite ones.
bool bounds_behind_affine(const GeometryState& at, double around, Bounds* bounds) {
  const double a = at.matrix[0], b = at.matrix[1], c = at.matrix[2];
  const double d = at.matrix[3], e = at.matrix[4], f = at.matrix[5];
  double half_height = 0.5 * at.canvas.height, half_width = 0.5 * at.canvas.width;
  double x = half_width - c, y = half_height - f;  // the middle, before the linear part
  const double area = a * e - b * d;
  const double reach =
      std::fabs(a) + std::fabs(b) + std::fabs(d) + std::fabs(e) + std::fabs(x) + std::fabs(y);
  if (!(std::fabs(area) > 1e-12 && reach < 1e12)) return false;
  const double scale = 1.0 / area;
  half_height += around;
  half_width += around;
  const double x_middle = (e * x - b * y) * scale, y_middle = (a * y - d * x) * scale;
  const double wide = (std::fabs(e) * half_width + std::fabs(b) * half_height) * std::fabs(scale);
  const double high = (std::fabs(d) * half_width + std::fabs(a) * half_height) * std::fabs(scale);
  *bounds = {y_middle - high, x_middle - wide, y_middle + high, x_middle + wide};
  return true;
}

bool bounds_behind_perspective(const GeometryState& at, double around, Bounds* bounds) {
  const double* const m = at.matrix;
  // The adjugate: the inverse but for a factor, whose sign decides which side of the horizon a
  // point is on.
  const double inverse[9] = {
      m[4] * m[8] - m[5] * m[7], m[2] * m[7] - m[1] * m[8], m[1] * m[5] - m[2] * m[4],
      m[5] * m[6] - m[3] * m[8], m[0] * m[8] - m[2] * m[6], m[2] * m[3] - m[0] * m[5],
      m[3] * m[7] - m[4] * m[6], m[1] * m[6] - m[0] * m[7], m[0] * m[4] - m[1] * m[3]};
  const double determinant = m[0] * inverse[0] + m[1] * inverse[3] + m[2] * inverse[6];
  if (!(std::fabs(determinant) > 0.0)) return false;
  const double x[2] = {-around, at.canvas.width + around};
  const double y[2] = {-around, at.canvas.height + around};
  for (int corner = 0; corner < 4; ++corner) {
    double point[3];
    for (int row = 0; row < 3; ++row) {
      const double* const r = inverse + 3 * row;
      point[row] = (r[0] * x[corner % 2] + r[1] * y[corner / 2] + r[2]) / determinant;
    }
    if (!(point[2] > 1e-6)) return false;  // the horizon is in the picture
    const double u = point[0] / point[2], v = point[1] / point[2];
    if (!(std::fabs(u) < 1e12 && std::fabs(v) < 1e12)) return false;
    if (corner == 0) *bounds = {v, u, v, u};
    bounds->top = std::min(bounds->top, v);
    bounds->left = std::min(bounds->left, u);
    bounds->bottom = std::max(bounds->bottom, v);
    bounds->right = std::max(bounds->right, u);
  }
  return true;
}

// Whole numbers, not empty.
Bounds read_at(const GeometryState& at, const Reach& reach) {
  const double height = at.source.height, width = at.source.width;
  const Bounds whole = {0.0, 0.0, height, width};
  Bounds bounds;
  const bool finite = at.projective ? bounds_behind_perspective(at, reach.around, &bounds)
                                    : bounds_behind_affine(at, reach.around, &bounds);
  if (!finite) return whole;
  bounds.top -= reach.beyond;
  bounds.left -= reach.beyond;
  bounds.bottom += reach.beyond;
  bounds.right += reach.beyond;
  const bool inside =
      bounds.top >= 0.0 && bounds.left >= 0.0 && bounds.bottom <= height && bounds.right <= width;
  if (reach.anywhere && !inside) return whole;
  // At least a row and a column, the nearest, which replicated edges show.
  return {std::max(std::min(std::floor(bounds.top), height - 1.0), 0.0),
          std::max(std::min(std::floor(bounds.left), width - 1.0), 0.0),
          std::min(std::max(std::ceil(bounds.bottom), 1.0), height),
          std::min(std::max(std::ceil(bounds.right), 1.0), width)};
}

}  // namespace

std::vector<PixelWindow> windows_read(const ChainPlan& plan, const Reach& reach) {
  std::vector<PixelWindow> windows;
  for (size_t i = 0; i < plan.samples.size(); ++i) {
    Bounds bounds = read_at(plan.samples[i], reach);
    for (const ColorSteps& steps : plan.colors) {
      if (!steps.takes_means()) continue;
      const Bounds own = read_at(steps.at[i], reach);
      bounds.top = std::min(bounds.top, own.top);
      bounds.left = std::min(bounds.left, own.left);
      bounds.bottom = std::max(bounds.bottom, own.bottom);
      bounds.right = std::max(bounds.right, own.right);
    }
    windows.push_back({static_cast<int64_t>(bounds.top), static_cast<int64_t>(bounds.left),
                       static_cast<int64_t>(bounds.bottom - bounds.top),
                       static_cast<int64_t>(bounds.right - bounds.left)});
  }
  return windows;
}

std::vector<int64_t> reductions(const ChainPlan& plan) {
  std::vector<int64_t> found;
  for (const GeometryState& at : plan.samples) {
    const double a = at.matrix[0], b = at.matrix[1], d = at.matrix[3], e = at.matrix[4];
    // The larger singular value: the most that the pass enlarges along any direction.
    const double squares = a * a + b * b + d * d + e * e, area = a * e - b * d;
    const double root = std::sqrt(std::max(squares * squares - 4.0 * area * area, 0.0));
    // A little less: rounding must not refuse a crop that is exactly r times as large as its
    // result.
    const double scale = std::sqrt(0.5 * (squares + root)) * (1.0 - 1e-12);
    const double side = std::min(at.source.height, at.source.width);
    int64_t reduction = 1;
    for (int64_t factor : {2, 4, 8}) {
      const double whole = static_cast<double>(factor);
      if (scale * whole <= 1.0 && side >= whole) reduction = factor;
    }
    found.push_back(at.projective ? 1 : reduction);
  }
  return found;
}

void move_to_parts(const std::vector<DecodedPart>& parts, ChainPlan& plan) {
  const auto move = [](GeometryState& at, const DecodedPart& part) {
    const double x = static_cast<double>(part.left), y = static_cast<double>(part.top);
    const double r = static_cast<double>(part.reduction);
    for (int row = 0; row < 9; row += 3) {
      double* const m = at.matrix + row;
      const double shifted = m[2] + m[0] * x + m[1] * y;
      m[0] *= r;
      m[1] *= r;
      m[2] = shifted;
    }
    for (int i = 0; i < 4; ++i) at.window[i] = (at.window[i] - (i % 2 == 0 ? x : y)) / r;
    at.source = {static_cast<double>(part.height), static_cast<double>(part.width)};
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    move(plan.samples[i], parts[i]);
    for (ColorSteps& steps : plan.colors) {
      if (!steps.at.empty()) move(steps.at[i], parts[i]);
    }
  }
}

namespace {

struct Axis {
  int64_t stored, count, position;
};

// The least k for which k r >= n; n may be negative.
int64_t divide_up(int64_t n, int64_t r) { return n >= 0 ? (n + r - 1) / r : -(-n / r); }
int64_t divide_down(int64_t n, int64_t r) { return -divide_up(-n, r); }

Axis cover(int64_t full, int64_t first, int64_t count, bool reversed, int64_t reduction) {
  const int64_t reduced = divide_up(full, reduction);
  const int64_t origin = reversed ? full - reduced * reduction : 0;
  const int64_t begin = divide_down(first - origin, reduction);
  const int64_t end = divide_up(first + count - origin, reduction);
  return {reversed ? reduced - end : begin, end - begin, origin + begin * reduction};
}

}  // namespace

StoredPart stored_part(int64_t height, int64_t width, int64_t orientation,
                       const PixelWindow& window, int64_t reduction) {
  const int64_t o = orientation;
  const bool from_bottom = o == 3 || o == 4 || o == 7 || o == 8;
  const bool from_right = o == 2 || o == 3 || o == 6 || o == 7;
  Axis rows = cover(height, window.top, window.height, from_bottom, reduction);
  Axis columns = cover(width, window.left, window.width, from_right, reduction);
  const int64_t top = rows.position, left = columns.position;
  if (swaps_sides(orientation)) std::swap(rows, columns);
  return {rows.stored, columns.stored, rows.count, columns.count, top, left};
}

}  // namespace visops
