// What a point reads, on CUDA: NOTE [ Point samples ] (core/deformable/points.h).
#pragma once

#include "core/deformable/points.h"
#include "core/numbers/element.h"
#include "cuda/deformable/elements.h"
#include "cuda/launch.h"

namespace visops {
namespace {

template <class Acc>
struct LocatedPoint {
  PointOnAxis<Acc> y, x;
  int32_t taps;
};

template <PointMode mode, class Acc>
__device__ LocatedPoint<Acc> locate_point(const PointsParams& p, Acc u, Acc v) {
  const PointAxis<Acc> rows = point_axis<Acc>(p.height, p.align_corners);
  const PointAxis<Acc> columns = point_axis<Acc>(p.width, p.align_corners);
  LocatedPoint<Acc> point;
  if (p.padding == PointPadding::kZeros) {
    point.x = point_on_axis<mode, PointPadding::kZeros>(u, columns);
    point.y = point_on_axis<mode, PointPadding::kZeros>(v, rows);
  } else if (p.padding == PointPadding::kBorder) {
    point.x = point_on_axis<mode, PointPadding::kBorder>(u, columns);
    point.y = point_on_axis<mode, PointPadding::kBorder>(v, rows);
  } else {
    point.x = point_on_axis<mode, PointPadding::kReflection>(u, columns);
    point.y = point_on_axis<mode, PointPadding::kReflection>(v, rows);
  }
  point.taps = point_taps(point.y.taps, point.x.taps);
  return point;
}

// Point i of all images.
template <PointMode mode, class Acc>
__device__ LocatedPoint<Acc> located_point(const PointsParams& p, int64_t i) {
  return locate_point<mode>(p, number_at<Acc>(p.coordinates, p.coordinates_dtype, 2 * i),
                            number_at<Acc>(p.coordinates, p.coordinates_dtype, 2 * i + 1));
}

template <class Acc>
__device__ void weights_of(const LocatedPoint<Acc>& point, Acc weight[4]) {
  const Acc above = weight_before(point.y), below = weight_after(point.y);
  const Acc left = weight_before(point.x), right = weight_after(point.x);
  weight[0] = above * left;
  weight[1] = above * right;
  weight[2] = below * left;
  weight[3] = below * right;
}

// The element of a plane at the tap 00.
template <class Acc>
__device__ int64_t first_tap(const PointsParams& p, const LocatedPoint<Acc>& point) {
  return point.y.first * p.row_stride + point.x.first * p.column_stride;
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
