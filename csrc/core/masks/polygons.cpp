// NOTE [ COCO's polygons ]
// What a polygon covers is defined by cocodataset/cocoapi, common/maskApi.c, rleFrPoly. Corners are
// rounded to fifths of a pixel. Sides are lines of points on that grid, one for each step along
// their longer direction. Where a line steps over the middle of a column, from 5 c + 2 to 5 c + 3,
// the mask changes in column c, from the first pixel whose middle is at or below the upper of the
// two points. Changes at one place cancel in pairs.
//
// Only those steps are computed here, in the arithmetic that defines them: along a side that is
// wider than high each is known, and along others it is searched for from where it must nearly be.
#include "core/masks/polygons.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace visops {
namespace {

constexpr int64_t kFifths = 5;

struct Point {
  int64_t x, y;  // in fifths
};

// Fractions are cut off, also of negative numbers.
int64_t to_fifths(double coordinate) {
  return static_cast<int64_t>(static_cast<double>(kFifths) * coordinate + 0.5);
}

struct Side {
  Point from, to;  // with the longer direction rising
  bool is_wide;
  double slope;

  Side(Point a, Point b) : from(a), to(b) {
    const int64_t dx = std::abs(a.x - b.x), dy = std::abs(a.y - b.y);
    is_wide = dx >= dy;
    if (is_wide ? a.x > b.x : a.y > b.y) std::swap(from, to);
    slope = is_wide ? static_cast<double>(to.y - from.y) / static_cast<double>(dx)
                    : static_cast<double>(to.x - from.x) / static_cast<double>(dy);
  }

  // The other coordinate of the point after so many steps.
  int64_t across(int64_t steps) const {
    const int64_t start = is_wide ? from.y : from.x;
    return static_cast<int64_t>(static_cast<double>(start) + slope * static_cast<double>(steps) +
                                0.5);
  }

  // The y of the upper of the two points left and right of x - 1/2.
  int64_t crossing(int64_t x) const {
    if (is_wide) return std::min(across(x - 1 - from.x), across(x - from.x));
    const bool rises = to.x > from.x;
    const auto is_past = [&](int64_t step) { return rises ? across(step) >= x : across(step) < x; };
    const int64_t steps = to.y - from.y;
    const double guess = (static_cast<double>(x - from.x) - 0.5) / slope;
    int64_t step = std::min(std::max(static_cast<int64_t>(guess), int64_t{1}), steps);
    while (step > 1 && is_past(step - 1)) --step;
    while (step < steps && !is_past(step)) ++step;
    return from.y + step - 1;
  }
};

// Columns [begin, end) whose middles a side steps over.
struct Columns {
  int64_t begin, end;
};

Columns columns_of(const Point& a, const Point& b, int64_t width) {
  const int64_t low = std::min(a.x, b.x), high = std::max(a.x, b.x);
  if (high < 3) return {0, 0};
  const int64_t begin = low <= 2 ? 0 : (low + 2) / kFifths;   // 5 c + 2 >= low
  const int64_t end = std::min((high + 2) / kFifths, width);  // 5 c + 3 <= high
  return {begin, std::max(begin, end)};
}

// The row from which on a crossing at y, in fifths, changes a column.
int64_t row_of(int64_t y, int64_t height) {
  const double row = (static_cast<double>(y) + 0.5) / static_cast<double>(kFifths) - 0.5;
  if (row < 0.0) return 0;
  if (row > static_cast<double>(height)) return height;
  return static_cast<int64_t>(std::ceil(row));
}

// f(a, b) for each side of a polygon.
template <class F>
void for_each_side(const PolygonLists& p, int64_t polygon, const F& f) {
  const int64_t begin = p.point_offsets[polygon], end = p.point_offsets[polygon + 1];
  if (begin == end) return;
  const auto corner = [&](int64_t i) {
    return Point{to_fifths(p.points[2 * i]), to_fifths(p.points[2 * i + 1])};
  };
  const Point first = corner(begin);
  Point before = first;
  for (int64_t i = begin + 1; i < end; ++i) {
    const Point here = corner(i);
    f(before, here);
    before = here;
  }
  f(before, first);
}

// Where a polygon's mask changes, in pixels from the beginning of the image, in rising order.
void changes_of(const PolygonLists& p, int64_t polygon, std::vector<int32_t>* changes) {
  changes->clear();
  for_each_side(p, polygon, [&](const Point& a, const Point& b) {
    const Columns columns = columns_of(a, b, p.width);
    if (columns.begin == columns.end) return;
    const Side side(a, b);
    for (int64_t c = columns.begin; c < columns.end; ++c) {
      const int64_t row = row_of(side.crossing(kFifths * c + 3), p.height);
      changes->push_back(static_cast<int32_t>(c * p.height + row));
    }
  });
  std::sort(changes->begin(), changes->end());
  auto to = changes->begin();
  for (auto at = changes->begin(); at != changes->end();) {
    if (at + 1 != changes->end() && at[0] == at[1]) {
      at += 2;
    } else {
      *to++ = *at++;
    }
  }
  changes->erase(to, changes->end());
  if (!changes->empty() && changes->back() == p.height * p.width) changes->pop_back();
}

// Unites masks by their changes: where the first of them begins, and where the last one ends.
class Union {
 public:
  void add(const std::vector<int32_t>& changes) {
    for (size_t i = 0; i < changes.size(); ++i) {
      events_.push_back({changes[i], i % 2 == 0 ? 1 : -1});
    }
  }

  // Writes the changes of all; returns one past the last.
  int32_t* finish(int32_t* to) {
    std::sort(events_.begin(), events_.end(),
              [](const Event& a, const Event& b) { return a.at < b.at; });
    int64_t covers = 0;
    for (size_t i = 0; i < events_.size();) {
      const int32_t at = events_[i].at;
      const bool before = covers > 0;
      for (; i < events_.size() && events_[i].at == at; ++i) covers += events_[i].step;
      if ((covers > 0) != before) *to++ = at;
    }
    events_.clear();
    return to;
  }

 private:
  struct Event {
    int32_t at, step;
  };
  std::vector<Event> events_;
};

}  // namespace

int64_t most_polygon_runs(const PolygonLists& p) {
  int64_t most = p.objects;
  for (int64_t polygon = 0; polygon < p.polygon_offsets[p.objects]; ++polygon) {
    for_each_side(p, polygon, [&](const Point& a, const Point& b) {
      const Columns columns = columns_of(a, b, p.width);
      most += columns.end - columns.begin;
    });
  }
  return most;
}

void polygon_runs(const PolygonLists& p, int32_t* ends, int64_t* offsets) {
  std::vector<int32_t> changes;
  Union all;
  int32_t* to = ends;
  offsets[0] = 0;
  for (int64_t object = 0; object < p.objects; ++object) {
    const int64_t begin = p.polygon_offsets[object], end = p.polygon_offsets[object + 1];
    if (p.height > 0) {
      for (int64_t polygon = begin; polygon < end; ++polygon) {
        changes_of(p, polygon, &changes);
        if (end - begin > 1) all.add(changes);
      }
      if (end - begin == 1) to = std::copy(changes.begin(), changes.end(), to);
      if (end - begin > 1) to = all.finish(to);
    }
    *to++ = static_cast<int32_t>(p.height * p.width);
    offsets[object + 1] = to - ends;
  }
}

}  // namespace visops
