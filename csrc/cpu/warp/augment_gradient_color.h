// Pulls a segment's gradient back from the output to the samples, and sums it on the way.
#pragma once

#include "cpu/warp/augment_gradient_lanes.h"

namespace visops {
namespace {

// Sums of a row, by column modulo 64: NOTE [ Gradient of the augmentation ].
using SumLanes = double[kTreeLeaves];

VISOPS_ALWAYS_INLINE double sum_lanes(SumLanes& lane) {
  for (int64_t w = kTreeLeaves / 2; w >= 1; w /= 2) {
    for (int64_t i = 0; i < w; ++i) lane[i] += lane[i + w];
  }
  return lane[0];
}

// body(first lane, one past the last, first place in SumLanes) for each 64 columns of a segment.
template <class Body>
VISOPS_ALWAYS_INLINE void for_each_sum_group(int begin, int end, const Body& body) {
  constexpr int kGroup = static_cast<int>(kTreeLeaves);
  for (int from = begin; from < end;) {
    const int next = (from / kGroup + 1) * kGroup;
    const int to = next < end ? next : end;
    body(from, to, from % kGroup);
    from = to;
  }
}

template <class G, class Acc>
void load_gradient_plane(const G* from, int64_t step, int begin, int end, Acc scale, Acc* e) {
  if (step == 1) {
    for (int i = begin; i < end; ++i) e[i] = static_cast<Acc>(load_element(from + i)) * scale;
  } else {
    for (int i = begin; i < end; ++i) {
      e[i] = static_cast<Acc>(load_element(from + i * step)) * scale;
    }
  }
}

// Planes `e`: the incoming gradient with respect to the results of colour.
template <class Acc>
void load_gradients(const GradientTask<Acc>& task, const GradientSegment<Acc>& at, int64_t first,
                    int count, GradientPlanes<Acc>& planes) {
  const AugmentParams& p = task.p;
  const Strides& stride = p.output_stride;
  const int begin = at.begin, end = at.end;
  for (int c = 0; c < count; ++c) {
    const int64_t offset = task.sample * stride.batch + (first + c) * stride.channel +
                           at.y * stride.row + at.x0 * stride.column;
    const Acc scale = static_cast<Acc>(p.scale[value_index(p, first + c)]);
    Acc* e = planes.e[c];
    const auto load = [&](const auto* gradient) {
      load_gradient_plane(gradient + offset, stride.column, begin, end, scale, e);
    };
    switch (p.output_dtype) {
      case DType::kFloat16: load(static_cast<const Half*>(p.output)); break;
      case DType::kBFloat16: load(static_cast<const BFloat16*>(p.output)); break;
      case DType::kFloat64: load(static_cast<const double*>(p.output)); break;
      default: load(static_cast<const float*>(p.output)); break;
    }
    for (int64_t k = 0; k < p.erase_count; ++k) {
      const int64_t* r = p.erase + (task.sample * p.erase_count + k) * 4;
      if (at.y < r[1] || at.y >= r[3]) continue;
      const Span erased = intersect({begin, end}, {r[0] - at.x0, r[2] - at.x0});
      for (int64_t i = erased.begin; i < erased.end; ++i) e[i] = static_cast<Acc>(0);
    }
  }
}

// One colour step of a run: results before they are clamped.
template <int Channels, class Acc>
void color_planes(const Acc (&a)[kMaxColorChannels][kMaxColorChannels + 1],
                  const Plane<Acc>* VISOPS_RESTRICT v, bool clamp, int begin, int end,
                  Plane<Acc>* VISOPS_RESTRICT result) {
  for (int i = begin; i < end; ++i) {
    Acc in[Channels];
    for (int j = 0; j < Channels; ++j) in[j] = clamp ? visops::clamp_unit(v[j][i]) : v[j][i];
    for (int c = 0; c < Channels; ++c) {
      Acc sum = a[c][0] * in[0];
      for (int j = 1; j < Channels; ++j) sum = sum + a[c][j] * in[j];
      result[c][i] = sum + a[c][Channels];
    }
  }
}

// Turns e with respect to a step's unclamped results into e with respect to its inputs, in place.
template <int Channels, class Acc>
void backward_planes(const Acc (&a)[kMaxColorChannels][kMaxColorChannels + 1], int begin, int end,
                     Plane<Acc>* e) {
  for (int i = begin; i < end; ++i) {
    Acc by_result[Channels];
    for (int c = 0; c < Channels; ++c) by_result[c] = e[c][i];
    for (int j = 0; j < Channels; ++j) {
      Acc sum = a[0][j] * by_result[0];
      for (int c = 1; c < Channels; ++c) sum = sum + a[c][j] * by_result[c];
      e[j][i] = sum;
    }
  }
}

// sums[c][j] += e_c x input_j, sums[c][channels] += e_c.
template <class Acc>
void add_color_sums(int channels, const Plane<Acc>* e, const Plane<Acc>* input, bool clamped,
                    int begin, int end, SumLanes* sums) {
  for_each_sum_group(begin, end, [&](int from, int to, int lane) {
    const int n = to - from;
    double v[kTreeLeaves];
    for (int j = 0; j <= channels; ++j) {
      if (j < channels) {
        const Acc* in = input[j] + from;
        for (int i = 0; i < n; ++i) {
          v[i] = static_cast<double>(clamped ? visops::clamp_unit(in[i]) : in[i]);
        }
      }
      for (int c = 0; c < channels; ++c) {
        double* sum = sums[c * (channels + 1) + j] + lane;
        const Acc* by = e[c] + from;
        if (j < channels) {
          for (int i = 0; i < n; ++i) sum[i] += static_cast<double>(by[i]) * v[i];
        } else {
          for (int i = 0; i < n; ++i) sum[i] += static_cast<double>(by[i]);
        }
      }
    }
  });
}

// From `e` with respect to colour's results to `e` with respect to `blended`. `color_sums` is null
// if not wanted.
template <int Channels, class Acc>
void backward_color_planes(const GradientTask<Acc>& task, const GradientSegment<Acc>& at,
                           SumLanes* color_sums, GradientPlanes<Acc>& planes) {
  const AugmentParams& p = task.p;
  const int begin = at.begin, end = at.end;
  const bool clamp = p.clamp;
  const int64_t last = p.color_steps - 1;
  const auto input = [&](int64_t k) { return k == 0 ? planes.blended : planes.unclamped[k - 1]; };
  if (clamp || color_sums != nullptr) {
    for (int64_t k = 0; k < (clamp ? last + 1 : last); ++k) {
      color_planes<Channels>(task.plan.step[k], input(k), clamp && k > 0, begin, end,
                             planes.unclamped[k]);
    }
  }
  for (int64_t k = last; k >= 0; --k) {
    if (clamp) {
      for (int c = 0; c < Channels; ++c) {
        Acc* e = planes.e[c];
        const Acc* unclamped = planes.unclamped[k][c];
        for (int i = begin; i < end; ++i) e[i] = backward_clamp(e[i], unclamped[i]);
      }
    }
    if (color_sums != nullptr) {
      add_color_sums(Channels, planes.e, input(k), clamp && k > 0, begin, end,
                     color_sums + k * Channels * (Channels + 1));
    }
    backward_planes<Channels>(task.plan.step[k], begin, end, planes.e);
  }
}

template <class Acc>
void backward_colors(const GradientTask<Acc>& task, const GradientSegment<Acc>& at, int count,
                     SumLanes* color_sums, GradientPlanes<Acc>& planes) {
  const AugmentParams& p = task.p;
  if (p.color_steps == 0) {
    const Acc scale = static_cast<Acc>(p.input_scale);
    const bool clamp = p.clamp;
    for (int c = 0; c < count; ++c) {
      Acc* e = planes.e[c];
      const Acc* v = planes.blended[c];
      for (int i = at.begin; i < at.end; ++i) e[i] = backward_plain(e[i], v[i], scale, clamp);
    }
    return;
  }
  switch (p.channels) {
    case 1: return backward_color_planes<1>(task, at, color_sums, planes);
    case 2: return backward_color_planes<2>(task, at, color_sums, planes);
    case 3: return backward_color_planes<3>(task, at, color_sums, planes);
    default: return backward_color_planes<4>(task, at, color_sums, planes);
  }
}

// From `e` with respect to blended values to `e` with respect to samples, in place; adds to
// `fills`.
template <class Acc>
void backward_blends(const GradientTask<Acc>& task, const GradientSegment<Acc>& at, int64_t first,
                     int count, bool slopes, GradientPlanes<Acc>& planes) {
  if (!at.edged) return;
  const int begin = at.begin, end = at.end;
  for (int c = 0; c < count; ++c) {
    Acc* e = planes.e[c];
    if (slopes) {
      const Acc fill = static_cast<Acc>(task.p.fill[value_index(task.p, first + c)]);
      for (int i = begin; i < end; ++i) {
        planes.fills[i] = planes.fills[i] + e[i] * (planes.value[c][i] - fill);
      }
    }
    for (int i = begin; i < end; ++i) e[i] = backward_blend(e[i], planes.out[i]);
  }
}

// The matrix sums of the segment's pixels, from gx, gy and `fills`.
template <class Acc>
void add_matrix_sums(const GradientTask<Acc>& task, const GradientSegment<Acc>& at,
                     GradientPlanes<Acc>& planes, SumLanes* sums) {
  const AugmentMap map = task.s.map;
  const bool third_row = task.p.matrix_rows == 3;
  const MovingRange<Acc> by_x = moving_range(task.p, task.slope, at.axes.x);
  const MovingRange<Acc> by_y = moving_range(task.p, task.slope, at.axes.y);
  const int begin = at.begin, end = at.end;
  Acc* gx = planes.gx;
  Acc* gy = planes.gy;
  if (at.edged) {
    for (int i = begin; i < end; ++i) {
      const Acc x = planes.x[i], y = planes.y[i], out = planes.out[i], fills = planes.fills[i];
      gx[i] =
          backward_position(gx[i], fills, planes.edge_x[i], out, x >= by_x.low && x < by_x.high);
      gy[i] =
          backward_position(gy[i], fills, planes.edge_y[i], out, y >= by_y.low && y < by_y.high);
    }
  } else {
    for (int i = begin; i < end; ++i) {
      const Acc x = planes.x[i], y = planes.y[i];
      gx[i] = x >= by_x.low && x < by_x.high ? gx[i] : static_cast<Acc>(0);
      gy[i] = y >= by_y.low && y < by_y.high ? gy[i] : static_cast<Acc>(0);
    }
  }
  const double row = static_cast<double>(at.y);
  const double origin_x = static_cast<double>(at.segment.x);
  const double origin_y = static_cast<double>(at.segment.y);
  for_each_sum_group(begin, end, [&](int from, int to, int lane) {
    const int n = to - from;
    const int64_t first = at.x0 + from;
    if (!map.perspective && !third_row) {
      for (int i = 0; i < n; ++i) {
        const double x = static_cast<double>(static_cast<int32_t>(first) + i);
        const double a = static_cast<double>(gx[from + i]), b = static_cast<double>(gy[from + i]);
        sums[0][lane + i] += a;
        sums[1][lane + i] += a * x;
        sums[2][lane + i] += b;
        sums[3][lane + i] += b * x;
      }
      return;
    }
    for (int i = 0; i < n; ++i) {
      const double x = static_cast<double>(static_cast<int32_t>(first) + i);
      const double u = origin_x + static_cast<double>(planes.x[from + i]);
      const double v = origin_y + static_cast<double>(planes.y[from + i]);
      const MapTerms t = map_terms(map, third_row, x, row, u, v, static_cast<double>(gx[from + i]),
                                   static_cast<double>(gy[from + i]));
      sums[0][lane + i] += t.a;
      sums[1][lane + i] += t.a * x;
      sums[2][lane + i] += t.b;
      sums[3][lane + i] += t.b * x;
      sums[4][lane + i] += t.c;
      sums[5][lane + i] += t.c * x;
    }
  });
}

}  // namespace
}  // namespace visops
