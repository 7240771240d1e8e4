#include "core/warp/affine.h"

#include <algorithm>
#include <string>

#include "core/check.h"

namespace visops {

KernelStub<AffineParams> affine_stub{"affine"};
KernelStub<AffineBackwardImageParams> affine_image_gradient_stub{"affine_backward_image"};
KernelStub<AffineBackwardMatrixParams> affine_backward_matrix_stub{"affine_backward_matrix"};

void check_side(const char* op, const char* what, int64_t value) {
  require(value >= 0, op, what, " is ", value, ", must not be negative");
  require(value <= 2147483647, op, what, " is ", value, ", at most 2147483647 is supported");
}

namespace {

void check_bytes(const char* op, const char* what, const AffineParams& p, int64_t height,
                 int64_t width) {
  int64_t bytes = saturating_product(p.batch, p.channels);
  bytes = saturating_product(saturating_product(bytes, height), width);
  bytes = saturating_product(bytes, element_size(p.dtype));
  require(bytes < std::numeric_limits<int64_t>::max(), op, what, " of ", p.batch, " x ", p.channels,
          " x ", height, " x ", width, " ", dtype_name(p.dtype), " elements passes 2^63 bytes");
}

}  // namespace

void check_affine(const char* op, const AffineParams& p) {
  check_side(op, "size[0] (height)", p.output_height);
  check_side(op, "size[1] (width)", p.output_width);
  check_side(op, "image height", p.height);
  check_side(op, "image width", p.width);
  check_bytes(op, "image", p, p.height, p.width);
  check_bytes(op, "output", p, p.output_height, p.output_width);

  const bool copies_only = p.dtype == DType::kBool || p.dtype == DType::kInt8 ||
                           p.dtype == DType::kInt32 || p.dtype == DType::kInt64;
  require(!copies_only || p.mode == Interpolation::kNearest, op, "mode of an image of ",
          dtype_name(p.dtype),
          " must be 'nearest'; convert the image to a floating type to interpolate it");

  const bool empty_image = p.height == 0 || p.width == 0;
  const bool empty_output = p.output_height == 0 || p.output_width == 0 || p.batch == 0;
  require(!empty_image || empty_output || p.padding == Padding::kConstant, op, "image of ",
          p.height, " x ", p.width,
          " pixels has nothing to pad with; only padding_mode 'constant' is possible");

  require(p.fill_count == 1 || p.fill_count == p.channels, op, "fill has ", p.fill_count,
          " values, image has ", p.channels, " channels (1 value, or 1 per channel)");
}

void check_matrices(const char* op, const AffineParams& p) {
  const bool one = p.matrix.shared || p.matrix.batch_stride == 0;
  const int64_t count = one ? std::min<int64_t>(p.batch, 1) : p.batch;
  for (int64_t sample = 0; sample < count; ++sample) {
    double m[6];
    for (int i = 0; i < 6; ++i) m[i] = load_matrix_element(p.matrix, sample, i / 3, i % 3);
    if (all_finite(m) && (p.inverse_map || !is_singular(m))) continue;
    const std::string name = p.matrix.shared ? "matrix" : "matrix[" + std::to_string(sample) + "]";
    require(all_finite(m), op, name, " is not finite: [[", m[0], ", ", m[1], ", ", m[2], "], [",
            m[3], ", ", m[4], ", ", m[5], "]]");
    fail(op, name, " is singular: [[", m[0], ", ", m[1], ", ", m[2], "], [", m[3], ", ", m[4], ", ",
         m[5], "]] maps the image onto a line and can't be inverted");
  }
}

}  // namespace visops
