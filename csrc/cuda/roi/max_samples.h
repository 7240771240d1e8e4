// The samples that maxima took: NOTE [ RoIAlign maxima ] in core/roi/pool.h.
#pragma once

#include "core/roi/pool.h"
#include "cuda/roi/map_layout.h"

namespace visops {
namespace {

// The four pixels of sample_value().
template <class Acc>
struct SamplePixels {
  Acc a, b, c, d;
};

template <class T, class Acc>
__device__ SamplePixels<Acc> load_sample(const RoiMap& map, int64_t image, int64_t channel,
                                         const TakenSample<Acc>& s) {
  const T* low = map_pixel<const T>(map, image, channel, s.y.low, 0);
  const T* high = map_pixel<const T>(map, image, channel, s.y.high, 0);
  const int64_t left = s.x.low * map.column_stride, right = s.x.high * map.column_stride;
  return {load_element(low + left), load_element(low + right), load_element(high + left),
          load_element(high + right)};
}

}  // namespace
}  // namespace visops
