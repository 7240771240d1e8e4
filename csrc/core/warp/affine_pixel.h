// The taps of a pixel of the affine warp: NOTE [ Affine coordinates ], then NOTE [ One pixel ].
#pragma once

#include "core/warp/affine.h"

namespace visops {

// `origin` is that of the pixel's segment, `lane` its place there. An empty image has constant
// padding (check_affine), so all its pixels are outside(). With an invalid map the taps are
// meaningless, but still inside the image or -1.
template <Interpolation mode, class Acc>
VISOPS_HOT_FN PixelTaps<mode, Acc> pixel_taps(const AffineParams& p, const AffineMap& map,
                                              const SegmentOrigin<Acc>& origin, int lane) {
  PixelTaps<mode, Acc> taps;
  taps.y =
      axis_taps<mode>(axis_sample(origin.y, origin.fy, map.m[3], lane, mode), p.padding, p.height);
  taps.x =
      axis_taps<mode>(axis_sample(origin.x, origin.fx, map.m[0], lane, mode), p.padding, p.width);
  return taps;
}

}  // namespace visops
