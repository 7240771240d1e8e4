#include "core/convolution/convolve2d.h"

#include <algorithm>

#include "core/check.h"
#include "core/convolution/convolve2d_plan.h"

namespace visops {

KernelStub<ConvolveParams> convolve2d_stub{"convolve2d"};

Padding parse_boundary(const char* op, const std::string& name) {
  if (name == "fill") return Padding::kConstant;
  if (name == "wrap") return Padding::kCircular;
  if (name == "symm") return Padding::kSymmetric;
  fail(op, "boundary is '", name, "', must be 'fill', 'wrap' or 'symm'");
}

void check_extent(const char* op, const int64_t (&start)[2], const char* size_name,
                  const int64_t (&size)[2]) {
  // The sum of a few of these fits into 64 bits.
  constexpr int64_t kFarthest = int64_t{1} << 60;
  for (const int64_t s : start) {
    require(s >= -kFarthest && s <= kFarthest, op, "start is ", shape_text(start),
            ", must be between -2^60 and 2^60");
  }
  for (const int64_t s : size) {
    require(s >= 0 && s <= kFarthest, op, size_name, " is ", shape_text(size),
            ", must be between 0 and 2^60");
  }
}

void check_planes(const char* op, const std::string& input_shape, const ConvolvePlane& input,
                  const std::string& kernel_shape, const ConvolvePlane& kernel, Padding boundary) {
  require(kernel.height > 0 && kernel.width > 0, op, "kernel has shape ", kernel_shape,
          ", must have at least one row and one column");
  require(boundary == Padding::kConstant || (input.height > 0 && input.width > 0), op,
          "input has shape ", input_shape,
          ", must have at least one row and one column to be repeated");
}

void check_kernel_size(const char* op, const ConvolveParams& p) {
  const ConvolvePlane& k = p.kernel_plane;
  constexpr int64_t kMost = int64_t{1} << 56;
  const int64_t columns = std::min(p.output_width, kConvolveColumns);
  require(saturating_product(k.height, k.width) < kMost &&
              saturating_product(k.height, k.width + columns) < kMost,
          op, "kernel has ", k.height, " x ", k.width, " elements, which is too many");
}

}  // namespace visops
