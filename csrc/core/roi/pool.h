// roi_pool: the largest element of each bin, and which one it is. Boxes are valid as in RoIAlign
// without `aligned`.
//
// NOTE [ RoI pooling ]
// Girshick's Fast R-CNN (ICCV 2015), with torchvision's rounding: corners are rounded to the
// nearest pixel, halves away from zero, and both are inside. A bin goes from the floor of its first
// fraction of a pixel to the ceiling of its last, so bins may share pixels. Among equal elements
// the first by row, then by column, is taken; NaN is larger than everything. Each pixel of a map's
// gradient is a sum over boxes by index, and within a box over bins by index.
#pragma once

#include "core/roi/layout.h"
#include "core/roi/max.h"

namespace visops {

struct RoiPoolParams {
  RoiAlignParams align;  // of one map, of less than 2^31 pixels; strides of `index` too
  // [count, channels, bins_y, bins_x] the pixel of each element, row * width + column; -1 for a bin
  // without pixels.
  int32_t* index;
};

// A region along one axis, in whole pixels of the map.
template <class Acc>
struct PoolAxis {
  int64_t start, extent;
  Acc bin;
};

struct PixelRange {
  int64_t first, last;  // first <= pixel < last
};

template <class Acc>
struct PoolRegion {
  bool valid;
  int64_t image;
  PoolAxis<Acc> y, x;
};

template <class Acc>
VISOPS_FN int64_t nearest_pixel(Acc at) {
  const Acc most = static_cast<Acc>(int64_t{1} << 40);  // beyond any map
  const Acc pixel = static_cast<Acc>(round(at));
  return static_cast<int64_t>(pixel < -most ? -most : (pixel > most ? most : pixel));
}

template <class Acc>
VISOPS_FN PoolAxis<Acc> pool_axis(Acc begin, Acc end, int64_t bins, int64_t extent) {
  PoolAxis<Acc> axis;
  axis.start = nearest_pixel(begin);
  axis.extent = extent;
  const int64_t size = nearest_pixel(end) - axis.start + 1;
  axis.bin = static_cast<Acc>(size < 1 ? 1 : size) / static_cast<Acc>(bins);
  return axis;
}

template <class Acc>
VISOPS_FN PixelRange pixels_of(const PoolAxis<Acc>& axis, int64_t bin) {
  const auto clamped = [&axis](int64_t pixel) {
    return pixel < 0 ? 0 : (pixel > axis.extent ? axis.extent : pixel);
  };
  const Acc first = static_cast<Acc>(bin) * axis.bin, last = static_cast<Acc>(bin + 1) * axis.bin;
  return {clamped(axis.start + static_cast<int64_t>(floor(first))),
          clamped(axis.start + static_cast<int64_t>(ceil(last)))};
}

// Box k on the map; its numbers are meaningless unless it is valid.
template <class Acc>
VISOPS_FN PoolRegion<Acc> load_pool_region(const RoiAlignParams& p, int64_t k) {
  PoolRegion<Acc> region = {};
  const Roi<Acc> roi = load_roi<Acc>(p, k);
  if (!roi.valid) return region;
  region.valid = true;
  region.image = roi.image;
  const RoiMap& map = p.maps[0];
  const int64_t corners = k * p.boxes.box_stride + p.boxes.coordinate_stride;
  const Acc scale = static_cast<Acc>(map.scale);
  Acc corner[4];
  load_coordinates<4>(p.boxes.data, p.boxes.dtype, corners, p.boxes.coordinate_stride, corner);
  region.x = pool_axis(corner[0] * scale, corner[2] * scale, p.bins_x, map.width);
  region.y = pool_axis(corner[1] * scale, corner[3] * scale, p.bins_y, map.height);
  return region;
}

// Whether an index, which callers may have made up, is a pixel of the map.
VISOPS_FN bool is_pixel(const RoiMap& map, int32_t index) {
  return static_cast<uint32_t>(index) < static_cast<uint32_t>(map.height * map.width);
}

// On the CPU, over boxes.
inline KernelStub<RoiPoolParams> roi_pool_stub{"roi_pool"};
inline KernelStub<RoiPoolParams> roi_pool_at_stub{"roi_pool_at"};
inline KernelStub<RoiPoolParams> roi_pool_backward_stub{"roi_pool_backward"};

}  // namespace visops
