// Polygons that move with an image, all of a sample together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace visops {

template <size_t D>
using PolygonPoint = std::array<double, D>;

// Points of D coordinates, of several polygons: they lie one after another, with counts of how many
// points each has.
template <size_t D>
struct Polygons {
  std::vector<PolygonPoint<D>> points;
  std::vector<int64_t> counts;

  template <class Each>
  void for_each(const Each& each) const {
    const PolygonPoint<D>* first = points.data();
    for (const int64_t count : counts) {
      each(first, count);
      first += count;
    }
  }
};

// What lies in a window x1, y1, x2, y2. Polygons without area left have no points.
Polygons<2> clip_polygons(Polygons<2> polygons, const std::array<double, 4>& window);

// Polygons moved by a matrix [3, 3] whose w is 1 at the image's centre. What is nearer to the
// horizon than `least` is cut off.
Polygons<2> move_polygons(Polygons<2> polygons, const double* matrix, double least);

// The area that each polygon encloses.
double polygon_area(const PolygonPoint<2>* points, int64_t count);

}  // namespace visops
