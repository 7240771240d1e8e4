// NOTE [ Augment gradients on the CPU ]
// One pass over a sample's output computes all three gradients. Segment by segment, it recomputes
// the samples and colour steps (where they are needed), pulls the incoming gradient back through
// them, hands it to the taps it came from, and sums it for matrix and colour (NOTE [ Gradient of
// the augmentation ], NOTE [ Gradient lanes ]).
//
// A sample is cut into kBackwardTasks, for batches smaller than the number of threads. A task owns
// rows of the image gradient and rows of the output: it computes its output rows' sums, and what
// any output row adds to its image rows. So one task writes each element, adding its terms in
// raster order of the output, however the work is cut; the CUDA kernel gathers in that order. Tasks
// repeat what they share of a sample, so neighbouring tasks on one thread run as one task.
//
// Assumes what check_augment() and check_augment_data() establish; the gradient is floating.
#include "core/dispatch/threads.h"
#include "core/dispatch/workspace.h"
#include "core/warp/augment_gradient.h"
#include "cpu/items.h"
#include "cpu/warp/augment_gradient_lanes.h"
#include "cpu/warp/augment_read_ahead.h"
#include "cpu/warp/augment_scatter.h"

namespace visops {
namespace {

// Pulls a segment's gradient back from the output to the samples, and sums it on the way.

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

constexpr int64_t kMostSums = kMatrixSums + int64_t{kMaxColorSteps} * kMaxMatrixElements;

// A sample can be cut into this many tasks; whole samples take the least time in total.
constexpr int64_t kBackwardTasks = 16;

struct Interval {
  double low, high;
};

// The columns of output row y that may reach `rows` of the image, generously; given all rows, the
// columns that are not wholly fill.
template <class Acc>
Span reaching_columns(const GradientTask<Acc>& task, int64_t y, Span rows) {
  const AugmentParams& p = task.p;
  const AugmentSample& s = task.s;
  if (s.is_fill) return {0, 0};
  const Span all = {0, p.output_width};
  if (s.map.perspective) return all;
  const double* m = s.map.m;
  const double base_x = m[1] * static_cast<double>(y) + m[2];
  const double base_y = m[4] * static_cast<double>(y) + m[5];
  Span span = all;
  if (p.padding == Padding::kConstant) {
    // A soft edge reaches half its width beyond the window; otherwise taps reach in by 2 pixels.
    const bool soft = s.soft_edge && blends_edge(p, s);
    const auto within = [soft](const AxisWindow& w, double width) {
      if (soft) return Interval{w.low - 0.5 * width, w.high + 0.5 * width};
      return Interval{static_cast<double>(w.first) - 2.0, static_cast<double>(w.last) + 2.0};
    };
    const Interval x = within(s.x, s.map.width_x), v = within(s.y, s.map.width_y);
    span = intersect(columns_maybe_within(m[0], base_x, x.low, x.high, p.output_width),
                     columns_maybe_within(m[3], base_y, v.low, v.high, p.output_width));
  } else if (p.padding != Padding::kReplicate) {
    return span;
  }
  // Taps stay within `reach`, but those at the window's ends stand for all that lies beyond.
  const double reach = (s.antialias ? static_cast<double>(task.axes.y.radius) : 2.0) + 1.0;
  const double low = static_cast<double>(rows.begin) - reach;
  const double high = static_cast<double>(rows.end - 1) + reach;
  const bool open_low = low <= static_cast<double>(s.y.first) + reach;
  const bool open_high = high >= static_cast<double>(s.y.last) - reach;
  return intersect(span, columns_maybe_within(m[3], base_y, open_low ? -1e300 : low,
                                              open_high ? 1e300 : high, p.output_width));
}

// Adds one segment; `sums` is null if another task owns its row.
template <class Acc>
void backward_segment(const GradientTask<Acc>& task, GradientSegment<Acc>& at, SumLanes* sums,
                      GradientPlanes<Acc>& planes) {
  const AugmentParams& p = task.p;
  const bool matrix = sums != nullptr && task.b.grad_matrix != nullptr;
  const bool slopes = matrix && p.mode != Interpolation::kNearest && !task.s.is_fill;
  SumLanes* color_sums = nullptr;
  if (sums != nullptr && task.b.grad_color != nullptr) color_sums = sums + first_color_sum(task.b);
  const bool values = p.clamp || color_sums != nullptr;

  at.segment = augment_segment<Acc>(task.s.map, at.x0, at.y);
  if (task.s.map.perspective) {
    at.axes = segment_axes(task.slope, at.segment);
  } else {
    at.axes = task.axes;
    position_axis(task.s.x, at.segment.x, &at.axes.x);
    position_axis(task.s.y, at.segment.y, &at.axes.y);
  }
  position_lanes(task, at, planes);
  meet_edges(task, at, planes);
  tap_lanes(task, at, planes);
  if (task.grad_image != nullptr) near_lanes(task, at, planes);
  if (slopes) {
    for (int i = at.begin; i < at.end; ++i) {
      planes.gx[i] = planes.gy[i] = planes.fills[i] = static_cast<Acc>(0);
    }
  }
  for (int64_t first = 0; first < p.channels; first += kPixelGroup) {
    const int count = group_size(p, first);
    if (slopes || values) {
      task.sampler.sample(task, at, first, count, slopes, planes);
      if (values) blend_planes(task, at, first, count, planes);
    }
    load_gradients(task, at, first, count, planes);
    backward_colors(task, at, count, color_sums, planes);
    backward_blends(task, at, first, count, slopes, planes);
    if (slopes) {
      for (int c = 0; c < count; ++c) {
        for (int i = at.begin; i < at.end; ++i) {
          planes.gx[i] = planes.gx[i] + planes.e[c][i] * planes.dx[c][i];
          planes.gy[i] = planes.gy[i] + planes.e[c][i] * planes.dy[c][i];
        }
      }
    }
    if (task.grad_image != nullptr) scatter_planes(task, at, first, count, planes);
  }
  if (slopes) add_matrix_sums(task, at, planes, sums);
}

template <class Acc>
void clear_rows(const AugmentBackwardParams& b, int64_t sample, Span rows) {
  const AugmentParams& p = b.forward;
  const Strides& stride = b.grad_image_stride;
  Acc* image = static_cast<Acc*>(b.grad_image) + sample * stride.batch;
  // The innermost dimension goes last, so that the compiler can emit a memset.
  const bool planar = stride.column == 1;
  const int64_t outer = planar ? p.channels : p.first.width;
  const int64_t inner = planar ? p.first.width : p.channels;
  const int64_t outer_step = planar ? stride.channel : stride.column;
  const int64_t inner_step = planar ? stride.column : stride.channel;
  for (int64_t a = 0; a < outer; ++a) {
    for (int64_t y = rows.begin; y < rows.end; ++y) {
      Acc* run = image + y * stride.row + a * outer_step;
      for (int64_t i = 0; i < inner; ++i) run[i * inner_step] = static_cast<Acc>(0);
    }
  }
}

// `own`: the output rows whose sums belong to this task.
template <class Acc>
void backward_rows(const AugmentBackwardParams& b, int64_t sample, Span rows, Span own,
                   const GradientSampler<Acc>& sampler) {
  const AugmentParams& p = b.forward;
  if (b.grad_image != nullptr) clear_rows<Acc>(b, sample, rows);
  const GradientTask<Acc> task(b, sample, rows, sampler);
  GradientPlanes<Acc> planes;
  SumLanes sums[kMostSums];
  ReadAhead ahead = read_ahead(p, task.s, {0, p.output_width}, own);
  for (int64_t y = 0; y < p.output_height; ++y) {
    const bool mine = y >= own.begin && y < own.end;
    if (!mine && task.grad_image == nullptr) continue;
    Span columns = {0, p.output_width};
    if (!mine || b.grad_color == nullptr) {
      const bool by_rows = !mine || b.grad_matrix == nullptr;
      columns = reaching_columns(task, y, by_rows ? rows : Span{0, task.s.image.height});
    }
    if (mine) {
      ahead.at(y);
      for (int64_t k = 0; k < b.row_sum_count; ++k) {
        for (double& lane : sums[k]) lane = 0.0;
      }
    }
    for (int64_t x0 = columns.begin & -kSegment; x0 < columns.end; x0 += kSegment) {
      const Span lanes = intersect(columns, {x0, x0 + kSegment});
      GradientSegment<Acc> at = {};
      at.x0 = x0;
      at.y = y;
      at.begin = static_cast<int>(lanes.begin - x0) & -kMaxWidth;  // start at a whole vector
      at.end = static_cast<int>(lanes.end - x0);
      backward_segment(task, at, mine ? sums : nullptr, planes);
    }
    if (mine) {
      double* row = b.row_sums + (sample * p.output_height + y) * b.row_sum_count;
      for (int64_t k = 0; k < b.row_sum_count; ++k) row[k] = sum_lanes(sums[k]);
    }
  }
}

void backward_tasks(const AugmentBackwardParams& b, int64_t begin, int64_t end) {
  const AugmentParams& p = b.forward;
  for_each_sample(begin, end, kBackwardTasks, [&](int64_t sample, int64_t first, int64_t last) {
    const auto part = [first, last](int64_t n) {
      return Span{n * first / kBackwardTasks, n * last / kBackwardTasks};
    };
    const Span rows = part(p.first.height), own = part(p.output_height);
    const auto backward = [&](const auto& sampler) {
      backward_rows(b, sample, rows, own, sampler);
    };
    switch (p.dtype) {
      case DType::kUInt8: return backward(gradient_sampler<uint8_t>(p.mode));
      case DType::kFloat16: return backward(gradient_sampler<Half>(p.mode));
      case DType::kBFloat16: return backward(gradient_sampler<BFloat16>(p.mode));
      case DType::kFloat64: return backward(gradient_sampler<double>(p.mode));
      default: return backward(gradient_sampler<float>(p.mode));
    }
  });
}

void finish_matrix(const AugmentBackwardParams& b, int64_t sample, const double* sums) {
  const AugmentParams& p = b.forward;
  double lanes[kTreeLeaves][9] = {};
  for (int64_t y = 0; y < p.output_height; ++y) {
    add_row_sums(sums + y * b.row_sum_count, static_cast<double>(y), lanes[y % kTreeLeaves]);
  }
  double grad_map[9];
  for (int k = 0; k < 9; ++k) {
    SumLanes lane;
    for (int64_t l = 0; l < kTreeLeaves; ++l) lane[l] = lanes[l][k];
    grad_map[k] = sum_lanes(lane);
  }
  double grad_matrix[9] = {};
  if (augment_map(p, sample).valid) augment_map_backward(p, sample, grad_map, grad_matrix);
  const int elements = 3 * p.matrix_rows;
  for (int k = 0; k < elements; ++k) b.grad_matrix[sample * elements + k] = grad_matrix[k];
}

void finish_color(const AugmentBackwardParams& b, int64_t sample, const double* sums) {
  const AugmentParams& p = b.forward;
  const int64_t count = p.color_steps * color_elements(p);
  for (int64_t k = 0; k < count; ++k) {
    SumLanes lane = {};
    for (int64_t y = 0; y < p.output_height; ++y) {
      lane[y % kTreeLeaves] += sums[y * b.row_sum_count + first_color_sum(b) + k];
    }
    b.grad_color[sample * count + k] = sum_lanes(lane) * color_sum_scale(p, k);
  }
}

// From row_sums to grad_matrix and grad_color.
void finish_samples(const AugmentBackwardParams& b, int64_t begin, int64_t end) {
  for (int64_t sample = begin; sample < end; ++sample) {
    const double* sums = b.row_sums + sample * b.forward.output_height * b.row_sum_count;
    if (b.grad_matrix != nullptr) finish_matrix(b, sample, sums);
    if (b.grad_color != nullptr) finish_color(b, sample, sums);
  }
}

void augment_backward_kernel(const AugmentBackwardParams& given, Workspace& workspace) {
  AugmentBackwardParams b = given;
  const AugmentParams& p = b.forward;
  const int64_t sums = p.output_height * b.row_sum_count;
  b.row_sums = allocate<double>(workspace, p.batch * sums);
  // An element costs several times what a copy does.
  const int64_t cost = 4 * p.channels * p.output_width * p.output_height / kBackwardTasks;
  for_items(workspace, b, p.batch * kBackwardTasks, cost, backward_tasks);
  if (b.row_sum_count > 0) for_items(workspace, b, p.batch, sums, finish_samples);
}

const bool registered = augment_backward_stub.set(kIsaSlot, augment_backward_kernel);

}  // namespace
}  // namespace visops
