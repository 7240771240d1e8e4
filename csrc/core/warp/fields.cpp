#include "core/warp/fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/chain/make_field.h"
#include "core/chain/steps/families.h"
#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/plain_kernel.h"
#include "core/pixels/filters/filter.h"
#include "core/pixels/noise.h"
#include "core/pixels/shading.h"
#include "core/platform.h"
#include "core/warp/remap.h"

namespace visops {

void grid_field(const FieldSize& size, const double* grid, int64_t rows, int64_t columns,
                bool spline, float* field) {
  const MapGrid kind = spline ? MapGrid::kSpline : MapGrid::kLinear;
  std::vector<GridTaps<double>> across;
  for (int64_t x = 0; x < size.width; ++x) {
    across.push_back(grid_taps<double>(kind, x, size.width, columns));
  }
  std::vector<double> line(static_cast<size_t>(columns));
  for (int64_t axis = 0; axis < 2; ++axis, grid += rows * columns) {
    for (int64_t y = 0; y < size.height; ++y) {
      const GridTaps<double> down = grid_taps<double>(kind, y, size.height, rows);
      for (int64_t c = 0; c < columns; ++c) {
        line[static_cast<size_t>(c)] = grid_column(kind, down, grid, columns, c);
      }
      for (const GridTaps<double>& taps : across) {
        const double* const numbers = line.data();
        *field++ = static_cast<float>(grid_column(kind, taps, numbers, 1, 0));
      }
    }
  }
}

void steps_field(const FieldSize& size, const double* x_steps, const double* y_steps, int64_t steps,
                 float* field) {
  const auto shifts = [&](int64_t side, const double* own) {
    std::vector<float> out(static_cast<size_t>(side));
    const int64_t step = side / (steps - 1);
    double before = 0.0;
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t start = i * step, end = std::min(start + step, side);
      const double after = before + static_cast<double>(step) * own[i];
      for (int64_t k = start; k < end; ++k) {  // numpy.linspace: the last is `after` itself
        const double share =
            end - start > 1 ? static_cast<double>(k - start) / static_cast<double>(end - start - 1)
                            : 0.0;
        const auto position = static_cast<float>(before + share * (after - before));
        out[static_cast<size_t>(k)] = position - static_cast<float>(k);
      }
      before = after;
    }
    return out;
  };
  const std::vector<float> x = shifts(size.width, x_steps), y = shifts(size.height, y_steps);
  for (int64_t row = 0; row < size.height; ++row) field = std::copy(x.begin(), x.end(), field);
  for (const float shift : y) field = std::fill_n(field, size.width, shift);
}

void lens_field(const FieldSize& size, double k, bool fisheye, float* field) {
  const double height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  const double half = fisheye ? 0.0 : 0.5;
  const double middle_x = width / 2.0 - half, middle_y = height / 2.0 - half;
  const double corner = width * width / 4.0 + height * height / 4.0;
  // The radius grows by the share k r + more r^2, of squared radii r.
  const auto x_scale = static_cast<float>(fisheye ? 1.0 / corner : 1.0 / (width * width));
  const auto y_scale = static_cast<float>(fisheye ? 1.0 / corner : 1.0 / (height * height));
  const auto once = static_cast<float>(k), twice = fisheye ? 0.0f : once;
  std::vector<float> across;
  for (int64_t column = 0; column < size.width; ++column) {
    across.push_back(static_cast<float>(static_cast<double>(column) - middle_x));
  }
  float* VISOPS_RESTRICT x_field = field;
  float* VISOPS_RESTRICT y_field = field + size.height * size.width;
  const float* const dx = across.data();
  for (int64_t row = 0; row < size.height; ++row) {
    const auto dy = static_cast<float>(static_cast<double>(row) - middle_y);
    const float down = dy * dy * y_scale;
    for (int64_t i = 0; i < size.width; ++i) {
      const float r = dx[i] * dx[i] * x_scale + down;
      const float share = once * r + twice * r * r;
      x_field[i] = dx[i] * share;
      y_field[i] = dy * share;
    }
    x_field += size.width;
    y_field += size.width;
  }
}

namespace {

// Solves a system [n, n] for two right sides [n, 2] by elimination with pivots.
bool solve(std::vector<double>& a, std::vector<double>& b, size_t n) {
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i) {
      if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
    }
    if (!(std::fabs(a[pivot * n + k]) > 1e-12)) return false;
    for (size_t j = 0; j < n; ++j) std::swap(a[k * n + j], a[pivot * n + j]);
    for (size_t j = 0; j < 2; ++j) std::swap(b[k * 2 + j], b[pivot * 2 + j]);
    for (size_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const double ratio = a[i * n + k] / a[k * n + k];
      for (size_t j = k; j < n; ++j) a[i * n + j] -= ratio * a[k * n + j];
      for (size_t j = 0; j < 2; ++j) b[i * 2 + j] -= ratio * b[k * 2 + j];
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < 2; ++j) b[i * 2 + j] /= a[i * n + i];
  }
  return true;
}

// r^2 ln r, by the squared distance.
double bending(double squared) { return squared > 0.0 ? 0.5 * squared * std::log(squared) : 0.0; }

}  // namespace

bool spline_field(const FieldSize& size, const double* points, const double* moved, int64_t count,
                  float* field) {
  const auto n = static_cast<size_t>(count), all = n + 3;
  const auto squared = [&](double x, double y, size_t j) {
    const double dx = x - points[2 * j], dy = y - points[2 * j + 1];
    return dx * dx + dy * dy;
  };
  std::vector<double> a(all * all), b(all * 2);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      a[i * all + j] = bending(squared(points[2 * i], points[2 * i + 1], j));
    }
    const double affine[3] = {1.0, points[2 * i], points[2 * i + 1]};
    for (size_t j = 0; j < 3; ++j) a[i * all + n + j] = a[(n + j) * all + i] = affine[j];
    for (size_t j = 0; j < 2; ++j) b[i * 2 + j] = moved[2 * i + j] - points[2 * i + j];
  }
  if (!solve(a, b, all)) return false;
  const double sides[2] = {static_cast<double>(size.width), static_cast<double>(size.height)};
  // It bends slowly: some pixels, and straight lines between, are within 0.05 pixels of it.
  const int64_t step = std::min(size.height, size.width) >= 256 ? 4 : 2;
  const int64_t rows = (size.height + step - 2) / step + 1;
  const int64_t columns = (size.width + step - 2) / step + 1;
  std::vector<double> grid(static_cast<size_t>(2 * rows * columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const double share_x =
          columns > 1 ? static_cast<double>(c) / static_cast<double>(columns - 1) : 0.0;
      const double share_y =
          rows > 1 ? static_cast<double>(r) / static_cast<double>(rows - 1) : 0.0;
      const double x = share_x * (sides[0] - 1.0) / sides[0];
      const double y = share_y * (sides[1] - 1.0) / sides[1];
      double sum[2];
      for (size_t k = 0; k < 2; ++k)
        sum[k] = b[n * 2 + k] + b[n * 2 + 2 + k] * x + b[n * 2 + 4 + k] * y;
      for (size_t j = 0; j < n; ++j) {
        const double bent = bending(squared(x, y, j));
        for (size_t k = 0; k < 2; ++k) sum[k] += b[2 * j + k] * bent;
      }
      for (size_t k = 0; k < 2; ++k) {
        grid[(k * static_cast<size_t>(rows) + static_cast<size_t>(r)) *
                 static_cast<size_t>(columns) +
             static_cast<size_t>(c)] = sum[k] * sides[k];
      }
    }
  }
  grid_field(size, grid.data(), rows, columns, false, field);
  return true;
}

namespace {

// A line between each number and the next: kStep values, as far as there is room.
template <int kStep>
void widen_line(const float* line, int64_t count, float* to, int64_t size) {
  constexpr float kPart = 1.0f / static_cast<float>(kStep);
  const int64_t whole = std::min(size / kStep, count - 1);
  for (int64_t c = 0; c < whole; ++c) {
    const float first = line[c], change = (line[c + 1] - first) * kPart;
    for (int k = 0; k < kStep; ++k) to[c * kStep + k] = first + static_cast<float>(k) * change;
  }
  for (int64_t i = whole * kStep; i < size; ++i) {
    const int64_t c = i / kStep;
    const float first = line[c], change = (line[std::min(c + 1, count - 1)] - first) * kPart;
    to[i] = first + static_cast<float>(i % kStep) * change;
  }
}

template <int kStep>
void widen_by(const float* plane, const FieldSize& coarse, const FieldSize& size, float* field) {
  constexpr float kPart = 1.0f / static_cast<float>(kStep);
  const auto columns = static_cast<size_t>(coarse.width);
  std::vector<float> line(columns);
  for (int64_t y = 0; y < size.height; ++y, field += size.width) {
    const int64_t row = y / kStep;
    const float* const above = plane + row * coarse.width;
    const float* const below = plane + std::min(row + 1, coarse.height - 1) * coarse.width;
    const float share = static_cast<float>(y % kStep) * kPart;
    for (size_t c = 0; c < columns; ++c) line[c] = above[c] + share * (below[c] - above[c]);
    widen_line<kStep>(line.data(), coarse.width, field, size.width);
  }
}

}  // namespace

void widen_field(const float* plane, const FieldSize& coarse, int64_t step, const FieldSize& size,
                 float* field) {
  switch (step) {
    case 2: return widen_by<2>(plane, coarse, size, field);
    case 4: return widen_by<4>(plane, coarse, size, field);
    default: return widen_by<8>(plane, coarse, size, field);
  }
}

namespace {

// NOTE [ Inverse of a field ]
// A field reads output q at p = q + d(q), where d is bilinear between pixels and constant beyond
// the rim. So p(q) is continuous and stays near q: every p has a q. Where d changes slowly, q = p -
// d(q) converges to it in a few turns. Where it changes by more than a pixel per pixel, that
// diverges, and where the map folds there are several q. Then the q is searched: in the cells
// between four pixels, where p = a + b u + c v + e u v is a quadratic equation, and outside along
// the rim.

constexpr int64_t kTile = 16;        // cells along a side of those that are looked at together
constexpr double kTolerance = 1e-4;  // pixels
constexpr double kSlack = 1e-9;      // of a cell's sides
// Steps that shrink to the tolerance in so many turns are halved by each: their sum is near its
// limit.
constexpr int kQuickTurns = 20;

struct Point {
  double x, y;
};

Point operator+(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
double cross(Point a, Point b) { return a.x * b.y - a.y * b.x; }

// The smallest rectangle around points.
struct Bounds {
  double x1 = std::numeric_limits<double>::infinity(), y1 = x1, x2 = -x1, y2 = -x1;

  void add(Point p) {
    x1 = std::min(x1, p.x), y1 = std::min(y1, p.y);
    x2 = std::max(x2, p.x), y2 = std::max(y2, p.y);
  }
  bool holds(Point p) const {
    return p.x >= x1 - kSlack && p.x <= x2 + kSlack && p.y >= y1 - kSlack && p.y <= y2 + kSlack;
  }
};

bool is_share(double value) { return value >= -kSlack && value <= 1.0 + kSlack; }

class Inverse {
 public:
  Inverse(const FieldSize& size, const float* field) : size_(size), field_(field) {}

  Point find(Point p) {
    if (!std::isfinite(p.x) || !std::isfinite(p.y)) return p;
    const std::optional<Point> near = iterated(p);
    // Where the map folds, a point that is read in the image may be read outside as well.
    if (near && is_within(*near)) return *near;
    if (const std::optional<Point> inside = in_cells(p)) return *inside;
    if (near) return *near;
    return beyond_rim(p);
  }

 private:
  double right() const { return static_cast<double>(size_.width - 1); }
  double bottom() const { return static_cast<double>(size_.height - 1); }
  bool is_within(Point q) const {
    return q.x >= 0.0 && q.x <= right() && q.y >= 0.0 && q.y <= bottom();
  }

  // The displacement at a pixel.
  Point moved(int64_t x, int64_t y) const {
    const float* const at = field_ + y * size_.width + x;
    return {static_cast<double>(at[0]), static_cast<double>(at[size_.height * size_.width])};
  }
  // Where a pixel is read.
  Point read_at(int64_t x, int64_t y) const {
    return moved(x, y) + Point{static_cast<double>(x), static_cast<double>(y)};
  }
  // The displacement between pixels, which goes on as at the rim outside.
  Point moved(Point q) const {
    const double u = std::min(std::max(q.x, 0.0), right());
    const double v = std::min(std::max(q.y, 0.0), bottom());
    const auto x0 = static_cast<int64_t>(u), y0 = static_cast<int64_t>(v);
    const int64_t x1 = std::min(x0 + 1, size_.width - 1), y1 = std::min(y0 + 1, size_.height - 1);
    const double fx = u - static_cast<double>(x0), fy = v - static_cast<double>(y0);
    const auto row = [&](int64_t y) {
      const Point a = moved(x0, y), b = moved(x1, y);
      return Point{a.x * (1.0 - fx) + b.x * fx, a.y * (1.0 - fx) + b.y * fx};
    };
    const Point above = row(y0), below = row(y1);
    return {above.x * (1.0 - fy) + below.x * fy, above.y * (1.0 - fy) + below.y * fy};
  }

  // q = p - d(q), if that converges quickly.
  std::optional<Point> iterated(Point p) const {
    Point q = p;
    for (int turn = 0; turn < kQuickTurns; ++turn) {
      const Point next = p - moved(q);
      const double step = std::fabs(next.x - q.x) + std::fabs(next.y - q.y);
      q = next;
      if (step < kTolerance) return q;
      if (!std::isfinite(step)) break;
    }
    return std::nullopt;
  }

  std::optional<Point> in_cells(Point p) {
    if (tiles_.empty()) bound_tiles();
    const int64_t columns = size_.width - 1, rows = size_.height - 1;
    const Bounds* tile = tiles_.data();
    for (int64_t top = 0; top < rows; top += kTile) {
      for (int64_t left = 0; left < columns; left += kTile, ++tile) {
        if (!tile->holds(p)) continue;
        for (int64_t y = top; y < std::min(top + kTile, rows); ++y) {
          for (int64_t x = left; x < std::min(left + kTile, columns); ++x) {
            if (const std::optional<Point> found = in_cell(p, x, y)) return found;
          }
        }
      }
    }
    return std::nullopt;
  }

  void bound_tiles() {
    const int64_t columns = size_.width - 1, rows = size_.height - 1;
    for (int64_t top = 0; top < rows; top += kTile) {
      for (int64_t left = 0; left < columns; left += kTile) {
        Bounds own;
        for (int64_t y = top; y <= std::min(top + kTile, rows); ++y) {
          for (int64_t x = left; x <= std::min(left + kTile, columns); ++x) own.add(read_at(x, y));
        }
        tiles_.push_back(own);
      }
    }
  }

  // The place of p in the cell right of and below a pixel.
  std::optional<Point> in_cell(Point p, int64_t x, int64_t y) const {
    const std::array<Point, 4> corners = {read_at(x, y), read_at(x + 1, y), read_at(x, y + 1),
                                          read_at(x + 1, y + 1)};
    Bounds around;
    for (const Point& corner : corners) around.add(corner);
    if (!around.holds(p)) return std::nullopt;
    const Point b = corners[1] - corners[0], c = corners[2] - corners[0];
    const Point e = (corners[3] - corners[2]) - b, from = p - corners[0];
    // (from - b u) x (c + e u) = 0
    const double square = -cross(b, e), linear = cross(from, e) - cross(b, c),
                 rest = cross(from, c);
    std::array<double, 2> roots = {std::nan(""), std::nan("")};
    const double under = linear * linear - 4.0 * square * rest;
    if (under >= 0.0) {
      const double half = -0.5 * (linear + std::copysign(std::sqrt(under), linear));
      roots = {rest / half, half / square};
    }
    for (const double u : roots) {
      if (!is_share(u)) continue;
      const Point side = {c.x + e.x * u, c.y + e.y * u},
                  over = {from.x - b.x * u, from.y - b.y * u};
      const double v = std::fabs(side.x) > std::fabs(side.y) ? over.x / side.x : over.y / side.y;
      if (is_share(v)) return Point{static_cast<double>(x) + u, static_cast<double>(y) + v};
    }
    return std::nullopt;
  }

  // Outside of the pixels' centres, displacements are those of the nearest point of the rim.
  Point beyond_rim(Point p) const {
    const std::array<double, 2> signs = {-1.0, 1.0};
    for (const double sign : signs) {
      const int64_t x = sign < 0.0 ? 0 : size_.width - 1;
      for (int64_t y = 0; y + 1 < size_.height; ++y) {
        const Point a = read_at(x, y), b = read_at(x, y + 1);
        const double share = (p.y - a.y) / (b.y - a.y);
        const double over = p.x - (a.x + (b.x - a.x) * share);
        if (is_share(share) && over * sign >= 0.0) {
          return {static_cast<double>(x) + over, static_cast<double>(y) + share};
        }
      }
    }
    for (const double sign : signs) {
      const int64_t y = sign < 0.0 ? 0 : size_.height - 1;
      for (int64_t x = 0; x + 1 < size_.width; ++x) {
        const Point a = read_at(x, y), b = read_at(x + 1, y);
        const double share = (p.x - a.x) / (b.x - a.x);
        const double over = p.y - (a.y + (b.y - a.y) * share);
        if (is_share(share) && over * sign >= 0.0) {
          return {static_cast<double>(x) + share, static_cast<double>(y) + over};
        }
      }
    }
    for (const double down : signs) {
      for (const double across : signs) {
        const int64_t x = across < 0.0 ? 0 : size_.width - 1, y = down < 0.0 ? 0 : size_.height - 1;
        const Point over = p - read_at(x, y);
        if (over.x * across >= 0.0 && over.y * down >= 0.0) {
          return over + Point{static_cast<double>(x), static_cast<double>(y)};
        }
      }
    }
    return {std::nan(""), std::nan("")};  // within rounding of two of these, and in none
  }

  FieldSize size_;
  const float* field_;
  std::vector<Bounds> tiles_;  // where the cells of each tile are read; empty until one is needed
};

}  // namespace

void invert_field(const FieldSize& size, const float* field, const double* points, int64_t count,
                  double* moved) {
  Inverse inverse(size, field);
  for (int64_t i = 0; i < count; ++i) {
    const Point q = inverse.find({points[2 * i], points[2 * i + 1]});
    moved[2 * i] = q.x;
    moved[2 * i + 1] = q.y;
  }
}

namespace {

void fill_with_units(float* data, int64_t count, double key, const Threads& threads) {
  const NoiseParams p = {
      data, DType::kFloat32, count, count, NoiseKind::kUnit, key_of(key), 0.0, 0.0, false};
  threads.with_workspace([&](Workspace& workspace) { plain_kernel(noise_stub)(p, workspace); });
}

// Blurs a plane of uniform noise, of which 1 and 0 become factor and -factor.
void blur_noise(float* plane, const FieldSize& size, float factor, const double* sigma,
                int64_t radius) {
  const Taps row = gaussian_taps(2 * radius + 1, sigma[0]);
  const Taps column = gaussian_taps(2 * radius + 1, sigma[1]);
  std::vector<float> scratch(
      static_cast<size_t>(filter_scratch(size.height, size.width, radius, radius)));
  FilterParams p = {};
  p.source = p.target = plane;
  p.dtype = DType::kFloat32;
  p.height = size.height;
  p.width = size.width;
  p.row = row.data();
  p.column = column.data();
  p.row_radius = p.column_radius = radius;
  p.factor = 2.0f * factor;  // taps add up to 1: 2 u - 1 may be taken afterwards
  p.shift = -factor;
  p.scratch = scratch.data();
  run_plain(filter_stub, p);
}

// NOTE [ Elastic fields ]
// torchvision's elastic transform: uniform noise in [-1, 1] that is blurred and multiplied. The x
// field's kernel reaches radius[0] pixels in both directions and the y field's radius[1]; both have
// the widths sigma x and y. A field whose own sigma is 0 isn't blurred.
//
// Noise that a wide Gaussian has blurred changes slowly. At every s-th pixel it has the variance
// and the correlations of noise there alone that is s times less and is blurred by sigma / s. So
// that is what is made, and straight lines between: the standard deviation there is up to 1% too
// small.
void elastic_field(const FieldSize& size, double key, const double* factor, const double* sigma,
                   const double* radius, float* field, const Threads& threads) {
  const int64_t plane = size.height * size.width;
  int64_t step = 1;
  while (step < 8 && std::min(sigma[0], sigma[1]) >= 5.0 * static_cast<double>(step) &&
         std::min(size.height, size.width) > 16 * step) {
    step *= 2;
  }
  const FieldSize coarse = {(size.height + step - 2) / step + 1,
                            (size.width + step - 2) / step + 1};
  const int64_t count = coarse.height * coarse.width;
  std::vector<float> own(step > 1 ? static_cast<size_t>(2 * count) : 0);
  float* const noise = step > 1 ? own.data() : field;
  fill_with_units(noise, 2 * count, key, threads);
  const double part = static_cast<double>(step);
  const double widths[2] = {sigma[0] / part, sigma[1] / part};
  const auto finish = [&](int64_t begin, int64_t end) {
    for (int64_t axis = begin; axis < end; ++axis) {
      const auto scale = static_cast<float>(factor[axis] / part);
      float* const to = field + axis * plane;
      if (!(sigma[axis] > 0.0)) {
        for (int64_t i = 0; i < plane; ++i) to[i] = (to[i] * 2.0f - 1.0f) * scale;
        continue;
      }
      const auto reach = static_cast<int64_t>(std::ceil(radius[axis] / part));
      blur_noise(noise + axis * count, coarse, scale, widths, reach);
      if (step > 1) widen_field(noise + axis * count, coarse, step, size, to);
    }
  };
  threads.with_workspace([&](Workspace& workspace) { parallel_for(workspace, 2, 1, finish); });
}

}  // namespace

void make_field(const FieldTask& task, const Threads& threads) {
  const auto& [kind, values, size, field] = task;
  FieldReader reader("the field " + kind, values);
  if (size.height < 1 || size.width < 1) reader.refuse("has no pixels");
  if (kind == "grid") {
    const int64_t rows = reader.whole("rows"), columns = reader.whole("columns");
    if (rows < 1 || columns < 1) reader.refuse("has no points");
    const auto& shifts = reader.list("shifts", static_cast<size_t>(2 * rows * columns));
    grid_field(size, shifts.data(), rows, columns, reader.flag("spline"), field);
  } else if (kind == "steps") {
    const auto& x_steps = reader.list("x_steps");
    const auto& y_steps = reader.list("y_steps", x_steps.size());
    if (x_steps.empty()) reader.refuse("has no steps");
    steps_field(size, x_steps.data(), y_steps.data(), static_cast<int64_t>(x_steps.size()), field);
  } else if (kind == "lens") {
    lens_field(size, reader.number("k"), reader.flag("fisheye"), field);
  } else if (kind == "spline") {
    const auto& points = reader.list("points");
    const auto& moved = reader.list("moved", points.size());
    const auto count = static_cast<int64_t>(points.size() / 2);
    if (!spline_field(size, points.data(), moved.data(), count, field)) {
      throw std::invalid_argument("the points determine no thin-plate spline");
    }
  } else if (kind == "elastic") {
    elastic_field(size, reader.number("key"), reader.list("factor", 2).data(),
                  reader.list("sigma", 2).data(), reader.list("radius", 2).data(), field, threads);
  } else if (kind == "clouds") {
    const int64_t count = cloud_numbers(size.height, size.width);
    std::vector<float> noise(static_cast<size_t>(count));
    fill_with_units(noise.data(), count, reader.number("key"), threads);
    make_clouds(noise.data(), reader.number("roughness"), size.height, size.width, field);
  } else {
    reader.refuse("is unknown");
  }
  reader.finish();
}

}  // namespace visops
