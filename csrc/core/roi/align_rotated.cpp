#include "core/roi/align_rotated.h"

#include <cmath>

#include "core/check.h"

namespace visops {

KernelStub<RoiAlignRotatedParams> roi_align_rotated_stub{"roi_align_rotated"};
KernelStub<RoiAlignRotatedParams> roi_align_rotated_backward_stub{"roi_align_rotated_backward"};

void check_rotated_rois(const char* op, const char* name, const RoiAlignRotatedParams& rotated) {
  const RoiAlignParams& p = rotated.align;
  for (int64_t k = 0; k < p.boxes.count; ++k) {
    const bool valid = p.dtype == DType::kFloat64 ? load_rotated_roi<double>(rotated, k).valid
                                                  : load_rotated_roi<float>(rotated, k).valid;
    if (valid) continue;
    check_roi_image(op, name, p.boxes, k, p.images);
    double number[5];
    bool is_finite = true;
    for (int i = 0; i < 5; ++i) {
      const int64_t at = k * p.boxes.box_stride + (i + 1) * p.boxes.coordinate_stride;
      number[i] = load_coordinate<double>(p.boxes.data, p.boxes.dtype, at);
      is_finite = is_finite && std::isfinite(number[i]);
    }
    require(is_finite, op, roi_text(p.boxes, k, 6), ", must be finite");
    require(!p.aligned || (number[2] >= 0.0 && number[3] >= 0.0), op, roi_text(p.boxes, k, 6),
            ", must have width >= 0 and height >= 0 where aligned is True");
    fail(op, roi_text(p.boxes, k, 6), ", its numbers times spatial_scale must be at most ",
         static_cast<int64_t>(kMostRotatedPixels));
  }
}

}  // namespace visops
