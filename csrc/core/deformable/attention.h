// Multi-scale deformable attention: what a valid problem is, and what a sample reads.
//
// NOTE [ Samples of deformable attention ]
// A query of a head has some samples on each level, a map of height x width. A sample's location
// (u, v) is in units of the map, with (0, 0) and (1, 1) its outer corners. Method "default" reads
// at x = u width - 0.5, y = v height - 0.5, where pixel centres are integers. The sample counts if
// -1 < x < width and -1 < y < height, which is false for NaN. It is interpolated bilinearly; pixels
// outside the map are 0 and are not read. With a = attention weight, f = the fraction of x or y:
//
//     w00 = (a (1 - fy)) (1 - fx),  w01 = (a (1 - fy)) fx,  w10 = (a fy) (1 - fx),  w11 = (a fy) fx
//     sum += (w00 v00 + w01 v01) + (w10 v10 + w11 v11)        over levels, then samples
//
// and a tap outside has w = v = 0. Method "discrete" reads the pixel at floor(u width + 0.5),
// floor(v height + 0.5), clamped to the map, and adds a v; samples of non-finite locations don't
// count. Everything is computed in float32 (float64 for float64) and rounded once.
//
// NOTE [ Gradients of deformable attention ]
// value: a pixel's gradient is the sum of w g over the samples that read it, by query, then by
// sample. Weights and locations: with s = the sum over channels of g v for each of the four taps
// (NOTE [ Lane sums ], plus 0, which makes a negative zero positive; 0 for taps outside),
//
//     top = (1 - fx) s00 + fx s01,  bottom = (1 - fx) s10 + fx s11
//     d a = (1 - fy) top + fy bottom,  d v = (a (bottom - top)) height
//     d u = (a ((1 - fy) (s01 - s00) + fy (s11 - s10))) width
//
// "discrete": d a = s00 + 0, and locations have no gradient.
#pragma once

#include <string>

#include "core/deformable/pixel_lists.h"
#include "core/deformable/points.h"
#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/element.h"
#include "core/numbers/lane_sum.h"

namespace visops {

enum class AttentionMethod : int { kDefault, kDiscrete };

constexpr int64_t kMostLevels = 32;

struct AttentionLevel {
  int64_t height, width;
  int64_t start;         // its first position among value's
  int64_t points;        // samples of a query and head on this level
  int64_t first_sample;  // among those on all levels
};

struct AttentionParams {
  const void* value;  // [batch, positions, heads, channels], channels adjacent
  int64_t batch_stride, position_stride, head_stride;
  int64_t batch, positions, heads, channels, queries;
  const void* locations;  // [batch, queries, heads, samples, 2] as (u, v), contiguous
  const void* weights;    // [batch, queries, heads, samples], contiguous
  DType dtype, locations_dtype, weights_dtype;
  AttentionMethod method;
  int64_t samples, levels;
  AttentionLevel level[kMostLevels];
  // CUDA only, or null: [levels, 2] heights and widths that nobody has checked, instead of those in
  // `level`.
  const int64_t* device_shapes;
  void* output;  // [batch, queries, heads, channels], contiguous

  // Backward only.
  const void* grad;      // of the output's shape, contiguous
  void* grad_value;      // [batch, positions, heads, channels], contiguous; float32 or float64
  void* grad_locations;  // of the locations' shape and dtype
  void* grad_weights;    // of the weights' shape and dtype

  PixelLists lists;  // CUDA's value gradient only
};

// The element of value where a head of an image begins.
VISOPS_FN int64_t head_offset(const AttentionParams& p, int64_t image, int64_t head) {
  return image * p.batch_stride + head * p.head_stride;
}

// At least as many cells as CUDA counts for an image and head (NOTE [ Samples of a pixel ]),
// whatever the shapes: a level of n > 0 pixels has at most 2 n + 2, and one without pixels has one.
inline int64_t most_cells(const AttentionParams& p) { return 2 * (p.positions + p.levels); }

extern KernelStub<AttentionParams> attention_stub;
extern KernelStub<AttentionParams> attention_backward_value_stub;  // on CUDA in ListSteps
extern KernelStub<AttentionParams> attention_backward_samples_stub;

AttentionMethod parse_attention_method(const char* op, const std::string& name);
// Fills in where levels and their samples start, and checks all numbers of the problem. Heights
// and widths are not looked at if they are on the device.
void complete_attention(const char* op, AttentionParams* p);

// Branch-free, so that loops over samples vectorise. Sides are at most kMostSide.
template <bool is_discrete, class Acc>
VISOPS_HOT_FN BilinearSample<Acc> locate_sample(Acc u, Acc v, int32_t height, int32_t width) {
  const Acc zero = static_cast<Acc>(0), half = static_cast<Acc>(0.5);
  const Acc rows = static_cast<Acc>(height), columns = static_cast<Acc>(width);
  BilinearSample<Acc> bilinear;
  if constexpr (is_discrete) {
    const Acc x = u * columns + half, y = v * rows + half;
    const Acc above_x = x > zero ? x : zero, above_y = y > zero ? y : zero;
    const Acc inner_x = above_x < columns ? above_x : columns;
    const Acc inner_y = above_y < rows ? above_y : rows;
    const int32_t near_x = static_cast<int32_t>(inner_x), near_y = static_cast<int32_t>(inner_y);
    bilinear.x = near_x < width - 1 ? near_x : width - 1;
    bilinear.y = near_y < height - 1 ? near_y : height - 1;
    bilinear.fx = zero;
    bilinear.fy = zero;
    const bool counts = (u - u == zero) & (v - v == zero) & (height > 0) & (width > 0);
    bilinear.taps = counts ? kTap00 : 0;
  } else {
    bilinear = bilinear_sample_at(u * columns - half, v * rows - half, height, width);
  }
  return bilinear;
}

// The weights of the four taps: 0 for those outside, and for all but the first if `is_discrete`.
template <bool is_discrete, class Acc>
VISOPS_HOT_FN void tap_weights(const BilinearSample<Acc>& bilinear, Acc attention, Acc weight[4]) {
  if constexpr (is_discrete) {
    const Acc zero = static_cast<Acc>(0);
    weight[0] = bilinear.taps != 0 ? attention : zero;
    weight[1] = weight[2] = weight[3] = zero;
  } else {
    bilinear_weights(bilinear, attention, weight);
  }
}

template <class Acc>
struct SampleGradient {
  Acc attention, u, v;
};

// From the sums over channels of gradient times value, for each tap.
template <bool is_discrete, class Acc>
VISOPS_HOT_FN SampleGradient<Acc> sample_gradient(const BilinearSample<Acc>& bilinear,
                                                  Acc attention, int32_t height, int32_t width,
                                                  const Acc lane_sum[4]) {
  if constexpr (is_discrete) {
    const Acc zero = static_cast<Acc>(0);
    return {lane_sum[0] + zero, zero, zero};
  }
  const CoordinateGradient<Acc> gradient = coordinate_gradient(bilinear, attention, lane_sum);
  return {gradient.scale, gradient.x * static_cast<Acc>(width),
          gradient.y * static_cast<Acc>(height)};
}

}  // namespace visops
