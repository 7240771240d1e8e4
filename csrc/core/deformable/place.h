// Places between pixels: which four pixels a sample reads, and with which weights.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace visops {

constexpr int64_t kMostSide = int64_t{1} << 30;

// Bits of the taps that lie in the map.
enum : int32_t { kTap00 = 1, kTap01 = 2, kTap10 = 4, kTap11 = 8, kAllTaps = 15 };

// What a sample reads: pixel (y, x) and the ones right of it and below.
template <class Acc>
struct SamplePlace {
  int32_t y, x;
  Acc fy, fx;
  int32_t taps;  // 0: the sample does not count
};

// The place (x, y), where pixel centres are integers. It counts if -1 < x < width and
// -1 < y < height, which is false for NaN. Branch-free, so that loops over samples vectorise. Sides
// are at most kMostSide.
template <class Acc>
VISOPS_HOT_FN SamplePlace<Acc> place_between_pixels(Acc x, Acc y, int32_t height, int32_t width) {
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1);
  const Acc rows = static_cast<Acc>(height), columns = static_cast<Acc>(width);
  SamplePlace<Acc> place;
  const bool counts = (x > -one) & (x < columns) & (y > -one) & (y < rows);
  const Acc safe_x = counts ? x : zero, safe_y = counts ? y : zero;
  const int32_t cut_x = static_cast<int32_t>(safe_x), cut_y = static_cast<int32_t>(safe_y);
  place.x = cut_x - (static_cast<Acc>(cut_x) > safe_x ? 1 : 0);
  place.y = cut_y - (static_cast<Acc>(cut_y) > safe_y ? 1 : 0);
  place.fx = safe_x - static_cast<Acc>(place.x);
  place.fy = safe_y - static_cast<Acc>(place.y);
  const int32_t left = (place.x >= 0) & (place.x < width) ? kTap00 | kTap10 : 0;
  const int32_t right = place.x + 1 < width ? kTap01 | kTap11 : 0;
  const int32_t top = (place.y >= 0) & (place.y < height) ? kTap00 | kTap01 : 0;
  const int32_t bottom = place.y + 1 < height ? kTap10 | kTap11 : 0;
  place.taps = counts ? (left | right) & (top | bottom) : 0;
  return place;
}

// The weights of the four taps of a sample that counts `scale` times; 0 for those outside.
template <class Acc>
VISOPS_HOT_FN void bilinear_weights(const SamplePlace<Acc>& place, Acc scale, Acc weight[4]) {
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1);
  const Acc top = scale * (one - place.fy), bottom = scale * place.fy;
  const Acc left = one - place.fx, right = place.fx;
  weight[0] = (place.taps & kTap00) != 0 ? top * left : zero;
  weight[1] = (place.taps & kTap01) != 0 ? top * right : zero;
  weight[2] = (place.taps & kTap10) != 0 ? bottom * left : zero;
  weight[3] = (place.taps & kTap11) != 0 ? bottom * right : zero;
}

template <class Acc>
struct PlaceGradient {
  Acc scale, x, y;
};

// The gradients of a sample's scale and place, from the sums over channels of gradient times pixel
// for each tap. Adding 0 makes negative zeros positive.
template <class Acc>
VISOPS_HOT_FN PlaceGradient<Acc> place_gradient(const SamplePlace<Acc>& place, Acc scale,
                                                const Acc lane_sum[4]) {
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1);
  const Acc s00 = lane_sum[0] + zero, s01 = lane_sum[1] + zero;
  const Acc s10 = lane_sum[2] + zero, s11 = lane_sum[3] + zero;
  const Acc left = one - place.fx, above = one - place.fy;
  const Acc top = left * s00 + place.fx * s01, bottom = left * s10 + place.fx * s11;
  const Acc across = above * (s01 - s00) + place.fy * (s11 - s10);
  // A sample that does not count has four sums of 0, but its scale may be infinite.
  if (place.taps == 0) return {zero, zero, zero};
  return {above * top + place.fy * bottom, scale * across, scale * (bottom - top)};
}

}  // namespace visops
