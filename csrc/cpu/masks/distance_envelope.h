// The least squared distance along a line whose pixels are far from all sites.
#pragma once

#include <cstdint>

#include "core/masks/distance.h"

namespace visops {
namespace {

// NOTE [ Lower envelope ]
// Felzenszwalb and Huttenlocher, "Distance Transforms of Sampled Functions" (Theory of Computing
// 2012); Meijster, Roerdink and Hesselink, "A General Algorithm for Computing Distance Transforms
// in Linear Time" (2000). Each pixel j of a line is the parabola near[j] + (x - j)^2. From left to
// right, a stack keeps those that are lowest somewhere, and where each begins to be. All numbers
// are integers, and ties go to the earlier site, so the result is that of trying every candidate.
template <bool kSites>
class Envelope {
 public:
  // `stack` has room for 2 * width numbers.
  Envelope(const int32_t* near, const int32_t* sites, int64_t width, int32_t* stack)
      : near_(near), sites_(sites), width_(width), pixels_(stack), begins_(stack + width) {
    for (int32_t x = 0; x < width; ++x) {
      if (near[x] < kFar) push(x);
    }
  }

  // store(x, squared distance, site) for every pixel; only if any is nearer than kFar.
  template <class Store>
  void walk(const Store& store) const {
    int32_t top = size_ - 1;
    for (auto x = static_cast<int32_t>(width_) - 1; x >= 0; --x) {
      while (begins_[top] > x) --top;
      const int32_t pixel = pixels_[top];
      store(x, height(pixel, x), kSites ? sites_[pixel] : 0);
    }
  }

  bool is_empty() const { return size_ == 0; }

 private:
  int32_t height(int32_t pixel, int32_t x) const {
    return near_[pixel] + (x - pixel) * (x - pixel);
  }

  // Whether the left of two parabolas is the lower one at x.
  bool left_wins(int32_t left, int32_t right, int32_t x) const {
    const int32_t a = height(left, x), b = height(right, x);
    if (!kSites) return a <= b;
    return a < b || (a == b && sites_[left] < sites_[right]);
  }

  // The last pixel where the left one is lower; -1 or less if it is nowhere.
  int64_t last_of_left(int32_t left, int32_t right) const {
    const int64_t a = left, b = right;
    const int64_t rise = b * b + near_[right] - a * a - near_[left], twice = 2 * (b - a);
    // Both are below 2^53: the quotient rounds to a whole number only if it is one.
    const double quotient = static_cast<double>(rise) / static_cast<double>(twice);
    auto last = static_cast<int64_t>(quotient);
    if (static_cast<double>(last) > quotient) --last;
    const bool is_tie = last * twice == rise;
    return kSites && is_tie && sites_[right] < sites_[left] ? last - 1 : last;
  }

  void push(int32_t pixel) {
    while (size_ > 0 && !left_wins(pixels_[size_ - 1], pixel, begins_[size_ - 1])) --size_;
    int64_t begin = 0;
    if (size_ > 0) begin = last_of_left(pixels_[size_ - 1], pixel) + 1;
    if (begin >= width_) return;
    pixels_[size_] = pixel;
    begins_[size_] = static_cast<int32_t>(begin);
    ++size_;
  }

  const int32_t* near_;
  const int32_t* sites_;
  int64_t width_;
  int32_t* pixels_;
  int32_t* begins_;
  int32_t size_ = 0;
};

}  // namespace
}  // namespace visops
