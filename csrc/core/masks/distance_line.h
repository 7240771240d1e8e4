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
#pragma once

#include <type_traits>

#include "core/masks/distance.h"

namespace visops {

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
