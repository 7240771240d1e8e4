// The derivatives of an augmented pixel, in plain scalar code: what all backends compute.
//
// NOTE [ Gradient of the augmentation ]
// The incoming gradient g of a pixel's channels is pulled back through NOTE [ One augmented pixel
// ], last step first, without contraction:
//
//   output   e = g scale, or 0 where a rectangle covers the pixel
//   colour   per step e_c = 0 unless 0 <= v'_c <= 1 where it was clamped (a NaN was not within),
//            then e_j = (a_0j e_0 + a_1j e_1) + ...
//   blend    d = e (1 - out): the gradient by the sample, which its taps share
//   place    gx = sum_c d dv/dx, channels in ascending order, where moving the pixel moves its
//   taps,
//            plus (sum_c e (v - fill)) (c_y dc_x/dx) where it moves the edge's cover c_x c_y
//   map      with w = m6 x + m7 y + m8 and the source at (u, v), in float64: a = gx / w, b = gy /
//   w,
//            c = -(a u + b v); sums over pixels of (a, b, c) times (x, y, 1) are the gradient of
//            the map's rows, and the chain rule leads to the matrix given
//
// Where a derivative has two values (a tent's tip and feet, clamps of coordinates, edges) the
// right-hand one is taken, that of affine's gradients. The widths of filters and edges count as
// constants. Copies (AugmentSample) are differentiated by the matrix as what they are copies for.
//
// Sums over pixels are in float64 and have one order: 64 lanes of a row add every 64th column, left
// to right, and are halved into one by a fixed tree; 64 lanes add every 64th of those row sums, and
// are halved again.
#pragma once

#include "core/warp/augment_group.h"

namespace visops {

constexpr int kMatrixSums = 6;  // of a row: a, a x, b, b x, c, c x
constexpr int kMaxMatrixElements = kMaxColorChannels * (kMaxColorChannels + 1);

// The number of elements of one colour step's matrix.
VISOPS_FN int64_t color_elements(const AugmentParams& p) { return p.channels * (p.channels + 1); }

// Where the colour gradient's sums begin in a row; those of the matrix come first.
VISOPS_FN int64_t first_color_sum(const AugmentBackwardParams& b) {
  return b.grad_matrix != nullptr ? kMatrixSums : 0;
}

// The factor for the total of a colour gradient's sum, as in color_element().
VISOPS_FN double color_sum_scale(const AugmentParams& p, int64_t element) {
  const bool first_step = element < color_elements(p);
  return first_step && element % (p.channels + 1) < p.channels ? p.input_scale : 1.0;
}

// The sample as it is differentiated.
VISOPS_FN AugmentSample slope_sample(const AugmentParams& p, const AugmentSample& s) {
  AugmentSample slope = s;
  slope.mode = p.mode;
  if (s.mode != p.mode) slope.antialias = p.antialias && p.mode == Interpolation::kBicubic;
  return slope;
}

// The coordinates [low, high) where a pixel's taps move with it.
template <class Acc>
struct MovingRange {
  Acc low, high;
};

template <class Acc>
VISOPS_FN MovingRange<Acc> moving_range(const AugmentParams& p, const AugmentSample& slope,
                                        const SegmentAxis<Acc>& axis) {
  const bool constant = p.padding == Padding::kConstant;
  if (slope.antialias && constant) {
    return {axis.low < axis.first ? axis.low : axis.first,
            axis.high > axis.last ? axis.high : axis.last};
  }
  if (!slope.antialias && slope.mode == Interpolation::kBilinear &&
      (constant || p.padding == Padding::kReplicate)) {
    return {axis.first, axis.last};
  }
  return {static_cast<Acc>(-INFINITY), static_cast<Acc>(INFINITY)};
}

// d edge_cover / d coordinate.
template <class Acc>
VISOPS_HOT_FN Acc edge_slope(const SegmentAxis<Acc>& axis, Acc at) {
  const Acc before = at - axis.low, after = axis.high - at;
  const bool rises = before < after;
  const Acc cover = (rises ? before : after) * axis.edge_scale + static_cast<Acc>(0.5);
  const Acc zero = static_cast<Acc>(0), one = static_cast<Acc>(1);
  const bool moves = cover > zero && (rises ? cover < one : cover <= one);
  return moves ? (rises ? axis.edge_scale : -axis.edge_scale) : zero;
}

// How a pixel meets the window's edge, for `slope` of slope_sample().
template <class Acc>
struct PixelEdge {
  Acc out;   // the part that is fill
  Acc x, y;  // c_y dc_x/dx and c_x dc_y/dy
};

template <class Acc>
VISOPS_HOT_FN PixelEdge<Acc> pixel_edge(const SegmentAxes<Acc>& axes, Acc x, Acc y) {
  const Acc cover_x = edge_cover(axes.x, x), cover_y = edge_cover(axes.y, y);
  PixelEdge<Acc> edge;
  edge.out = static_cast<Acc>(1) - cover_x * cover_y;
  const bool some = edge.out < static_cast<Acc>(1);
  edge.x = some ? cover_y * edge_slope(axes.x, x) : static_cast<Acc>(0);
  edge.y = some ? cover_x * edge_slope(axes.y, y) : static_cast<Acc>(0);
  return edge;
}

// d of NOTE [ Gradient of the augmentation ].
template <class Acc>
VISOPS_HOT_FN Acc backward_blend(Acc e, Acc out) {
  return out < static_cast<Acc>(1) ? e * (static_cast<Acc>(1) - out) : static_cast<Acc>(0);
}

// gx or gy: `taps` is the sum of d dv/dx, `fills` that of e (v - fill).
template <class Acc>
VISOPS_HOT_FN Acc backward_position(Acc taps, Acc fills, Acc edge, Acc out, bool moves) {
  const Acc zero = static_cast<Acc>(0);
  const Acc by_taps = moves && out < static_cast<Acc>(1) ? taps : zero;
  return edge != zero ? by_taps + fills * edge : by_taps;
}

template <class Acc>
VISOPS_HOT_FN Acc backward_clamp(Acc e, Acc unclamped) {
  const bool within = unclamped >= static_cast<Acc>(0) && unclamped <= static_cast<Acc>(1);
  return within ? e : static_cast<Acc>(0);
}

// Without colour steps: the gradient with respect to a blended value.
template <class Acc>
VISOPS_HOT_FN Acc backward_plain(Acc e, Acc value, Acc input_scale, bool clamp) {
  return (clamp ? backward_clamp(e, value * input_scale) : e) * input_scale;
}

// Turns e with respect to a step's unclamped results into e with respect to its inputs.
template <class Acc>
VISOPS_FN void backward_step(const ColorPlan<Acc>& plan, int64_t step, int channels,
                             Acc e[kPixelGroup]) {
  Acc by_input[kPixelGroup];
  for (int j = 0; j < kPixelGroup; ++j) {
    if (j >= channels) break;
    Acc sum = plan.step[step][0][j] * e[0];
    for (int c = 1; c < kPixelGroup; ++c) {
      if (c >= channels) break;
      sum = sum + plan.step[step][c][j] * e[c];
    }
    by_input[j] = sum;
  }
  for (int j = 0; j < kPixelGroup; ++j) {
    if (j >= channels) break;
    e[j] = by_input[j];
  }
}

// From e with respect to the last step's results to e with respect to the unclamped results of step
// `step`, whose inputs go to `input`. Earlier steps are recomputed from the blended values: that is
// cheaper than memory.
template <class Acc>
VISOPS_FN void backward_color_to(const AugmentParams& p, const ColorPlan<Acc>& plan, int64_t step,
                                 const Acc value[kPixelGroup], Acc e[kPixelGroup],
                                 Acc input[kPixelGroup]) {
  const int channels = static_cast<int>(p.channels);
  for (int64_t k = p.color_steps - 1;; --k) {
    for (int c = 0; c < kPixelGroup; ++c) input[c] = value[c];
    if (p.clamp || k == step) color_group(p, plan, k, channels, input);
    if (p.clamp) {
      Acc unclamped[kPixelGroup];
      color_step(plan, k, channels, input, unclamped);
      for (int c = 0; c < kPixelGroup; ++c) {
        if (c >= channels) break;
        e[c] = backward_clamp(e[c], unclamped[c]);
      }
    }
    if (k == step) return;
    backward_step(plan, k, channels, e);
  }
}

// An element of the incoming gradient.
template <class Acc>
VISOPS_FN Acc load_gradient(DType dtype, const void* gradient, int64_t index) {
  switch (dtype) {
    case DType::kFloat16: return load_element(static_cast<const Half*>(gradient) + index);
    case DType::kBFloat16: return load_element(static_cast<const BFloat16*>(gradient) + index);
    case DType::kFloat64: return static_cast<Acc>(static_cast<const double*>(gradient)[index]);
    default: return static_cast<const float*>(gradient)[index];
  }
}

// a, b and c of one pixel. c is for the matrix's third row, and 0 if there is none.
struct MapTerms {
  double a, b, c;
};

VISOPS_HOT_FN MapTerms map_terms(const AugmentMap& map, bool third_row, double x, double y,
                                 double u, double v, double gx, double gy) {
  MapTerms t = {gx, gy, 0.0};
  if (map.perspective) {
    const double w = map.m[6] * x + (map.m[7] * y + map.m[8]);
    const double inverse = w != 0.0 ? 1.0 / w : 0.0;  // no source, no gradient
    t.a = gx * inverse;
    t.b = gy * inverse;
  }
  if (third_row) t.c = -(t.a * u + t.b * v);
  return t;
}

// One lane's sum over the rows of a sample: grad_map += the sums of row y.
VISOPS_HOT_FN void add_row_sums(const double* row, double y, double grad_map[9]) {
  for (int i = 0; i < 3; ++i) {
    grad_map[3 * i] += row[2 * i + 1];
    grad_map[3 * i + 1] += row[2 * i] * y;
    grad_map[3 * i + 2] += row[2 * i];
  }
}

// Chain rule: from the gradient of the destination -> source map to that of the given matrix, with
// a third row even where it has none.
VISOPS_FN void augment_map_backward(const AugmentParams& p, int64_t sample,
                                    const double grad_map[9], double grad_matrix[9]) {
  double g[9], given[9];
  for (int i = 0; i < 9; ++i) g[i] = grad_map[i];
  load_matrix(p, sample, given);
  if (p.half_pixel) {  // the map is T(-1/2) M T(1/2)
    for (int j = 0; j < 3; ++j) g[6 + j] -= 0.5 * (g[j] + g[3 + j]);
    for (int i = 0; i < 9; i += 3) {
      g[i] += 0.5 * g[i + 2];
      g[i + 1] += 0.5 * g[i + 2];
    }
  }
  // An affine map is the matrix, or its inverse, scaled to a last element of 1.
  const bool perspective = !(given[6] == 0.0 && given[7] == 0.0);
  const double last = perspective ? 1.0 : given[8];
  if (p.inverse_map) {
    for (int i = 0; i < 9; ++i) grad_matrix[i] = g[i] / last;
  } else {
    // With M = last inverse(matrix), the gradient of the matrix is -M^T g M^T / last.
    double m[9];
    if (perspective) {
      invert_homography(given, m);
    } else {
      for (int i = 0; i < 6; ++i) given[i] /= last;
      invert_affine(given, m);
      m[6] = m[7] = 0.0;
      m[8] = 1.0;
    }
    double h[9];  // M^T g
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) {
        h[3 * i + j] = m[i] * g[j] + (m[3 + i] * g[3 + j] + m[6 + i] * g[6 + j]);
      }
    }
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) {
        const double sum =
            h[3 * i] * m[3 * j] + (h[3 * i + 1] * m[3 * j + 1] + h[3 * i + 2] * m[3 * j + 2]);
        grad_matrix[3 * i + j] = -sum / last;
      }
    }
  }
}

}  // namespace visops
