// The affine warp: what a valid problem is, and the coordinate arithmetic that all kernels share.
//
// NOTE [ Affine coordinates ]
// An output pixel (x, y) samples the image at (m0 x + m1 y + m2, m3 x + m4 y + m5), where m maps
// destination to source and pixel centres are integers. Computed naively in float32, the
// coordinate of a pixel 2,000 columns from the origin is off by 1e-4 of a pixel, and beyond 2^24
// neighbouring pixels collapse. So an output row is cut into segments of 128 pixels, always at
// multiples of 128; the coordinate of each segment's centre is computed in float64 and split into
// an integer and a fraction, and only the offset from there is float32:
//
//     local(lane) = float(m0) * float(lane - 64) + fraction,     tap = integer + floor(local)
//
// Which pixel belongs to which segment depends on x alone, and no product is contracted with a
// sum, so every instruction set, thread count and device gets the same bits. float64 images use
// float64 for `local` too.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"
#include "core/images/image_front.h"
#include "core/images/pixel.h"
#include "core/span.h"

namespace visops {

constexpr int64_t kSegment = 128;
constexpr int64_t kTreeLeaves =
    64;  // pixels, or rows, that one tree of the matrix gradient adds up

// A [B, 2, 3] or (shared, batch stride 0) [2, 3] matrix of any floating type.
struct MatrixView {
  const void* data;
  DType dtype;
  bool shared;
  int64_t batch_stride, row_stride, column_stride;  // in elements
};

// Forward: image -> output. Backward: `output` is the incoming gradient.
struct AffineParams {
  const void* image;  // [batch, channels, height, width]
  Strides image_stride;
  void* output;  // [batch, channels, output_height, output_width]
  Strides output_stride;
  int64_t batch, channels, height, width, output_height, output_width;
  MatrixView matrix;
  DType dtype;
  Interpolation mode;
  Padding padding;
  bool inverse_map;       // the matrix maps destination to source
  bool half_pixel;        // the matrix is in coordinates where pixel (0, 0)'s centre is (0.5, 0.5)
  double fill[kMaxFill];  // per channel; fill[0] for all of them where fill_count is 1
  int64_t fill_count;
};

// d loss / d image, from `forward.output` (the incoming gradient) into `grad_image`.
// `forward.image` is not read: the warp is linear in it.
struct AffineBackwardImageParams {
  AffineParams forward;
  void* grad_image;  // [batch, channels, height, width]; float32, or float64 for float64
  Strides grad_image_stride;
};

// d loss / d matrix, from the incoming gradient and the image.
struct AffineBackwardMatrixParams {
  AffineParams forward;
  double* row_sums;     // [batch, output_height, 4] scratch of kernels: sums of gx, gx x, gy, gy x
  double* grad_matrix;  // [matrices, 2, 3]
  int64_t matrices;     // batch; or 1: a shared matrix sums the rows of all samples
};

extern KernelStub<AffineParams> affine_stub;
extern KernelStub<AffineBackwardMatrixParams> affine_backward_matrix_stub;

// Destination -> source, integer pixel centres.
struct AffineMap {
  double m[6];
  bool valid;     // finite and, if it had to be inverted, not singular
  bool integral;  // all coordinates are integers: every interpolation is a copy
};

VISOPS_FN double load_matrix_element(const MatrixView& view, int64_t sample, int row, int column) {
  const int64_t i =
      sample * view.batch_stride + row * view.row_stride + column * view.column_stride;
  switch (view.dtype) {
    case DType::kFloat64: return static_cast<const double*>(view.data)[i];
    case DType::kFloat32: return static_cast<const float*>(view.data)[i];
    case DType::kFloat16: return load_element(static_cast<const Half*>(view.data) + i);
    default: return load_element(static_cast<const BFloat16*>(view.data) + i);
  }
}

// Whether the determinant of the 2x2 part is within the rounding error of computing it.
VISOPS_FN bool is_singular(const double m[6]) {
  const double ad = m[0] * m[4], bc = m[1] * m[3];
  const double det = ad - bc;
  const double noise = 4.440892098500626e-16 * (fabs(ad) + fabs(bc));  // 2^-51
  return !(fabs(det) > noise) || !is_finite(1.0 / det);
}

VISOPS_FN bool all_finite(const double m[6]) {
  bool finite = true;
  for (int i = 0; i < 6; ++i) finite = finite && is_finite(m[i]);
  return finite;
}

VISOPS_FN void invert_affine(const double m[6], double inverse[6]) {
  const double det = m[0] * m[4] - m[1] * m[3];
  inverse[0] = m[4] / det;
  inverse[1] = -m[1] / det;
  inverse[3] = -m[3] / det;
  inverse[4] = m[0] / det;
  inverse[2] = -(inverse[0] * m[2] + inverse[1] * m[5]);
  inverse[5] = -(inverse[3] * m[2] + inverse[4] * m[5]);
}

VISOPS_FN AffineMap affine_map(const AffineParams& p, int64_t sample) {
  AffineMap map;
  double given[6];
  for (int i = 0; i < 6; ++i) given[i] = load_matrix_element(p.matrix, sample, i / 3, i % 3);
  map.valid = all_finite(given) && (p.inverse_map || !is_singular(given));
  map.integral = map.valid;
  if (!map.valid) {
    for (int i = 0; i < 6; ++i) map.m[i] = 0.0;
    return map;
  }
  if (p.inverse_map) {
    for (int i = 0; i < 6; ++i) map.m[i] = given[i];
  } else {
    invert_affine(given, map.m);
  }
  if (p.half_pixel) {
    map.m[2] += 0.5 * (map.m[0] + map.m[1]) - 0.5;
    map.m[5] += 0.5 * (map.m[3] + map.m[4]) - 0.5;
  }
  map.valid = all_finite(map.m);
  for (int i = 0; i < 6; ++i) {
    map.integral = map.integral && fabs(map.m[i]) < 1073741824.0 && map.m[i] == floor(map.m[i]);
  }
  return map;
}

// Chain rule: from the gradient of the destination -> source map to that of the given matrix.
VISOPS_FN void affine_map_backward(const AffineParams& p, int64_t sample, const double grad_map[6],
                                   double grad_matrix[6]) {
  double g[6];
  for (int i = 0; i < 6; ++i) g[i] = grad_map[i];
  if (p.half_pixel) {
    g[0] += 0.5 * g[2];
    g[1] += 0.5 * g[2];
    g[3] += 0.5 * g[5];
    g[4] += 0.5 * g[5];
  }
  if (p.inverse_map) {
    for (int i = 0; i < 6; ++i) grad_matrix[i] = g[i];
    return;
  }
  // The map is [P | -P t] with P = inverse(A). dP = -P dA P, so the gradient of A is
  // -P^T (G - g t^T) P^T, that of t is -P^T g, with G and g the gradients of P and of the offset.
  double given[6], inverse[6];
  for (int i = 0; i < 6; ++i) given[i] = load_matrix_element(p.matrix, sample, i / 3, i % 3);
  invert_affine(given, inverse);
  const double p00 = inverse[0], p01 = inverse[1], p10 = inverse[3], p11 = inverse[4];
  const double h00 = g[0] - g[2] * given[2], h01 = g[1] - g[2] * given[5];
  const double h10 = g[3] - g[5] * given[2], h11 = g[4] - g[5] * given[5];
  const double k00 = p00 * h00 + p10 * h10, k01 = p00 * h01 + p10 * h11;
  const double k10 = p01 * h00 + p11 * h10, k11 = p01 * h01 + p11 * h11;
  grad_matrix[0] = -(k00 * p00 + k01 * p01);
  grad_matrix[1] = -(k00 * p10 + k01 * p11);
  grad_matrix[3] = -(k10 * p00 + k11 * p01);
  grad_matrix[4] = -(k10 * p10 + k11 * p11);
  grad_matrix[2] = -(p00 * g[2] + p10 * g[5]);
  grad_matrix[5] = -(p01 * g[2] + p11 * g[5]);
}

// The source coordinates of a segment's centre, split into integer and fraction.
template <class Coord>
struct SegmentOrigin {
  int64_t x, y;
  Coord fx, fy;  // in [0, 1]
};

template <class Coord>
VISOPS_FN SegmentOrigin<Coord> segment_origin(const double m[6], int64_t x0, int64_t y) {
  const double dx = static_cast<double>(x0 + kSegment / 2), dy = static_cast<double>(y);
  SegmentOrigin<Coord> origin;
  split_coordinate(m[0] * dx + (m[1] * dy + m[2]), &origin.x, &origin.fx);
  split_coordinate(m[3] * dx + (m[4] * dy + m[5]), &origin.y, &origin.fy);
  return origin;
}

// A lane's distance from the centre of its segment, in columns.
template <class Coord>
VISOPS_HOT_FN Coord from_centre(int lane) {
  return static_cast<Coord>(lane - static_cast<int>(kSegment / 2));
}

template <class Coord>
VISOPS_FN AxisSample<Coord> axis_sample(int64_t origin, Coord fraction, double step, int lane,
                                        Interpolation mode) {
  const Coord local = static_cast<Coord>(step) * from_centre<Coord>(lane) + fraction;
  const Coord at = mode == Interpolation::kNearest ? local + static_cast<Coord>(0.5) : local;
  const Coord limit = static_cast<Coord>(1073741824.0);
  const Coord clamped = at > -limit ? (at < limit ? at : limit) : -limit;
  int32_t whole = static_cast<int32_t>(clamped);
  whole -= static_cast<Coord>(whole) > clamped;
  AxisSample<Coord> sample;
  sample.tap = origin + whole;
  sample.weight =
      mode == Interpolation::kNearest ? static_cast<Coord>(0) : at - static_cast<Coord>(whole);
  return sample;
}

// The mode that kernels run: where every coordinate is an integer, all modes copy, and nearest
// copies exactly, even infinities and NaN.
VISOPS_FN Interpolation effective_mode(const AffineParams& p, const AffineMap& map) {
  return map.integral ? Interpolation::kNearest : p.mode;
}

// A generous bound on the error of a coordinate of NOTE [ Affine coordinates ].
VISOPS_FN double coordinate_slack(double step) { return 1e-4 + fabs(step) * 1e-4; }

// Columns x in [0, count) where low < step x + base < high may hold; none is missed.
VISOPS_HOT_FN Span columns_maybe_within(double step, double base, double low, double high,
                                        int64_t count) {
  const double slack = coordinate_slack(step);
  low -= slack;
  high += slack;
  if (step == 0.0) {
    return make_span(0.0, base > low && base < high ? static_cast<double>(count) : -1.0, count);
  }
  const double inverse = 1.0 / step;  // the same for every row: compilers hoist it
  const double a = (low - base) * inverse, b = (high - base) * inverse;
  return make_span(floor(a < b ? a : b), ceil(a < b ? b : a), count);
}

// Columns x in [0, count) where low <= step x + base < high certainly holds.
VISOPS_HOT_FN Span columns_surely_within(double step, double base, double low, double high,
                                         int64_t count) {
  const double slack = coordinate_slack(step);
  low += slack;
  high -= slack;
  if (step == 0.0) {
    return make_span(0.0, base >= low && base < high ? static_cast<double>(count) : -1.0, count);
  }
  const double inverse = 1.0 / step;
  const double a = (low - base) * inverse, b = (high - base) * inverse;
  const double first = ceil(a < b ? a : b), last = floor(a < b ? b : a);
  if (!(low < high)) return make_span(0.0, -1.0, count);
  return make_span(first, last, count);
}

VISOPS_FN double affine_fill(const AffineParams& p, int64_t channel) {
  return p.fill[p.fill_count == 1 ? 0 : channel];
}

// What both fronts do with an AffineParams before a kernel sees it.

// A height or width, which `what` names.
void check_side(const char* op, const char* what, int64_t value);

// Sizes, dtype and mode, fill. Reads no tensor data, allocates nothing.
void check_affine(const char* op, const AffineParams& params);

// Requires every matrix to be finite and, if it is to be inverted, not singular. Reads host memory.
void check_matrices(const char* op, const AffineParams& params);

// Kernels carry at most kMaxFill fills: a wider per-channel fill runs in groups of channels.
// `output_size`: bytes of an element of the output.
template <class Params, class Body>
void for_each_fill_group(Params p, int64_t output_size, const double* fill, int64_t count,
                         const Body& body) {
  const int64_t size = element_size(p.dtype);
  const int64_t channels = p.channels;
  const int64_t group = count <= kMaxFill ? channels : kMaxFill;
  const auto* image = static_cast<const char*>(p.image);
  auto* output = static_cast<char*>(p.output);
  for (int64_t first = 0; first < channels; first += group) {
    p.channels = std::min(group, channels - first);
    p.fill_count = count == 1 ? 1 : p.channels;
    for (int64_t i = 0; i < p.fill_count; ++i) p.fill[i] = fill[count == 1 ? 0 : first + i];
    p.image = image + first * p.image_stride.channel * size;
    p.output = output + first * p.output_stride.channel * output_size;
    body(p);
  }
}

// The image gradient of the affine warp, which schedules itself.

extern KernelStub<AffineBackwardImageParams> affine_image_gradient_stub;

// The taps of a pixel of the affine warp: NOTE [ Affine coordinates ], then NOTE [ One pixel ].

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
