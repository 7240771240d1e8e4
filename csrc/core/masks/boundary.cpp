#include "core/masks/boundary.h"

#include <cmath>

#include "core/check.h"

namespace visops {

KernelStub<BoundaryParams> boundary_stub{"mask_boundaries"};

int64_t boundary_distance(const char* op, int64_t height, int64_t width, double dilation_ratio) {
  require(dilation_ratio >= 0.0 && is_finite(dilation_ratio), op, "dilation_ratio is ",
          dilation_ratio, ", must be finite and >= 0");
  const double h = static_cast<double>(height), w = static_cast<double>(width);
  const double distance = std::nearbyint(dilation_ratio * std::sqrt(h * h + w * w));
  const double most = h > w ? h : w;
  return static_cast<int64_t>(distance > 1.0 ? (distance < most ? distance : most) : 1.0);
}

}  // namespace visops
