// Clipping follows I. E. Sutherland and G. W. Hodgman, "Reentrant polygon clipping", CACM 17(1),
// 1974.
#include "core/chain/polygons.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace visops {
namespace {

// The part of polygons with distance(point) of at least 0. Points on the cut are placed(point).
template <size_t D, class Distance, class Placed>
Polygons<D> cut(const Polygons<D>& polygons, const Distance& distance, const Placed& placed) {
  Polygons<D> rest;
  rest.points.reserve(polygons.points.size() + polygons.counts.size());
  polygons.for_each([&](const PolygonPoint<D>* points, int64_t count) {
    const size_t before = rest.points.size();
    for (int64_t i = 0; i < count; ++i) {
      const PolygonPoint<D>&here = points[i], &next = points[i + 1 == count ? 0 : i + 1];
      const double own = distance(here), other = distance(next);
      if (own >= 0.0) rest.points.push_back(here);
      if ((own >= 0.0) == (other >= 0.0)) continue;
      const double share = own / (own - other);
      PolygonPoint<D> crossing;
      for (size_t k = 0; k < D; ++k) crossing[k] = here[k] + share * (next[k] - here[k]);
      rest.points.push_back(placed(crossing));
    }
    rest.counts.push_back(static_cast<int64_t>(rest.points.size() - before));
  });
  return rest;
}

// Polygons of which none has this property; a polygon that does has no points any more.
template <class Property>
void empty_where(Polygons<2>& polygons, const Property& property) {
  Polygons<2> rest;
  polygons.for_each([&](const PolygonPoint<2>* points, int64_t count) {
    const int64_t kept = property(points, count) ? 0 : count;
    rest.points.insert(rest.points.end(), points, points + kept);
    rest.counts.push_back(kept);
  });
  polygons = std::move(rest);
}

}  // namespace

double polygon_area(const PolygonPoint<2>* points, int64_t count) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const PolygonPoint<2>&here = points[i], &next = points[i + 1 == count ? 0 : i + 1];
    const double x = here[0] - points[0][0], y = here[1] - points[0][1];
    sum += x * (next[1] - points[0][1]) - (next[0] - points[0][0]) * y;
  }
  return std::abs(sum) / 2.0;
}

Polygons<2> clip_polygons(Polygons<2> rest, const std::array<double, 4>& window) {
  for (const size_t side : {0, 2, 1, 3}) {
    const size_t axis = side % 2;
    const double edge = window[side], sign = side < 2 ? 1.0 : -1.0;
    const auto distance = [=](const PolygonPoint<2>& p) { return sign * (p[axis] - edge); };
    const auto is_inside = [&](const PolygonPoint<2>& p) { return distance(p) >= 0.0; };
    if (std::all_of(rest.points.begin(), rest.points.end(), is_inside)) continue;
    rest = cut(rest, distance, [=](PolygonPoint<2> p) {
      p[axis] = edge;
      return p;
    });
    empty_where(rest, [](const PolygonPoint<2>*, int64_t count) { return count < 3; });
  }
  empty_where(rest, [](const PolygonPoint<2>* p, int64_t count) {
    return !(polygon_area(p, count) > 0.0);
  });
  return rest;
}

Polygons<2> move_polygons(Polygons<2> own, const double* m, double least) {
  const auto row = [m](int k, const PolygonPoint<2>& p) {
    return m[3 * k] * p[0] + m[3 * k + 1] * p[1] + m[3 * k + 2];
  };
  if (m[6] == 0.0 && m[7] == 0.0 && m[8] == 1.0) {
    for (PolygonPoint<2>& p : own.points) p = {row(0, p), row(1, p)};
    return own;
  }
  Polygons<3> lifted;
  lifted.counts = own.counts;
  for (const PolygonPoint<2>& p : own.points)
    lifted.points.push_back({row(0, p), row(1, p), row(2, p)});
  const auto distance = [least](const PolygonPoint<3>& p) { return p[2] - least; };
  const Polygons<3> rest = cut(lifted, distance, [](const PolygonPoint<3>& p) { return p; });
  own = {{}, rest.counts};
  for (const PolygonPoint<3>& p : rest.points) own.points.push_back({p[0] / p[2], p[1] / p[2]});
  return own;
}

}  // namespace visops
