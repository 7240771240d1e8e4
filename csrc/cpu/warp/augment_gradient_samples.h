// Samples a segment's pixels again, for the values and derivatives that their gradient needs.
#pragma once

#include "cpu/warp/augment_gradient_filter.h"
#include "cpu/warp/augment_gradient_lanes.h"

namespace visops {
namespace {

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

}  // namespace
}  // namespace visops
