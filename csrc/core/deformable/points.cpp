#include "core/deformable/points.h"

#include "core/check.h"

namespace visops {

KernelStub<PointsParams> point_sample_stub("point_sample");
KernelStub<PointsParams> point_sample_backward_input_stub("point_sample_backward_input");
KernelStub<PointsParams> point_sample_backward_points_stub("point_sample_backward_points");

PointMode parse_point_mode(const char* op, const std::string& name) {
  if (name == "bilinear") return PointMode::kBilinear;
  if (name == "nearest") return PointMode::kNearest;
  fail(op, "mode is '", name, "', must be 'bilinear' or 'nearest'");
}

PointPadding parse_point_padding(const char* op, const std::string& name) {
  if (name == "zeros") return PointPadding::kZeros;
  if (name == "border") return PointPadding::kBorder;
  if (name == "reflection") return PointPadding::kReflection;
  fail(op, "padding_mode is '", name, "', must be 'zeros', 'border' or 'reflection'");
}

void check_points(const char* op, const PointsParams& p) {
  require(p.batch >= 0 && p.channels >= 0, op, "input has shape [", p.batch, ", ", p.channels,
          ", H, W], sizes must be >= 0");
  require(p.height >= 1 && p.width >= 1, op, "input has maps of ", p.height, " x ", p.width,
          " pixels, must have at least one");
  require(p.height <= kMostPointSide && p.width <= kMostPointSide, op, "input has maps of ",
          p.height, " x ", p.width, " pixels, sides must be at most ", kMostPointSide);
}

}  // namespace visops
