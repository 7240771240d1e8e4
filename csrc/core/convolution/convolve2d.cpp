#include "core/convolution/convolve2d.h"

#include <algorithm>

#include "core/check.h"

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
  // Sums of a few of these fit into 64 bits.
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

ConvolveLayout convolve_layout(const char* op, const ConvolveParams& p) {
  constexpr int64_t kLine = 64, kMost = int64_t{1} << 56;
  const auto lines = [](int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; };
  const ConvolvePlane& k = p.kernel_plane;
  const bool pairs = is_complex(p.kind);
  const int64_t term = term_size(p.kind) * (pairs ? 2 : 1), weight = pairs ? kComplexWeight : term;
  const int64_t columns = std::min(p.output_width, kConvolveColumns);
  const int64_t taps = saturating_product(k.height, k.width);
  require(taps < kMost && saturating_product(k.height, k.width + columns) < kMost, op,
          "kernel has ", k.height, " x ", k.width, " elements, which is too many");
  ConvolveLayout layout = {};
  layout.slots = k.height + kConvolveRows - 1;
  // Two pieces of a row may lie in a slot: what is left and right of what needs no copy.
  const int64_t row = lines((columns + 2 * k.width) * term + 2 * kConvolveSlack);
  layout.slot_terms = row / term;
  layout.row_pointers = lines(taps * weight);
  layout.fill_row = layout.row_pointers + lines(layout.slots * static_cast<int64_t>(sizeof(void*)));
  layout.sums = layout.fill_row + row;
  layout.ring = layout.sums + kConvolveRows * row;
  layout.bytes = layout.ring + layout.slots * row;
  return layout;
}

}  // namespace visops
