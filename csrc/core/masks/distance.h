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
// [ Sites of the chessboard ] (distance_chessboard.h).
//
// Where spacings are equal, distances count pixels until the end. Their squares are integers: 32
// bits where sides are short enough, else 64. Kernels may try candidates or solve lines as in NOTE
// [ Lines ] (distance_line.h), as the least of equal candidates is the same in any order. Unequal
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

}  // namespace visops
