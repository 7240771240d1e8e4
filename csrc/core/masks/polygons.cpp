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
#include <cstring>
#include <memory>
#include <new>
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

namespace {

// Neighbours of a pixel, counter-clockwise as one looks at it, from the right one.
constexpr int kAround = 8;
constexpr int kRight = 0, kLeft = 4;
constexpr int kX[kAround] = {1, 1, 0, -1, -1, -1, 0, 1};
constexpr int kY[kAround] = {0, -1, -1, -1, 0, 1, 1, 1};

int turned(int direction, int by) { return (direction + by) & (kAround - 1); }

// The first byte that is not 0.
const uint8_t* first_inside(const uint8_t* begin, const uint8_t* end) {
  uint64_t word = 0;
  while (end - begin >= 8) {
    std::memcpy(&word, begin, 8);
    if (word != 0) break;
    begin += 8;
  }
  return std::find_if(begin, end, [](uint8_t v) { return v != 0; });
}

// The last byte that is not 0; the first one, if all are.
const uint8_t* last_inside(const uint8_t* begin, const uint8_t* end) {
  uint64_t word = 0;
  while (end - begin >= 8) {
    std::memcpy(&word, end - 8, 8);
    if (word != 0) break;
    end -= 8;
  }
  while (end - begin > 1 && end[-1] == 0) --end;
  return end - 1;
}

// Part of a mask, with a rim of zeros, and what borders have passed.
class Tracer {
 public:
  Tracer(const uint8_t* mask, int64_t width, int64_t left, int64_t top, int64_t columns,
         int64_t rows, bool keeps_all, Contours* contours)
      : left_(left),
        top_(top),
        columns_(columns),
        rows_(rows),
        stride_(columns + 2),
        keeps_all_(keeps_all),
        inside_(static_cast<size_t>((rows + 2) * stride_), 0),
        labels_(static_cast<int32_t*>(std::calloc(inside_.size(), sizeof(int32_t)))),
        contours_(contours),
        first_(static_cast<int64_t>(contours->lengths.size())) {
    if (labels_ == nullptr) throw std::bad_alloc();
    for (int k = 0; k < kAround; ++k) step_[k] = kY[k] * stride_ + kX[k];
    for (int64_t y = 0; y < rows; ++y) {
      std::memcpy(&inside_[(y + 1) * stride_ + 1], mask + (top + y) * width + left, columns);
    }
  }

  // Looks at the ends of each row's runs. All borders that a run meets are of one region.
  void trace_all() {
    for (int64_t y = 1; y <= rows_; ++y) {
      const uint8_t* const row = &inside_[y * stride_];
      const uint8_t* const end = row + columns_ + 1;
      const uint8_t* begin = first_inside(row + 1, end);
      while (begin != end) {
        const auto* const after = static_cast<const uint8_t*>(
            std::memchr(begin, 0, static_cast<size_t>(end - begin) + 1));
        const int64_t x = begin - row, last = after - row - 1;
        const int64_t from = y * stride_ + x, to = y * stride_ + last;
        const bool is_new = labels_[from] == 0;
        if (is_new) {
          begin_border(-1);
          follow(x, y, kLeft);
        }
        if (labels_[to] >= 0 && !(is_new && from == to)) {
          const int32_t beside = labels_[to] > 0 ? labels_[to] : std::abs(labels_[from]);
          begin_border(contours_->regions[first_ + beside - 1]);
          follow(last, y, kRight);
        }
        begin = first_inside(after, end);
      }
    }
  }

 private:
  // Begins an outer border, if `region` is -1, or that of a hole in a region.
  void begin_border(int64_t region) {
    const auto number = static_cast<int64_t>(contours_->lengths.size());
    contours_->lengths.push_back(0);
    contours_->regions.push_back(region < 0 ? number : region);
  }

  void add(int64_t x, int64_t y) {
    contours_->points.push_back(static_cast<int32_t>(left_ + x - 1));
    contours_->points.push_back(static_cast<int32_t>(top_ + y - 1));
    ++contours_->lengths.back();
  }

  // Follows the border that has begun through a pixel whose neighbour in a direction is outside.
  void follow(int64_t x, int64_t y, int outside) {
    const auto label =
        static_cast<int32_t>(static_cast<int64_t>(contours_->lengths.size()) - first_);
    const int64_t start = y * stride_ + x;
    int back = outside;  // clockwise, the first neighbour that is inside
    do {
      back = turned(back, -1);
    } while (inside_[start + step_[back]] == 0 && back != outside);
    if (back == outside) {  // a lone pixel
      labels_[start] = -label;
      add(x, y);
      return;
    }
    const int64_t before_start = start + step_[back];
    int64_t pixel = start;
    int came = turned(back, kLeft);  // the direction of the last step
    while (true) {
      bool right_is_outside = false;
      int next = turned(back, 1);
      while (inside_[pixel + step_[next]] == 0) {
        right_is_outside = right_is_outside || next == kRight;
        next = turned(next, 1);
      }
      if (right_is_outside) {
        labels_[pixel] = -label;
      } else if (labels_[pixel] == 0) {
        labels_[pixel] = label;
      }
      if (keeps_all_ || next != came) add(x, y);
      came = next;
      const int64_t after = pixel + step_[next];
      x += kX[next];
      y += kY[next];
      if (after == start && pixel == before_start) return;
      pixel = after;
      back = turned(next, kLeft);
    }
  }

  struct Free {
    void operator()(int32_t* labels) const { std::free(labels); }
  };

  int64_t left_, top_, columns_, rows_, stride_;
  bool keeps_all_;
  std::vector<uint8_t> inside_;
  // 0, or the number of a border that has passed, from 1 on; negated, if the pixel to the right,
  // which is outside, was looked at. Zeroed pages that no border touches cost nothing.
  std::unique_ptr<int32_t[], Free> labels_;
  Contours* contours_;
  int64_t first_;  // borders of masks before
  int64_t step_[kAround];
};

}  // namespace

void find_contours(const uint8_t* mask, int64_t height, int64_t width, bool keeps_all,
                   Contours* contours) {
  // Only the box around what is inside is looked at twice.
  int64_t top = height, bottom = -1, left = width, right = -1;
  for (int64_t y = 0; y < height; ++y) {
    const uint8_t* const row = mask + y * width;
    const uint8_t* const end = row + width;
    const uint8_t* const first = first_inside(row, end);
    if (first == end) continue;
    const uint8_t* const last = last_inside(row + std::max<int64_t>(right, 0), end);
    top = std::min(top, y);
    bottom = y;
    left = std::min<int64_t>(left, first - row);
    right = std::max<int64_t>(right, last - row);
  }
  if (bottom < 0) return;
  Tracer(mask, width, left, top, right - left + 1, bottom - top + 1, keeps_all, contours)
      .trace_all();
}

}  // namespace visops
