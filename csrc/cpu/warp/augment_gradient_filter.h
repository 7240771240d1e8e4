// The filter of one pixel on the CPU: computes its weights once for all rows and channels, and
// takes neighbouring columns four at a time. Bit for bit filter_group()
// (core/warp/augment_group.h): each column still adds up its rows in order.
#pragma once

#include <type_traits>

#include "core/warp/augment_group.h"
#include "cpu/simd/floats.h"

namespace visops {
namespace {

constexpr int kKnownTaps = 64;  // along an axis; wider filters go through filter_group()

template <class Acc>
struct KnownTaps {
  int count;
  bool adjacent;  // on neighbouring elements
  Acc weight[kKnownTaps], slope[kKnownTaps];
  int64_t offset[kKnownTaps];  // elements
};

// False if there are more than kKnownTaps.
template <Interpolation mode, bool slopes, class Acc>
bool know_taps(const SegmentAxis<Acc>& axis, const AxisWindow& window, Padding padding, Acc at,
               int64_t stride, KnownTaps<Acc>& known) {
  const FilterTaps<Acc> taps = filter_taps<mode>(axis, padding, at);
  if (taps.count > kKnownTaps) return false;
  const Acc slope_sum = slopes ? filter_slope_sum<mode>(taps) : static_cast<Acc>(0);
  known.count = taps.count;
  for (int i = 0; i < taps.count; ++i) {
    const FilterWeight<Acc> w = filter_weight_at<mode, slopes>(taps, slope_sum, i);
    known.weight[i] = w.weight;
    known.slope[i] = w.slope;
  }
  const int64_t first = filter_index(axis, window, padding, taps.first);
  const int64_t last = filter_index(axis, window, padding, taps.first + taps.count - 1);
  known.adjacent = taps.count > 0 && last - first == taps.count - 1;
  for (int i = 0; i < taps.count; ++i) {
    const int64_t index =
        known.adjacent ? first + i : filter_index(axis, window, padding, taps.first + i);
    known.offset[i] = index * stride;
  }
  return true;
}

// Sums each column of one channel over the rows: v with the rows' weights, dv with their slopes.
template <bool slopes, class T, class Acc>
void add_rows(const T* plane, const KnownTaps<Acc>& x, const KnownTaps<Acc>& y, Acc* v, Acc* dv) {
  for (int j = 0; j < x.count; ++j) {
    Acc sum = static_cast<Acc>(0), slope = static_cast<Acc>(0);
    for (int i = 0; i < y.count; ++i) {
      const Acc e = static_cast<Acc>(load_element(plane + y.offset[i] + x.offset[j]));
      sum = sum + y.weight[i] * e;
      if constexpr (slopes) slope = slope + y.slope[i] * e;
    }
    v[j] = sum;
    dv[j] = slope;
  }
}

// The same for four or more adjacent columns of floats.
template <bool slopes>
void add_rows_of_quads(const float* plane, const KnownTaps<float>& x, const KnownTaps<float>& y,
                       float* v, float* dv) {
  for (int j = 0; j < x.count; j += Quad::kWidth) {
    // The last four end with the last column, and repeat some earlier ones.
    const int at = j + Quad::kWidth <= x.count ? j : x.count - Quad::kWidth;
    const float* column = plane + x.offset[at];
    Quad sum(0.0f), slope(0.0f);
    for (int i = 0; i < y.count; ++i) {
      const Quad e = Quad::load(column + y.offset[i]);
      sum = sum + Quad(y.weight[i]) * e;
      if constexpr (slopes) slope = slope + Quad(y.slope[i]) * e;
    }
    sum.store(v + at);
    slope.store(dv + at);
  }
}

// filter_group(); `image` is the plane of the group's first channel.
template <class T, Interpolation mode, bool slopes, class Acc>
void filter_lane(const AugmentParams& p, const AugmentSample& s, const SegmentAxes<Acc>& axes,
                 const LanePoint<Acc>& point, const T* image, int count, PixelGroup<Acc>* group) {
  const AugmentImage& of = s.image;
  KnownTaps<Acc> x, y;
  if (!know_taps<mode, slopes>(axes.x, s.x, p.padding, point.x, of.column_stride, x) ||
      !know_taps<mode, slopes>(axes.y, s.y, p.padding, point.y, of.row_stride, y)) {
    return filter_group<T, mode, slopes>(p, s, axes, point, image, count, group);
  }
  for (int c = 0; c < count; ++c) {
    const T* plane = image + c * of.channel_stride;
    Acc v[kKnownTaps], dv[kKnownTaps];
    bool done = false;
    if constexpr (std::is_same<T, float>::value) {
      if (x.adjacent && of.column_stride == 1 && x.count >= Quad::kWidth) {
        add_rows_of_quads<slopes>(plane, x, y, v, dv);
        done = true;
      }
    }
    if (!done) add_rows<slopes>(plane, x, y, v, dv);
    Acc value = static_cast<Acc>(0), dx = static_cast<Acc>(0), dy = static_cast<Acc>(0);
    for (int j = 0; j < x.count; ++j) {
      value = value + x.weight[j] * v[j];
      if constexpr (slopes) {
        dx = dx + x.slope[j] * v[j];
        dy = dy + x.weight[j] * dv[j];
      }
    }
    group->value[c] = value;
    group->dx[c] = dx;
    group->dy[c] = dy;
  }
}

}  // namespace
}  // namespace visops
