// Distance transforms: what fronts and kernels share.
//
// NOTE [ Distances ]
// The distance of a pixel inside a mask to the nearest pixel outside is found axis by axis. The
// first pass takes distances along columns. Each further pass takes, for every pixel, the least of
//
//   near + step(k)^2         Euclidean, squared
//   near + k                 taxicab
//   max(near, k)             chessboard
//
// over the pixels of its line, k apart, where `near` is what the passes before found there. Ties go
// to the nearest site that comes first in raster order, which passes keep too: for the sums, a site
// that loses in its own line can't win in another. For the chessboard it can, so sites are looked
// up when distances are known: the first in raster order on the shell of that radius.
//
// Squares of distances are integers below 2^30 if spacings are 1 and sides are short enough, else
// float32. The least of equal candidates is the same in any order, so all kernels agree in bits.
#pragma once

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "core/element.h"
#include "core/kernel_stub.h"

namespace visops {

enum class Metric : int { kEuclidean, kTaxicab, kChessboard };

struct DistanceParams {
  const uint8_t* masks;  // [count, depth, height, width], contiguous; not 0: inside
  int64_t count, depth, height, width;
  int64_t dims;  // 2 or 3; depth is 1 if 2
  Metric metric;
  float spacing[3];  // z, y, x; 1 unless Euclidean
  bool in_integers;  // spacings are 1 and squares below kFar

  float* distances;  // [count, depth, height, width]
  int32_t* indices;  // [count, dims, depth, height, width] of the nearest site; null: not wanted
};

// Squares and distances of pixels that no site was found for yet. Sums of two don't overflow.
constexpr int32_t kFar = 1 << 30;
constexpr int64_t kLongestSide = int64_t{1} << 24;

VISOPS_FN int64_t pixels_of(const DistanceParams& p) { return p.depth * p.height * p.width; }

VISOPS_FN int32_t far_of(int32_t) { return kFar; }
VISOPS_FN float far_of(float) { return INFINITY; }

// What k steps along an axis add to a squared distance, or to a distance.
VISOPS_HOT_FN int32_t step_of(Metric metric, int32_t k, int32_t) {
  return metric == Metric::kEuclidean ? k * k : k;
}
VISOPS_HOT_FN float step_of(Metric, int32_t k, float spacing) {
  const float length = spacing * static_cast<float>(k);
  return length * length;
}

// The distance through a pixel of the same line, `step` away.
template <class T>
VISOPS_HOT_FN T distance_through(Metric metric, T near, T step) {
  if (metric != Metric::kChessboard) return near + step;
  return near > step ? near : step;
}

VISOPS_HOT_FN float final_distance(Metric metric, int32_t near) {
  if (near >= kFar) return INFINITY;
  const float value = static_cast<float>(near);
  return metric == Metric::kEuclidean ? sqrtf(value) : value;
}
VISOPS_HOT_FN float final_distance(Metric, float near) { return sqrtf(near); }

// An axis' spacing, in the type of squares.
VISOPS_FN int32_t spacing_of(const DistanceParams&, int, int32_t) { return 1; }
VISOPS_FN float spacing_of(const DistanceParams& p, int axis, float) { return p.spacing[axis]; }

VISOPS_FN void store_index(const DistanceParams& p, int64_t mask, int64_t pixel, int32_t site) {
  const int64_t pixels = pixels_of(p);
  int32_t* out = p.indices + mask * p.dims * pixels + pixel;
  const auto width = static_cast<int32_t>(p.width), height = static_cast<int32_t>(p.height);
  const int32_t row = site / width;
  if (p.dims == 3) {
    *out = site < 0 ? -1 : row / height;
    out += pixels;
  }
  out[0] = site < 0 ? -1 : row % height;
  out[pixels] = site < 0 ? -1 : site - row * width;
}

// The first site in raster order on the shell of a chessboard distance around a pixel; -1 if the
// distance is infinite.
VISOPS_FN int32_t site_on_shell(const DistanceParams& p, const uint8_t* mask, int64_t pixel,
                                float distance) {
  if (distance == INFINITY) return -1;
  const auto d = static_cast<int32_t>(distance);  // sides and pixels fit 32 bits too
  const auto depth = static_cast<int32_t>(p.depth), height = static_cast<int32_t>(p.height);
  const auto width = static_cast<int32_t>(p.width);
  const int32_t row = static_cast<int32_t>(pixel) / width,
                x = static_cast<int32_t>(pixel) - row * width;
  const int32_t z = row / height, y = row - z * height;
  const int32_t left = x > d ? x - d : 0, right = x + d < width ? x + d : width - 1;
  for (int32_t at_z = z > d ? z - d : 0; at_z <= z + d && at_z < depth; ++at_z) {
    for (int32_t at_y = y > d ? y - d : 0; at_y <= y + d && at_y < height; ++at_y) {
      const int32_t first = (at_z * height + at_y) * width;
      const bool on_face = at_z == z - d || at_z == z + d || at_y == y - d || at_y == y + d;
      // Within the shell, a row has two pixels.
      const int32_t step = on_face || d == 0 ? 1 : 2 * d;
      for (int32_t at_x = on_face ? left : x - d; at_x <= right; at_x += step) {
        if (at_x >= 0 && mask[first + at_x] == 0) return first + at_x;
      }
    }
  }
  return -1;
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
      return p.in_integers ? with_sites(Euclidean(), int32_t{0}) : with_sites(Euclidean(), 0.0f);
  }
}

extern ScheduledStub<DistanceParams> distance_stub;

Metric parse_metric(const char* op, const std::string& name);
void check_distance(const char* op, const DistanceParams& p, const std::vector<double>& spacing);

}  // namespace visops
