// What a point reads, on CUDA: NOTE [ Point samples ] (core/deformable/points.h).
#pragma once

#include "core/deformable/points.h"
#include "core/element_types.h"
#include "cuda/deformable/numbers.h"
#include "cuda/launch.h"

namespace visops {
namespace {

template <class Acc>
struct PlacedPoint {
  PointOnAxis<Acc> y, x;
  int32_t taps;
};

template <PointMode mode, class Acc>
__device__ PlacedPoint<Acc> place_point(const PointsParams& p, Acc u, Acc v) {
  const PointAxis<Acc> rows = point_axis<Acc>(p.height, p.align_corners);
  const PointAxis<Acc> columns = point_axis<Acc>(p.width, p.align_corners);
  PlacedPoint<Acc> place;
  if (p.padding == PointPadding::kZeros) {
    place.x = place_on_axis<mode, PointPadding::kZeros>(u, columns);
    place.y = place_on_axis<mode, PointPadding::kZeros>(v, rows);
  } else if (p.padding == PointPadding::kBorder) {
    place.x = place_on_axis<mode, PointPadding::kBorder>(u, columns);
    place.y = place_on_axis<mode, PointPadding::kBorder>(v, rows);
  } else {
    place.x = place_on_axis<mode, PointPadding::kReflection>(u, columns);
    place.y = place_on_axis<mode, PointPadding::kReflection>(v, rows);
  }
  place.taps = point_taps(place.y.taps, place.x.taps);
  return place;
}

// Point i of all images.
template <PointMode mode, class Acc>
__device__ PlacedPoint<Acc> placed_point(const PointsParams& p, int64_t i) {
  return place_point<mode>(p, number_at<Acc>(p.places, p.places_dtype, 2 * i),
                           number_at<Acc>(p.places, p.places_dtype, 2 * i + 1));
}

template <class Acc>
__device__ void weights_of(const PlacedPoint<Acc>& place, Acc weight[4]) {
  const Acc above = weight_before(place.y), below = weight_after(place.y);
  const Acc left = weight_before(place.x), right = weight_after(place.x);
  weight[0] = above * left;
  weight[1] = above * right;
  weight[2] = below * left;
  weight[3] = below * right;
}

// The element of a plane at the tap 00.
template <class Acc>
__device__ int64_t first_tap(const PointsParams& p, const PlacedPoint<Acc>& place) {
  return place.y.first * p.row_stride + place.x.first * p.column_stride;
}

template <class T>
__device__ typename Accumulate<T>::type load_tap(const T* plane, int64_t at, bool exists) {
  using Acc = typename Accumulate<T>::type;
  return exists ? static_cast<Acc>(load_element(plane + at)) : static_cast<Acc>(0);
}

// The values of a point's taps, 0 for those outside.
template <class T, class Acc>
__device__ void load_taps(const PointsParams& p, const T* plane, int64_t first, int32_t taps,
                          Acc value[4]) {
  value[0] = load_tap(plane, first, (taps & kTap00) != 0);
  value[1] = load_tap(plane, first + p.column_stride, (taps & kTap01) != 0);
  value[2] = load_tap(plane, first + p.row_stride, (taps & kTap10) != 0);
  value[3] = load_tap(plane, first + p.row_stride + p.column_stride, (taps & kTap11) != 0);
}

}  // namespace
}  // namespace visops
