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
struct BilinearSample {
  int32_t y, x;
  Acc fy, fx;
  int32_t taps;  // 0: the sample does not count
};

// The place (x, y), where pixel centres are integers. It counts if -1 < x < width and
// -1 < y < height, which is false for NaN. Branch-free, so that loops over samples vectorise. Sides
// are at most kMostSide.
template <class Acc>
VISOPS_HOT_FN BilinearSample<Acc> bilinear_sample_at(Acc x, Acc y, int32_t height, int32_t width) {
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1);
  const Acc rows = static_cast<Acc>(height), columns = static_cast<Acc>(width);
  BilinearSample<Acc> bilinear;
  const bool counts = (x > -one) & (x < columns) & (y > -one) & (y < rows);
  const Acc safe_x = counts ? x : zero, safe_y = counts ? y : zero;
  const int32_t cut_x = static_cast<int32_t>(safe_x), cut_y = static_cast<int32_t>(safe_y);
  bilinear.x = cut_x - (static_cast<Acc>(cut_x) > safe_x ? 1 : 0);
  bilinear.y = cut_y - (static_cast<Acc>(cut_y) > safe_y ? 1 : 0);
  bilinear.fx = safe_x - static_cast<Acc>(bilinear.x);
  bilinear.fy = safe_y - static_cast<Acc>(bilinear.y);
  const int32_t left = ((bilinear.x >= 0) & (bilinear.x < width)) ? kTap00 | kTap10 : 0;
  const int32_t right = bilinear.x + 1 < width ? kTap01 | kTap11 : 0;
  const int32_t top = ((bilinear.y >= 0) & (bilinear.y < height)) ? kTap00 | kTap01 : 0;
  const int32_t bottom = bilinear.y + 1 < height ? kTap10 | kTap11 : 0;
  bilinear.taps = counts ? (left | right) & (top | bottom) : 0;
  return bilinear;
}

// The weights of the four taps of a sample that counts `scale` times; 0 for those outside.
template <class Acc>
VISOPS_HOT_FN void bilinear_weights(const BilinearSample<Acc>& bilinear, Acc scale, Acc weight[4]) {
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1);
  const Acc top = scale * (one - bilinear.fy), bottom = scale * bilinear.fy;
  const Acc left = one - bilinear.fx, right = bilinear.fx;
  weight[0] = (bilinear.taps & kTap00) != 0 ? top * left : zero;
  weight[1] = (bilinear.taps & kTap01) != 0 ? top * right : zero;
  weight[2] = (bilinear.taps & kTap10) != 0 ? bottom * left : zero;
  weight[3] = (bilinear.taps & kTap11) != 0 ? bottom * right : zero;
}

template <class Acc>
struct CoordinateGradient {
  Acc scale, x, y;
};

// The gradients of a sample's scale and place, from the sums over channels of gradient times pixel
// for each tap. Adding 0 makes negative zeros positive.
template <class Acc>
VISOPS_HOT_FN CoordinateGradient<Acc> coordinate_gradient(const BilinearSample<Acc>& bilinear,
                                                          Acc scale, const Acc lane_sum[4]) {
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1);
  const Acc s00 = lane_sum[0] + zero, s01 = lane_sum[1] + zero;
  const Acc s10 = lane_sum[2] + zero, s11 = lane_sum[3] + zero;
  const Acc left = one - bilinear.fx, above = one - bilinear.fy;
  const Acc top = left * s00 + bilinear.fx * s01, bottom = left * s10 + bilinear.fx * s11;
  const Acc across = above * (s01 - s00) + bilinear.fy * (s11 - s10);
  // A sample that does not count has four sums of 0, but its scale may be infinite.
  if (bilinear.taps == 0) return {zero, zero, zero};
  return {above * top + bilinear.fy * bottom, scale * across, scale * (bottom - top)};
}

}  // namespace visops
