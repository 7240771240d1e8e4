// NOTE [ Inverse of a field ]
// A field reads output q at p = q + d(q), where d is bilinear between pixels and constant beyond
// the rim. So p(q) is continuous and stays near q: every p has a q. Where d changes slowly, q = p -
// d(q) converges to it in a few turns. Where it changes by more than a pixel per pixel, that
// diverges, and where the map folds there are several q. Then the q is searched: in the cells
// between four pixels, where p = a + b u + c v + e u v is a quadratic equation, and outside along
// the rim.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/warp/fields.h"

namespace visops {
namespace {

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

}  // namespace visops
