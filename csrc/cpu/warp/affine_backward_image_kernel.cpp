// NOTE [ Affine image gradient on the CPU ]
// The warp's transpose scatters an output pixel's gradient to its taps. Work is cut by rows of the
// *image*: a task owns rows [begin, end), walks the output in raster order, and adds only what
// falls into its rows. So one task writes each element, adding its terms in raster order, tap rows
// before tap columns, whatever the number of threads; the CUDA kernel gathers in the same order.
// Division finds the columns of an output row that reach the task's rows. Assumes what
// check_affine() and check_matrices() establish; gradients are floating.
#include "core/dispatch/threads.h"
#include "core/warp/affine.h"
#include "cpu/warp/affine_rows.h"

namespace visops {
namespace {

template <class T, Interpolation mode>
struct Scatter {
  using Acc = typename Accumulate<T>::type;
  static constexpr int kTaps = tap_count(mode);

  const AffineBackwardImageParams& params;
  const AffineParams& p;
  const AffineMap& map;
  int64_t sample;
  Span rows;  // of the image, owned by this task
  Acc* image;
  bool taps_fit;

  Scatter(const AffineBackwardImageParams& given, const AffineMap& m, int64_t s, Span owned)
      : params(given),
        p(given.forward),
        map(m),
        sample(s),
        rows(owned),
        image(static_cast<Acc*>(given.grad_image) + s * given.grad_image_stride.batch),
        taps_fit(sizeof(Acc) == sizeof(float) &&
                 fits_taps(m.m, given.grad_image_stride.row, given.grad_image_stride.column)) {}

  // The columns of output row y that may reach the owned rows, and those whose taps surely all lie
  // in owned rows.
  RowSpans spans(int64_t y) const {
    RowSpans s = row_spans(p, map, mode, y);
    const double base = map.m[4] * static_cast<double>(y) + map.m[5];
    const double low = static_cast<double>(rows.begin), high = static_cast<double>(rows.end);
    const double reach = mode == Interpolation::kBicubic ? 2.0 : 1.0;
    const bool bounded = p.padding == Padding::kConstant || p.padding == Padding::kReplicate;
    if (bounded) {
      const bool open_below = p.padding == Padding::kReplicate && rows.begin == 0;
      const bool open_above = p.padding == Padding::kReplicate && rows.end == p.height;
      s.touching = intersect(
          s.touching, columns_maybe_within(map.m[3], base, open_below ? -1e300 : low - reach,
                                           open_above ? 1e300 : high - 1 + reach, p.output_width));
    }
    double before = 0.0, after = 1.0;  // as in row_spans()
    if (mode == Interpolation::kNearest) before = -0.5, after = 0.5;
    if (mode == Interpolation::kBicubic) before = 1.0, after = 2.0;
    s.inside = intersect(
        intersect(s.inside, s.touching),
        columns_surely_within(map.m[3], base, low + before, high - after, p.output_width));
    if (!taps_fit) s.inside = {s.touching.begin, s.touching.begin};
    return s;
  }

  void row(int64_t y) const {
    const RowSpans s = spans(y);
    const T* grad =
        static_cast<const T*>(p.output) + sample * p.output_stride.batch + y * p.output_stride.row;
    for (int64_t x0 = s.touching.begin & -kSegment; x0 < s.touching.end; x0 += kSegment) {
      const Span segment = intersect(s.touching, {x0, x0 + kSegment});
      const Span inner = intersect(segment, s.inside);
      const SegmentOrigin<Acc> origin = segment_origin<Acc>(map.m, x0, y);
      if (inner.begin == inner.end) {
        border(grad, origin, x0, segment.begin, segment.end);
      } else {
        border(grad, origin, x0, segment.begin, inner.begin);
        inside(grad, origin, x0, inner.begin, inner.end);
        border(grad, origin, x0, inner.end, segment.end);
      }
    }
  }

  void border(const T* grad, const SegmentOrigin<Acc>& origin, int64_t x0, int64_t begin,
              int64_t end) const {
    const Strides& stride = params.grad_image_stride;
    for (int64_t x = begin; x < end; ++x) {
      const auto taps = pixel_taps<mode>(p, map, origin, static_cast<int>(x - x0));
      for (int i = 0; i < kTaps; ++i) {
        const int64_t r = taps.y.index[i];
        if (r < rows.begin || r >= rows.end) continue;
        for (int j = 0; j < kTaps; ++j) {
          if (taps.x.index[j] < 0) continue;
          Acc* to = image + r * stride.row + taps.x.index[j] * stride.column;
          const Acc weight = taps.y.weight[i] * taps.x.weight[j];
          const T* from = grad + x * p.output_stride.column;
          for (int64_t c = 0; c < p.channels; ++c) {
            to[c * stride.channel] += weight * load_element(from + c * p.output_stride.channel);
          }
        }
      }
    }
  }

  // float64 coordinates have no SegmentTaps: taps_fit is false.
  void inside(const T*, const SegmentOrigin<double>&, int64_t, int64_t, int64_t) const {}

  void inside(const T* grad, const SegmentOrigin<float>& origin, int64_t x0, int64_t begin,
              int64_t end) const {
    const Strides& stride = params.grad_image_stride;
    SegmentTaps taps;
    const int count = static_cast<int>(end - begin);
    fill_taps(mode, map, origin, static_cast<int>(begin - x0), count,
              static_cast<int32_t>(stride.row), static_cast<int32_t>(stride.column), taps);
    Acc* first = image + (origin.y + first_tap(mode)) * stride.row +
                 (origin.x + first_tap(mode)) * stride.column;
    for (int i = 0; i < count; ++i) {
      Acc wx[kTaps], wy[kTaps], weight[kTaps][kTaps];
      tap_weights<mode>(static_cast<Acc>(taps.wx[i]), wx);
      tap_weights<mode>(static_cast<Acc>(taps.wy[i]), wy);
      for (int r = 0; r < kTaps; ++r) {
        for (int j = 0; j < kTaps; ++j) weight[r][j] = wy[r] * wx[j];
      }
      const T* from = grad + (begin + i) * p.output_stride.column;
      Acc* to = first + taps.offset[i];
      for (int64_t c = 0; c < p.channels; ++c) {
        const Acc g = load_element(from + c * p.output_stride.channel);
        Acc* plane = to + c * stride.channel;
        for (int r = 0; r < kTaps; ++r) {
          for (int j = 0; j < kTaps; ++j) {
            plane[r * stride.row + j * stride.column] += weight[r][j] * g;
          }
        }
      }
    }
  }
};

template <class Acc>
void clear_rows(const AffineBackwardImageParams& params, int64_t sample, int64_t first,
                int64_t last) {
  const AffineParams& p = params.forward;
  const Strides& stride = params.grad_image_stride;
  Acc* image = static_cast<Acc*>(params.grad_image) + sample * stride.batch;
  // The innermost dimension goes last, so that the compiler can emit a memset.
  const bool planes = stride.column == 1;
  const int64_t outer = planes ? p.channels : p.width, inner = planes ? p.width : p.channels;
  const int64_t outer_step = planes ? stride.channel : stride.column;
  const int64_t inner_step = planes ? stride.column : stride.channel;
  for (int64_t y = first; y < last; ++y) {
    for (int64_t a = 0; a < outer; ++a) {
      Acc* run = image + y * stride.row + a * outer_step;
      for (int64_t b = 0; b < inner; ++b) run[b * inner_step] = 0;
    }
  }
}

template <class T, Interpolation mode>
void scatter_rows(const AffineBackwardImageParams& params, const AffineMap& map, int64_t sample,
                  Span rows) {
  const Scatter<T, mode> scatter(params, map, sample, rows);
  for (int64_t y = 0; y < params.forward.output_height; ++y) scatter.row(y);
}

template <class T>
void backward_image_rows(const AffineBackwardImageParams& params, int64_t sample, Span rows) {
  clear_rows<typename Accumulate<T>::type>(params, sample, rows.begin, rows.end);
  const AffineParams& p = params.forward;
  const AffineMap map = affine_map(p, sample);
  if (!map.valid || p.width == 0) return;
  switch (effective_mode(p, map)) {
    case Interpolation::kNearest:
      return scatter_rows<T, Interpolation::kNearest>(params, map, sample, rows);
    case Interpolation::kBilinear:
      return scatter_rows<T, Interpolation::kBilinear>(params, map, sample, rows);
    default: return scatter_rows<T, Interpolation::kBicubic>(params, map, sample, rows);
  }
}

void affine_backward_image_kernel(const AffineBackwardImageParams& params, Workspace& workspace) {
  const AffineParams& p = params.forward;
  const auto scatter = [&](int64_t sample, int64_t first, int64_t last) {
    switch (p.dtype) {
      case DType::kFloat16: return backward_image_rows<Half>(params, sample, {first, last});
      case DType::kBFloat16: return backward_image_rows<BFloat16>(params, sample, {first, last});
      case DType::kFloat64: return backward_image_rows<double>(params, sample, {first, last});
      default: return backward_image_rows<float>(params, sample, {first, last});
    }
  };
  parallel_for(workspace, p.batch * p.height, grain_of(p.channels * p.width),
               [&](int64_t begin, int64_t end) { for_each_sample(begin, end, p.height, scatter); });
}

const bool registered = affine_image_gradient_stub.set(kIsaSlot, affine_backward_image_kernel);

}  // namespace
}  // namespace visops
