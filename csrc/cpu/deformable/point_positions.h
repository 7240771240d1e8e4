// Points of an image, placed before any channel is read: NOTE [ Point samples ]
// (core/deformable/points.h) as loops that vectorise over points.
#pragma once

#include <cstdint>

#include "core/deformable/points.h"
#include "core/dispatch/threads.h"
#include "core/numbers/element.h"
#include "cpu/deformable/taps.h"

namespace visops {
namespace {

constexpr int64_t kPointsAtOnce = 512;

// Points on one axis: point_on_axis() as arrays.
template <class Acc>
struct AxisPoints {
  int32_t first[kPointsAtOnce], taps[kPointsAtOnce];
  Acc before[kPointsAtOnce], after[kPointsAtOnce];  // weights
  Acc fraction[kPointsAtOnce], slope[kPointsAtOnce];
};

// Up to kPointsAtOnce points.
template <class Acc>
struct LocatedPoints {
  int64_t first;  // among the image's points
  int64_t count;
  AxisPoints<Acc> y, x;
  int32_t taps[kPointsAtOnce];  // 0 where a point doesn't count
};

// One axis at a time: compilers vectorise this loop, and don't that over points.
template <PointMode mode, PointPadding padding, class Acc>
void position_axis(const PointAxis<Acc>& axis, const Acc* VISOPS_RESTRICT numbers, int64_t count,
                   AxisPoints<Acc>* VISOPS_RESTRICT s) {
  for (int64_t i = 0; i < count; ++i) {
    const PointOnAxis<Acc> point = point_on_axis<mode, padding>(numbers[i], axis);
    s->first[i] = point.first;
    s->taps[i] = point.taps;
    s->before[i] = weight_before(point);
    s->after[i] = weight_after(point);
    s->fraction[i] = point.fraction;
    s->slope[i] = point.slope;
  }
}

template <PointMode mode, PointPadding padding, class Acc>
void locate_points(const PointsParams& p, const Acc* VISOPS_RESTRICT pairs,
                   LocatedPoints<Acc>* VISOPS_RESTRICT s) {
  const int64_t count = s->count;
  Acc u[kPointsAtOnce], v[kPointsAtOnce];
  for (int64_t i = 0; i < count; ++i) {
    u[i] = pairs[2 * i];
    v[i] = pairs[2 * i + 1];
  }
  position_axis<mode, padding>(point_axis<Acc>(p.width, p.align_corners), u, count, &s->x);
  position_axis<mode, padding>(point_axis<Acc>(p.height, p.align_corners), v, count, &s->y);
  for (int64_t i = 0; i < count; ++i) s->taps[i] = point_taps(s->y.taps[i], s->x.taps[i]);
}

// f(placed) for points [begin, end) of an image, some at a time.
template <class Acc, class F>
VISOPS_ALWAYS_INLINE void for_points(const PointsParams& p, int64_t image, int64_t begin,
                                     int64_t end, const F& f) {
  LocatedPoints<Acc> located;
  Acc pairs[2 * kPointsAtOnce];
  for (int64_t first = begin; first < end; first += kPointsAtOnce) {
    located.first = first;
    located.count = end - first < kPointsAtOnce ? end - first : kPointsAtOnce;
    read_numbers(p.coordinates, p.coordinates_dtype, 2 * (image * p.points + first),
                 2 * located.count, pairs);
    with_point_mode(p.mode, [&](auto mode) {
      with_point_padding(p.padding, [&](auto padding) {
        locate_points<mode.value, padding.value>(p, pairs, &located);
      });
    });
    f(located);
  }
}

// f(image, first, last): points [first, last) of an image, for points [begin, end) of all images.
template <class F>
VISOPS_ALWAYS_INLINE void for_images(const PointsParams& p, int64_t begin, int64_t end,
                                     const F& f) {
  while (begin < end) {
    const int64_t image = begin / p.points, first = begin - image * p.points;
    const int64_t left = p.points - first, count = left < end - begin ? left : end - begin;
    f(image, first, first + count);
    begin += count;
  }
}

// Points worth a task.
inline int64_t point_grain(const PointsParams& p) {
  const int64_t items = grain_of(4 * p.channels);
  return items > kPointsAtOnce ? items : kPointsAtOnce;
}

// The value of a tap, or 0 for one outside the map.
template <class T>
VISOPS_ALWAYS_INLINE typename Accumulate<T>::type tap_value(const T* at, int32_t taps,
                                                            int32_t tap) {
  using Acc = typename Accumulate<T>::type;
  return (taps & tap) != 0 ? static_cast<Acc>(load_element(at)) : static_cast<Acc>(0);
}

// Elements from a plane to the tap 00 of point i.
template <class Acc>
VISOPS_ALWAYS_INLINE int64_t first_tap_of(const LocatedPoints<Acc>& s, int64_t i,
                                          int64_t row_stride, int64_t column_stride) {
  return s.y.first[i] * row_stride + s.x.first[i] * column_stride;
}

// The weights of point i's taps.
template <class Acc>
struct TapWeights {
  Acc w00, w01, w10, w11;
};
template <class Acc>
VISOPS_ALWAYS_INLINE TapWeights<Acc> tap_weights(const LocatedPoints<Acc>& s, int64_t i) {
  return {s.y.before[i] * s.x.before[i], s.y.before[i] * s.x.after[i], s.y.after[i] * s.x.before[i],
          s.y.after[i] * s.x.after[i]};
}

}  // namespace
}  // namespace visops
