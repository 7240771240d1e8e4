// Distance transforms: what fronts and kernels share.
//
// NOTE [ Distances ]
// The distance of a pixel inside a mask to the nearest pixel outside is found axis by axis. Each
// pass takes, for every pixel, the least of
//
//   near + step(k)^2         Euclidean, squared
//   near + k                 taxicab
//   max(near, k)             chessboard
//
// over the pixels of its line, k apart, where `near` is what the passes before found there; before
// the first pass it is 0 outside and infinite inside. Ties go to the nearest site that comes first
// in raster order, which passes keep too: for the sums, a site that loses in its own line can't win
// in another. For the chessboard it can, so its sites are looked up when distances are known: NOTE
// [ Sites of the chessboard ].
//
// Where spacings are equal, distances count pixels until the end. Their squares are integers: 32
// bits where sides are short enough, else 64. Kernels may try candidates or solve lines as in NOTE
// [ Lines ], as the least of equal candidates is the same in any order. Unequal
// spacings make squares float64, whose rounding depends on which candidates meet: all kernels solve
// lines, in the same steps.
#pragma once

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/element.h"

namespace visops {

enum class Metric : int { kEuclidean, kTaxicab, kChessboard };

// What distances, or their squares, are computed in.
enum class Squares : int { kInt32, kInt64, kFloat64 };

struct DistanceParams {
  const uint8_t* masks;  // [count, depth, height, width], contiguous; not 0: inside
  int64_t count, depth, height, width;
  int64_t dims;  // 2 or 3; depth is 1 if 2
  Metric metric;
  Squares squares;    // kInt32 unless Euclidean
  double spacing[3];  // z, y, x; for kFloat64
  double scale;       // of distances that count pixels

  float* distances;  // [count, depth, height, width]
  int32_t* indices;  // [count, dims, depth, height, width] of the nearest site; null: not wanted
};

// Squares and distances of pixels that no site was found for yet. Sums of two don't overflow.
constexpr int32_t kFar = 1 << 30;
constexpr int64_t kVeryFar = int64_t{1} << 61;
constexpr int64_t kLongestSide = int64_t{1} << 24;

VISOPS_FN int64_t pixels_of(const DistanceParams& p) { return p.depth * p.height * p.width; }

VISOPS_FN int32_t far_of(int32_t) { return kFar; }
VISOPS_FN int64_t far_of(int64_t) { return kVeryFar; }
VISOPS_FN double far_of(double) { return INFINITY; }

// What k steps along an axis add to a squared distance, or to a distance.
VISOPS_HOT_FN int32_t step_of(Metric metric, int32_t k, int32_t) {
  return metric == Metric::kEuclidean ? k * k : k;
}
VISOPS_HOT_FN int64_t step_of(Metric, int32_t k, int64_t) { return static_cast<int64_t>(k) * k; }
VISOPS_HOT_FN double step_of(Metric, int32_t k, double spacing) {
  const double length = spacing * static_cast<double>(k);
  return length * length;
}

// The distance through a pixel of the same line, `step` away.
template <class T>
VISOPS_HOT_FN T distance_through(Metric metric, T near, T step) {
  if (metric != Metric::kChessboard) return near + step;
  return near > step ? near : step;
}

// Squares up to this are float32 numbers.
constexpr int32_t kExactSquare = 1 << 24;

template <class T>
VISOPS_HOT_FN float final_distance(const DistanceParams& p, Metric metric, T near) {
  if constexpr (std::is_same<T, double>::value) return static_cast<float>(sqrt(near));
  if (near >= far_of(T())) return INFINITY;
  if (metric != Metric::kEuclidean) return static_cast<float>(near);
  if (near <= static_cast<T>(kExactSquare) && p.scale == 1.0) {
    return sqrtf(static_cast<float>(near));
  }
  return static_cast<float>(p.scale * sqrt(static_cast<double>(near)));
}

// An axis' spacing, in the type of squares.
VISOPS_FN int32_t spacing_of(const DistanceParams&, int, int32_t) { return 1; }
VISOPS_FN int64_t spacing_of(const DistanceParams&, int, int64_t) { return 1; }
VISOPS_FN double spacing_of(const DistanceParams& p, int axis, double) { return p.spacing[axis]; }

// A pixel of a mask.
struct Position {
  int32_t z, y, x;
};

VISOPS_HOT_FN void store_index(const DistanceParams& p, int64_t mask, int64_t pixel,
                               const Position& site) {
  const int64_t pixels = pixels_of(p);
  int32_t* out = p.indices + mask * p.dims * pixels + pixel;
  if (p.dims == 3) {
    *out = site.z;
    out += pixels;
  }
  out[0] = site.y;
  out[pixels] = site.x;
}

// The same for the number of a pixel, -1 where there is none.
VISOPS_FN void store_index(const DistanceParams& p, int64_t mask, int64_t pixel, int32_t site) {
  const auto width = static_cast<int32_t>(p.width), height = static_cast<int32_t>(p.height);
  const int32_t row = site / width, plane = row / height;
  const Position position = {plane, row - plane * height, site - row * width};
  store_index(p, mask, pixel, site < 0 ? Position{-1, -1, -1} : position);
}

// f(metric, zero, sites): the metric as a constant, a 0 of the type that distances are computed in,
// and as a constant whether passes keep sites. The chessboard's are looked up afterwards.
template <class F>
void with_distance_types(const DistanceParams& p, const F& f) {
  const auto with_sites = [&](auto metric, auto zero) {
    return p.indices != nullptr ? f(metric, zero, std::true_type())
                                : f(metric, zero, std::false_type());
  };
  using Euclidean = std::integral_constant<Metric, Metric::kEuclidean>;
  switch (p.metric) {
    case Metric::kTaxicab:
      return with_sites(std::integral_constant<Metric, Metric::kTaxicab>(), int32_t{0});
    case Metric::kChessboard:
      return f(std::integral_constant<Metric, Metric::kChessboard>(), int32_t{0},
               std::false_type());
    case Metric::kEuclidean:
      switch (p.squares) {
        case Squares::kInt32: return with_sites(Euclidean(), int32_t{0});
        case Squares::kInt64: return with_sites(Euclidean(), int64_t{0});
        case Squares::kFloat64: return with_sites(Euclidean(), 0.0);
      }
  }
}

extern KernelStub<DistanceParams> distance_stub;

Metric parse_metric(const char* op, const std::string& name);
void check_distance(const char* op, const DistanceParams& p, const std::vector<double>& spacing);

// Where the nearest pixels of the chessboard distance are.
//
// NOTE [ Sites of the chessboard ]
// The site of a pixel whose distance is d is the first in raster order among those at most d
// planes, rows and columns away, since none is nearer. Its plane is the first whose own distance
// there (that of masks of two dimensions) is at most d, its row the first of that plane whose
// distance along the row is at most d, and its column the first from d columns before the pixel on.
// Planes and rows are looked for in trees of least values, columns by distances along the row: each
// takes steps in proportion to the logarithm of a side, and fewer where distances are short.

// Distances along an axis, and their least values: of 8 pixels, of 64, and so on.
struct LeastTree {
  static constexpr int kLevels = 9;  // 8^8 is the longest side
  static constexpr int64_t kChildren = 8;

  // Level l is [outer, size[l], inner], and level 0 the distances.
  const int32_t* least[kLevels];
  int64_t size[kLevels];
  int64_t inner;
  int levels;
};

// The sizes of a tree, without its values.
VISOPS_FN LeastTree tree_of(const int32_t* distances, int64_t size, int64_t inner) {
  LeastTree tree = {};
  tree.least[0] = distances;
  tree.size[0] = size;
  tree.inner = inner;
  tree.levels = 1;
  while (tree.size[tree.levels - 1] > 1) {
    tree.size[tree.levels] =
        (tree.size[tree.levels - 1] + LeastTree::kChildren - 1) / LeastTree::kChildren;
    ++tree.levels;
  }
  return tree;
}

// Value `i` of the level above `level`, which is outer * size + place and `inner` numbers wide, at
// column `at`.
VISOPS_FN int32_t least_of_children(const LeastTree& tree, int level, int64_t i, int64_t at) {
  const int64_t outer = i / tree.size[level + 1], position = i - outer * tree.size[level + 1];
  const int64_t first = position * LeastTree::kChildren, size = tree.size[level];
  const int64_t last = first + LeastTree::kChildren < size ? first + LeastTree::kChildren : size;
  int32_t least = kFar;
  for (int64_t k = first; k < last; ++k) {
    const int32_t value = tree.least[level][(outer * size + k) * tree.inner + at];
    least = value < least ? value : least;
  }
  return least;
}

// The first place from `from` on whose distance is at most `most`; there is one.
VISOPS_FN int64_t first_within(const LeastTree& tree, int64_t outer, int64_t at, int64_t from,
                               int32_t most) {
  int level = 0;
  int64_t position = from;
  while (position < tree.size[level]) {
    if (tree.least[level][(outer * tree.size[level] + position) * tree.inner + at] <= most) {
      if (level == 0) return position;
      position *= LeastTree::kChildren;
      --level;
      continue;
    }
    ++position;
    while (position % LeastTree::kChildren == 0 && level + 1 < tree.levels) {
      position /= LeastTree::kChildren;
      ++level;
    }
  }
  return from;  // never: callers know of a place
}

struct ChessboardTrees {
  LeastTree rows;    // distances along rows, [masks * depth, height, width]
  LeastTree planes;  // distances within planes, [masks, depth, height * width]; for dims == 3
};

// The site of a pixel of the trees' mask `mask`, at this distance.
VISOPS_FN Position chessboard_site(const DistanceParams& p, const ChessboardTrees& trees,
                                   int64_t mask, const Position& pixel, float found) {
  if (found == 0.0f) return pixel;
  if (found == INFINITY) return {-1, -1, -1};
  const auto distance = static_cast<int32_t>(found);
  const auto before = [&](int32_t position) {
    return position > distance ? position - distance : 0;
  };
  int64_t plane = pixel.z;
  if (p.dims == 3) {
    const int64_t column = pixel.y * p.width + pixel.x;
    plane = first_within(trees.planes, mask, column, before(pixel.z), distance);
  }
  const int64_t outer = mask * p.depth + plane;
  const int64_t row = first_within(trees.rows, outer, pixel.x, before(pixel.y), distance);
  // From a column, the nearest site of the row is the next one, or lies before it; then the next
  // one is farther, so each step at least doubles the way from there.
  const int32_t* along = trees.rows.least[0] + (outer * p.height + row) * p.width;
  int64_t column = before(pixel.x);
  while (along[column] > 0) {
    const int64_t next = column + along[column];
    column = next < p.width && along[next] == 0 ? next : next + 1;
  }
  return {static_cast<int32_t>(plane), static_cast<int32_t>(row), static_cast<int32_t>(column)};
}

// The least distance along one line, in time that grows with its pixels alone.
//
// NOTE [ Lines ]
// Taxicab: distances spread along the line, one more each pixel, once in each direction. Other
// metrics: each pixel j is a curve over the line, near[j] + step(x - j)^2 or max(near[j], |x - j|);
// two of them cross once. From left to right, a stack keeps the curves that are lowest somewhere,
// and where each begins to be; its top is the right-most one. Felzenszwalb and Huttenlocher,
// "Distance Transforms of Sampled Functions" (Theory of Computing 2012); Meijster, Roerdink and
// Hesselink, "A General Algorithm for Computing Distance Transforms in Linear Time" (2000).
//
// Integers are exact, and ties go to the site that comes first in raster order, so the result is
// that of trying every candidate. In float64, where two curves cross is rounded, then moved by a
// pixel at most to where their rounded heights change order.

// `Line` has near(x), what the passes before found at x, and site(x), where. `Room` has first(x)
// and second(x), two numbers for each pixel.
template <Metric kMetric, class T, bool kSites, class Line, class Room>
class LowerEnvelope {
 public:
  VISOPS_DEVICE LowerEnvelope(const Line& line, int32_t size, T spacing, const Room& room)
      : line_(line), size_(size), spacing_(spacing), room_(room) {
    const T unit = step_of(kMetric, 1, spacing);
    T before = far_of(T()), near = line.near(0);
    for (int32_t x = 0; x < size; ++x) {
      const T after = x + 1 < size ? line.near(x + 1) : far_of(T());
      // A pixel that is farther than through both neighbours is lowest nowhere.
      const bool is_lost = near > before + unit && near > after + unit;
      if (near < far_of(T()) && !is_lost) push(x);
      before = near;
      near = after;
    }
  }

  // store(x, distance, site) for every pixel.
  template <class Store>
  VISOPS_DEVICE void walk(const Store& store) const {
    if (count_ == 0) {
      for (int32_t x = 0; x < size_; ++x) store(x, far_of(T()), -1);
    }
    int32_t end = size_;
    for (int32_t i = count_ - 1; i >= 0; --i) {
      const int32_t pixel = pixels(i), begin = begins(i), site = kSites ? line_.site(pixel) : -1;
      const T near = line_.near(pixel);
      for (int32_t x = begin; x < end; ++x) store(x, through(near, pixel, x), site);
      end = begin;
    }
  }

 private:
  VISOPS_DEVICE int32_t& pixels(int32_t i) const { return room_.first(i); }
  VISOPS_DEVICE int32_t& begins(int32_t i) const { return room_.second(i); }

  VISOPS_DEVICE T through(T near, int32_t pixel, int32_t x) const {
    const int32_t k = x - pixel, size = kMetric == Metric::kChessboard && k < 0 ? -k : k;
    return distance_through(kMetric, near, step_of(kMetric, size, spacing_));
  }

  // Whether the left of two curves is the lower one at x.
  VISOPS_DEVICE bool left_wins(int32_t left, int32_t right, int32_t x) const {
    const T a = through(line_.near(left), left, x), b = through(line_.near(right), right, x);
    if (!kSites) return a <= b;
    return a < b || (a == b && line_.site(left) < line_.site(right));
  }

  // The last pixel where the left one is lower; it is so at `begin`.
  VISOPS_DEVICE int64_t last_of_left(int32_t left, int32_t right, int32_t begin) const {
    const T of_left = line_.near(left), of_right = line_.near(right);
    if constexpr (kMetric == Metric::kChessboard) {
      const int64_t middle = (static_cast<int64_t>(left) + right) / 2;
      if (of_left <= of_right) return left + of_right > middle ? left + of_right : middle;
      return right - of_left < middle ? right - of_left : middle;
    } else if constexpr (std::is_same<T, double>::value) {
      const double sum = static_cast<double>(left) + static_cast<double>(right);
      const double apart = static_cast<double>(right - left) * spacing_ * spacing_;
      const double crossing = ((of_right - of_left) / apart + sum) * 0.5;
      const double first = static_cast<double>(begin), end = static_cast<double>(size_ - 1);
      const double before = crossing < end ? crossing : end;
      const auto last = static_cast<int32_t>(before > first ? before : first);
      if (last + 1 < size_ && left_wins(left, right, last + 1)) return last + 1;
      return last > begin && !left_wins(left, right, last) ? last - 1 : last;
    } else {
      const int64_t a = left, b = right;
      const int64_t rise = b * b + of_right - a * a - of_left, twice = 2 * (b - a);
      // Both are below 2^53: the quotient rounds to a whole number only if it is one.
      const double quotient = static_cast<double>(rise) / static_cast<double>(twice);
      auto last = static_cast<int64_t>(quotient);
      if (static_cast<double>(last) > quotient) --last;
      const bool is_tie = last * twice == rise;
      return kSites && is_tie && line_.site(right) < line_.site(left) ? last - 1 : last;
    }
  }

  VISOPS_DEVICE void push(int32_t pixel) {
    while (count_ > 0 && !left_wins(pixels(count_ - 1), pixel, begins(count_ - 1))) --count_;
    int64_t begin = 0;
    if (count_ > 0) begin = last_of_left(pixels(count_ - 1), pixel, begins(count_ - 1)) + 1;
    if (begin >= size_) return;
    pixels(count_) = pixel;
    begins(count_) = static_cast<int32_t>(begin);
    ++count_;
  }

  const Line& line_;
  int32_t size_;
  T spacing_;
  Room room_;
  int32_t count_ = 0;
};

// store(x, distance, site) for every pixel of a line; the site is -1 where none is.
template <Metric kMetric, class T, bool kSites, class Line, class Room, class Store>
VISOPS_DEVICE static inline void solve_line(const Line& line, int64_t size, T spacing,
                                            const Room& room, const Store& store) {
  const auto length = static_cast<int32_t>(size);
  if constexpr (kMetric == Metric::kTaxicab) {
    T near = far_of(T());
    int32_t site = -1;
    const auto meet = [&](T other, int32_t other_site) {
      near = near < far_of(T()) ? near + 1 : near;
      const bool wins = other < near || (kSites && other == near && other_site < site);
      near = wins ? other : near;
      site = wins ? other_site : site;
    };
    for (int32_t x = 0; x < length; ++x) {
      meet(line.near(x), kSites ? line.site(x) : -1);
      room.first(x) = near;
      if (kSites) room.second(x) = site;
    }
    near = far_of(T());
    site = -1;
    for (int32_t x = length - 1; x >= 0; --x) {
      meet(room.first(x), kSites ? room.second(x) : -1);
      store(x, near, site);
    }
  } else {
    LowerEnvelope<kMetric, T, kSites, Line, Room>(line, length, spacing, room).walk(store);
  }
}

}  // namespace visops
