// Hands the gradient of a segment's samples to the taps that they came from.
//
// Pixels go in raster order and a pixel's taps row by row, so every element of the image gradient
// receives its terms in one order, whichever rows a task owns.
#pragma once

#include <type_traits>

#include "core/warp/augment_group.h"
#include "cpu/simd/floats.h"
#include "cpu/warp/augment_gradient_lanes.h"

namespace visops {
namespace {

// The filter of one pixel on the CPU: computes its weights once for all rows and channels, and
// takes neighbouring columns four at a time. Bit for bit filter_group()
// (core/warp/augment_group.h): each column still adds up its rows in order.

constexpr int kKnownTaps = 64;  // along an axis; wider filters go through filter_group()

template <class Acc>
struct KnownTaps {
  int count;
  bool adjacent;  // on neighbouring elements
  Acc weight[kKnownTaps], slope[kKnownTaps];
  int64_t offset[kKnownTaps];  // elements
};

// False if there are more than kKnownTaps.
template <Interpolation mode, bool slopes, class Acc>
bool know_taps(const SegmentAxis<Acc>& axis, const AxisWindow& window, Padding padding, Acc at,
               int64_t stride, KnownTaps<Acc>& known) {
  const FilterTaps<Acc> taps = filter_taps<mode>(axis, padding, at);
  if (taps.count > kKnownTaps) return false;
  const Acc slope_sum = slopes ? filter_slope_sum<mode>(taps) : static_cast<Acc>(0);
  known.count = taps.count;
  for (int i = 0; i < taps.count; ++i) {
    const FilterWeight<Acc> w = filter_weight_at<mode, slopes>(taps, slope_sum, i);
    known.weight[i] = w.weight;
    known.slope[i] = w.slope;
  }
  const int64_t first = filter_index(axis, window, padding, taps.first);
  const int64_t last = filter_index(axis, window, padding, taps.first + taps.count - 1);
  known.adjacent = taps.count > 0 && last - first == taps.count - 1;
  for (int i = 0; i < taps.count; ++i) {
    const int64_t index =
        known.adjacent ? first + i : filter_index(axis, window, padding, taps.first + i);
    known.offset[i] = index * stride;
  }
  return true;
}

// Sums each column of one channel over the rows: v with the rows' weights, dv with their slopes.
template <bool slopes, class T, class Acc>
void add_rows(const T* plane, const KnownTaps<Acc>& x, const KnownTaps<Acc>& y, Acc* v, Acc* dv) {
  for (int j = 0; j < x.count; ++j) {
    Acc sum = static_cast<Acc>(0), slope = static_cast<Acc>(0);
    for (int i = 0; i < y.count; ++i) {
      const Acc e = static_cast<Acc>(load_element(plane + y.offset[i] + x.offset[j]));
      sum = sum + y.weight[i] * e;
      if constexpr (slopes) slope = slope + y.slope[i] * e;
    }
    v[j] = sum;
    dv[j] = slope;
  }
}

// The same for four or more adjacent columns of floats.
template <bool slopes>
void add_rows_of_quads(const float* plane, const KnownTaps<float>& x, const KnownTaps<float>& y,
                       float* v, float* dv) {
  for (int j = 0; j < x.count; j += Quad::kWidth) {
    // The last four end with the last column, and repeat some earlier ones.
    const int at = j + Quad::kWidth <= x.count ? j : x.count - Quad::kWidth;
    const float* column = plane + x.offset[at];
    Quad sum(0.0f), slope(0.0f);
    for (int i = 0; i < y.count; ++i) {
      const Quad e = Quad::load(column + y.offset[i]);
      sum = sum + Quad(y.weight[i]) * e;
      if constexpr (slopes) slope = slope + Quad(y.slope[i]) * e;
    }
    sum.store(v + at);
    slope.store(dv + at);
  }
}

// filter_group(); `image` is the plane of the group's first channel.
template <class T, Interpolation mode, bool slopes, class Acc>
void filter_lane(const AugmentParams& p, const AugmentSample& s, const SegmentAxes<Acc>& axes,
                 const LanePoint<Acc>& point, const T* image, int count, PixelGroup<Acc>* group) {
  const AugmentImage& of = s.image;
  KnownTaps<Acc> x, y;
  if (!know_taps<mode, slopes>(axes.x, s.x, p.padding, point.x, of.column_stride, x) ||
      !know_taps<mode, slopes>(axes.y, s.y, p.padding, point.y, of.row_stride, y)) {
    return filter_group<T, mode, slopes>(p, s, axes, point, image, count, group);
  }
  for (int c = 0; c < count; ++c) {
    const T* plane = image + c * of.channel_stride;
    Acc v[kKnownTaps], dv[kKnownTaps];
    bool done = false;
    if constexpr (std::is_same<T, float>::value) {
      if (x.adjacent && of.column_stride == 1 && x.count >= Quad::kWidth) {
        add_rows_of_quads<slopes>(plane, x, y, v, dv);
        done = true;
      }
    }
    if (!done) add_rows<slopes>(plane, x, y, v, dv);
    Acc value = static_cast<Acc>(0), dx = static_cast<Acc>(0), dy = static_cast<Acc>(0);
    for (int j = 0; j < x.count; ++j) {
      value = value + x.weight[j] * v[j];
      if constexpr (slopes) {
        dx = dx + x.slope[j] * v[j];
        dy = dy + x.weight[j] * dv[j];
      }
    }
    group->value[c] = value;
    group->dx[c] = dx;
    group->dy[c] = dy;
  }
}

// Samples a segment's pixels again, for the values and derivatives that their gradient needs.

// Converts elements to the accumulation type. Vectors may read and write kMaxWidth lanes too many.
template <class T, class Acc>
VISOPS_ALWAYS_INLINE void convert_lanes(const T* from, int begin, int end, Acc* to) {
  if constexpr (std::is_same<Acc, double>::value) {
    for (int i = begin; i < end; ++i) to[i] = static_cast<double>(load_element(from + i));
  } else {
    for (int i = begin; i < end; i += Floats::kWidth) load_floats(from + i).store(to + i);
  }
}

// One channel of tapped lanes: values and, if wanted, derivatives.
template <class T, class Acc>
void sample_tapped(const char* plane, int64_t row, int64_t column, const GradientSegment<Acc>& at,
                   bool slopes, const GradientPlanes<Acc>& planes, Acc* VISOPS_RESTRICT value,
                   Acc* VISOPS_RESTRICT dx, Acc* VISOPS_RESTRICT dy) {
  alignas(64) Plane<T> raw[4];
  alignas(64) Plane<Acc> tap[4];
  const int begin = at.begin, end = at.end;
  for (int i = begin; i < end; ++i) {
    const T* first = reinterpret_cast<const T*>(plane + planes.from[i]);
    raw[0][i] = first[0];
    raw[1][i] = first[column];
    raw[2][i] = first[row];
    raw[3][i] = first[row + column];
  }
  for (int k = 0; k < 4; ++k) convert_lanes(raw[k], begin, end, tap[k]);
  const Acc* wx = planes.wx;
  const Acc* wy = planes.wy;
  if (slopes) {
    for (int i = begin; i < end; ++i) {
      const Acc left = tap[2][i] - tap[0][i], right = tap[3][i] - tap[1][i];
      const Acc t0 = tap[0][i] + wy[i] * left, t1 = tap[1][i] + wy[i] * right;
      value[i] = t0 + wx[i] * (t1 - t0);
      dx[i] = t1 - t0;
      dy[i] = left + wx[i] * (right - left);
    }
  } else {
    for (int i = begin; i < end; ++i) {
      const Acc t0 = tap[0][i] + wy[i] * (tap[2][i] - tap[0][i]);
      const Acc t1 = tap[1][i] + wy[i] * (tap[3][i] - tap[1][i]);
      value[i] = t0 + wx[i] * (t1 - t0);
    }
  }
}

// The same where 8 bytes hold two neighbouring taps.
inline void sample_tapped_pairs(const char* plane, int64_t row_bytes,
                                const GradientSegment<float>& at,
                                const GradientPlanes<float>& planes, float* value, float* dx,
                                float* dy) {
  for (int i = at.begin; i < at.end; i += Floats::kWidth) {
    const Floats wx = Floats::load(planes.wx + i);
    const FloatPairs wy = spread(Floats::load(planes.wy + i));
    PixelPairs rows[2];
    load_pairs({plane, plane + row_bytes}, planes.from + i, rows);
    const FloatPairs top = channel_pairs<float, 1, 0>(rows[0]);
    const FloatPairs slope = channel_pairs<float, 1, 0>(rows[1]) - top;
    const FloatPairs t = top + wy * slope;
    const Floats t0 = first_of_pairs(t), by_x = second_of_pairs(t) - t0;
    const Floats left = first_of_pairs(slope), right = second_of_pairs(slope);
    (t0 + wx * by_x).store(value + i);
    by_x.store(dx + i);
    (left + wx * (right - left)).store(dy + i);
  }
}

// Lanes that are not tapped, one by one, from channel `first` on.
template <class T, Interpolation mode, bool slopes, class Acc>
void sample_lanes(const GradientTask<Acc>& task, GradientSegment<Acc>& at, int64_t first, int count,
                  GradientPlanes<Acc>& planes) {
  const AugmentSample& s = task.slope;
  const T* image = static_cast<const T*>(s.image.data) + first * s.image.channel_stride;
  for (int i = at.begin; i < at.end; ++i) {
    PixelGroup<Acc> group;
    const LanePoint<Acc> point = {planes.x[i], planes.y[i], true};
    bool inside = !(at.edged && !(planes.out[i] < static_cast<Acc>(1)));
    if (inside) {
      bool filtered = false;
      if constexpr (mode != Interpolation::kNearest) {
        filtered = s.antialias;
        if (filtered) {
          filter_lane<T, mode, slopes>(task.p, s, at.axes, point, image, count, &group);
        }
      }
      inside = filtered || sample_group<T, mode, slopes>(task.p, s, at.axes, point, image, first,
                                                         count, &group);
    }
    if (!inside) {
      if (!at.edged) {
        for (int k = at.begin; k < at.end; ++k) {
          planes.out[k] = planes.edge_x[k] = planes.edge_y[k] = static_cast<Acc>(0);
        }
        at.edged = true;
      }
      planes.out[i] = static_cast<Acc>(1);
    }
    for (int c = 0; c < count; ++c) {
      planes.value[c][i] =
          inside ? group.value[c] : static_cast<Acc>(task.p.fill[value_index(task.p, first + c)]);
      if constexpr (slopes) {
        planes.dx[c][i] = inside ? group.dx[c] : static_cast<Acc>(0);
        planes.dy[c][i] = inside ? group.dy[c] : static_cast<Acc>(0);
      }
    }
  }
}

// GradientSampler::sample. `mode` is that of the forward.
template <class T, Interpolation mode, class Acc>
void sample_planes(const GradientTask<Acc>& task, GradientSegment<Acc>& at, int64_t first,
                   int count, bool slopes, GradientPlanes<Acc>& planes) {
  if constexpr (mode == Interpolation::kNearest) {
    sample_lanes<T, mode, false>(task, at, first, count, planes);
    return;
  }
  if constexpr (mode == Interpolation::kBilinear) {
    if (at.tapped) {
      const AugmentImage& image = task.s.image;
      for (int c = 0; c < count; ++c) {
        const T* plane = static_cast<const T*>(image.data) + (first + c) * image.channel_stride;
        const char* bytes = reinterpret_cast<const char*>(plane);
        if constexpr (std::is_same<T, float>::value) {
          if (image.column_stride == 1) {
            sample_tapped_pairs(bytes, image.row_stride * int64_t{sizeof(float)}, at, planes,
                                planes.value[c], planes.dx[c], planes.dy[c]);
            continue;
          }
        }
        sample_tapped<T>(bytes, image.row_stride, image.column_stride, at, slopes, planes,
                         planes.value[c], planes.dx[c], planes.dy[c]);
      }
      return;
    }
  }
  if constexpr (mode != Interpolation::kNearest) {
    if (slopes) {
      sample_lanes<T, mode, true>(task, at, first, count, planes);
    } else {
      sample_lanes<T, mode, false>(task, at, first, count, planes);
    }
  }
}

// GradientSampler::copy.
template <class T, class Acc>
void copy_planes(const GradientTask<Acc>& task, const GradientSegment<Acc>& at, int64_t first,
                 int count, GradientPlanes<Acc>& planes) {
  const AugmentSample& s = task.s;
  const T* image = static_cast<const T*>(s.image.data) + first * s.image.channel_stride;
  for (int i = at.begin; i < at.end; ++i) {
    PixelGroup<Acc> group;
    const bool inside = sample_group<T, Interpolation::kNearest, false>(
        task.p, s, at.axes, {planes.x[i], planes.y[i], true}, image, first, count, &group);
    for (int c = 0; c < count; ++c) {
      planes.blended[c][i] =
          inside ? group.value[c] : static_cast<Acc>(task.p.fill[value_index(task.p, first + c)]);
    }
  }
}

// Planes `blended`: what colour was applied to.
template <class Acc>
void blend_planes(const GradientTask<Acc>& task, const GradientSegment<Acc>& at, int64_t first,
                  int count, GradientPlanes<Acc>& planes) {
  if (task.copies && !task.s.is_fill) return task.sampler.copy(task, at, first, count, planes);
  const int begin = at.begin, end = at.end;
  for (int c = 0; c < count; ++c) {
    const Acc fill = static_cast<Acc>(task.p.fill[value_index(task.p, first + c)]);
    Acc* blended = planes.blended[c];
    if (!at.edged) {
      for (int i = begin; i < end; ++i) blended[i] = planes.value[c][i];
    } else {
      for (int i = begin; i < end; ++i) {
        blended[i] = blend_fill(planes.value[c][i], fill, planes.out[i]);
      }
    }
  }
}

template <class T, class Acc = typename Accumulate<T>::type>
GradientSampler<Acc> gradient_sampler(Interpolation mode) {
  switch (mode) {
    case Interpolation::kNearest:
      return {sample_planes<T, Interpolation::kNearest, Acc>, copy_planes<T, Acc>};
    case Interpolation::kBilinear:
      return {sample_planes<T, Interpolation::kBilinear, Acc>, copy_planes<T, Acc>};
    case Interpolation::kBicubic:
      return {sample_planes<T, Interpolation::kBicubic, Acc>, copy_planes<T, Acc>};
    default: return {sample_planes<T, Interpolation::kLanczos, Acc>, copy_planes<T, Acc>};
  }
}

// Tapped bilinear lanes, with `Channels` channels, or `count` if that is 0.
template <int Channels, bool all_rows, class Acc>
void scatter_tapped(const GradientTask<Acc>& task, int begin, int end, char* first, int count,
                    const GradientPlanes<Acc>& planes) {
  const Strides& stride = task.b.grad_image_stride;
  const int64_t row = stride.row, column = stride.column, channel = stride.channel;
  const int channels = Channels > 0 ? Channels : count;
  const Acc one = static_cast<Acc>(1);
  for (int i = begin; i < end; ++i) {
    const Acc wx = planes.wx[i], wy = planes.wy[i];
    const Acc left = one - wx, above = one - wy;
    const Acc w00 = above * left, w01 = above * wx, w10 = wy * left, w11 = wy * wx;
    Acc* to = reinterpret_cast<Acc*>(first + planes.to[i]);
    const int64_t top = planes.top[i];
    const bool upper = all_rows || (top >= task.rows.begin && top < task.rows.end);
    const bool lower = all_rows || (top + 1 >= task.rows.begin && top + 1 < task.rows.end);
    if (upper) {
      for (int c = 0; c < channels; ++c) {
        const Acc d = planes.e[c][i];
        to[c * channel] += w00 * d;
        to[c * channel + column] += w01 * d;
      }
    }
    if (lower) {
      for (int c = 0; c < channels; ++c) {
        const Acc d = planes.e[c][i];
        to[c * channel + row] += w10 * d;
        to[c * channel + row + column] += w11 * d;
      }
    }
  }
}

// Copies, in the planes of `nearest`.
template <class Acc>
void scatter_nearest(const GradientTask<Acc>& task, int begin, int end, char* first, int count,
                     const GradientPlanes<Acc>& planes) {
  const int64_t channel = task.b.grad_image_stride.channel;
  for (int i = begin; i < end; ++i) {
    const int64_t row = planes.top[i];
    if (planes.to[i] < 0 || row < task.rows.begin || row >= task.rows.end) continue;
    Acc* to = reinterpret_cast<Acc*>(first + planes.to[i]);
    for (int c = 0; c < count; ++c) to[c * channel] += planes.e[c][i];
  }
}

// One pixel without a filter, in any mode; `to` is the first channel's plane.
template <Interpolation mode, class Acc>
void scatter_pixel(const GradientTask<Acc>& task, const GradientSegment<Acc>& at, int lane, Acc* to,
                   int count, const GradientPlanes<Acc>& planes) {
  const AugmentSample& s = task.s;
  const Strides& stride = task.b.grad_image_stride;
  const auto x =
      augment_axis_taps<mode>(at.axes.x, s.x, task.p.padding, s.soft_edge, planes.x[lane]);
  const auto y =
      augment_axis_taps<mode>(at.axes.y, s.y, task.p.padding, s.soft_edge, planes.y[lane]);
  for (int i = 0; i < tap_count(mode); ++i) {
    const int64_t r = y.index[i];
    if (r < task.rows.begin || r >= task.rows.end) continue;
    for (int j = 0; j < tap_count(mode); ++j) {
      if (x.index[j] < 0) continue;
      const Acc weight = y.weight[i] * x.weight[j];
      Acc* tap = to + r * stride.row + x.index[j] * stride.column;
      for (int c = 0; c < count; ++c) tap[c * stride.channel] += weight * planes.e[c][lane];
    }
  }
}

// Four columns at a time. Returns how many are done: the rest, and all doubles, go one by one.
VISOPS_ALWAYS_INLINE int scatter_quads(const float* weight, float by_row, float d, int columns,
                                       float* to) {
  int j = 0;
  for (; j + Quad::kWidth <= columns; j += Quad::kWidth) {
    const Quad w = Quad(by_row) * Quad::load(weight + j);
    (Quad::load(to + j) + w * Quad(d)).store(to + j);
  }
  return j;
}
VISOPS_ALWAYS_INLINE int scatter_quads(const double*, double, double, int, double*) { return 0; }

// A filter with known taps; `x` and `y` hold offsets in the image gradient.
template <class Acc>
void scatter_known(const GradientTask<Acc>& task, const KnownTaps<Acc>& x, const KnownTaps<Acc>& y,
                   int lane, Acc* to, int count, const GradientPlanes<Acc>& planes) {
  const Strides& stride = task.b.grad_image_stride;
  const Acc zero = static_cast<Acc>(0);
  // A weight of zero hands on nothing, not even NaN or infinity.
  int begin = 0, end = x.count;
  while (begin < end && x.weight[begin] == zero) ++begin;
  while (begin < end && x.weight[end - 1] == zero) --end;
  bool whole = x.adjacent && stride.column == 1;
  for (int j = begin; j < end; ++j) whole = whole && x.weight[j] != zero;
  for (int i = 0; i < y.count; ++i) {
    const Acc by_row = y.weight[i];
    const int64_t offset = y.offset[i];
    if (by_row == zero || offset < task.rows.begin * stride.row ||
        offset >= task.rows.end * stride.row) {
      continue;
    }
    for (int c = 0; c < count; ++c) {
      Acc* row = to + offset + c * stride.channel;
      const Acc d = planes.e[c][lane];
      int j = begin;
      if (whole) {
        j += scatter_quads(x.weight + begin, by_row, d, end - begin, row + x.offset[begin]);
      }
      for (; j < end; ++j) {
        if (x.weight[j] != zero) row[x.offset[j]] += (by_row * x.weight[j]) * d;
      }
    }
  }
}

template <Interpolation mode, class Acc>
void scatter_filtered(const GradientTask<Acc>& task, const GradientSegment<Acc>& at, int lane,
                      Acc* to, int count, const GradientPlanes<Acc>& planes) {
  const AugmentSample& s = task.s;
  const Padding padding = task.p.padding;
  const Strides& stride = task.b.grad_image_stride;
  const SegmentAxes<Acc>& axes = at.axes;
  KnownTaps<Acc> known_x, known_y;
  if (know_taps<mode, false>(axes.x, s.x, padding, planes.x[lane], stride.column, known_x) &&
      know_taps<mode, false>(axes.y, s.y, padding, planes.y[lane], stride.row, known_y)) {
    return scatter_known(task, known_x, known_y, lane, to, count, planes);
  }
  const FilterTaps<Acc> x = filter_taps<mode>(axes.x, padding, planes.x[lane]);
  const FilterTaps<Acc> y = filter_taps<mode>(axes.y, padding, planes.y[lane]);
  for (int32_t i = 0; i < y.count; ++i) {
    const int64_t r = filter_index(axes.y, s.y, padding, y.first + i);
    const Acc by_row = filter_tap<mode>(y, y.first + i) * y.norm;
    if (by_row == static_cast<Acc>(0) || r < task.rows.begin || r >= task.rows.end) continue;
    for (int32_t j = 0; j < x.count; ++j) {
      const Acc by_column = filter_tap<mode>(x, x.first + j) * x.norm;
      if (by_column == static_cast<Acc>(0)) continue;
      Acc* tap =
          to + r * stride.row + filter_index(axes.x, s.x, padding, x.first + j) * stride.column;
      for (int c = 0; c < count; ++c) {
        tap[c * stride.channel] += (by_row * by_column) * planes.e[c][lane];
      }
    }
  }
}

// Lanes one by one; `mode` is the sample's own.
template <Interpolation mode, class Acc>
void scatter_lanes(const GradientTask<Acc>& task, const GradientSegment<Acc>& at, int begin,
                   int end, Acc* to, int count, const GradientPlanes<Acc>& planes) {
  for (int i = begin; i < end; ++i) {
    if (at.edged && !(planes.out[i] < static_cast<Acc>(1))) continue;  // fill
    if constexpr (mode != Interpolation::kNearest) {
      if (task.s.antialias) {
        scatter_filtered<mode>(task, at, i, to, count, planes);
        continue;
      }
    }
    scatter_pixel<tap_mode(mode)>(task, at, i, to, count, planes);
  }
}

// Plane `e` of `count` channels from `first` on.
template <class Acc>
void scatter_planes(const GradientTask<Acc>& task, const GradientSegment<Acc>& at, int64_t first,
                    int count, const GradientPlanes<Acc>& planes) {
  if (task.s.is_fill) return;
  Acc* to = task.grad_image + first * task.b.grad_image_stride.channel;
  int begin = at.begin, end = at.end;
  const auto fill = [&](int i) { return !(planes.out[i] < static_cast<Acc>(1)); };
  if (at.edged) {
    while (begin < end && fill(begin)) ++begin;
    while (begin < end && fill(end - 1)) --end;
  }
  char* bytes = reinterpret_cast<char*>(to);
  if (at.nearest) return scatter_nearest(task, begin, end, bytes, count, planes);
  if (at.tapped && !task.copies) {
    if (!task.all_rows) return scatter_tapped<0, false>(task, begin, end, bytes, count, planes);
    if (count == 3) return scatter_tapped<3, true>(task, begin, end, bytes, count, planes);
    return scatter_tapped<0, true>(task, begin, end, bytes, count, planes);
  }
  switch (task.s.mode) {
    case Interpolation::kNearest:
      return scatter_lanes<Interpolation::kNearest>(task, at, begin, end, to, count, planes);
    case Interpolation::kBilinear:
      return scatter_lanes<Interpolation::kBilinear>(task, at, begin, end, to, count, planes);
    case Interpolation::kBicubic:
      return scatter_lanes<Interpolation::kBicubic>(task, at, begin, end, to, count, planes);
    case Interpolation::kLanczos:
      return scatter_lanes<Interpolation::kLanczos>(task, at, begin, end, to, count, planes);
  }
}

}  // namespace
}  // namespace visops
