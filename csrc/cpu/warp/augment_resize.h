// antialias without rotation: rows are filtered vertically once, then horizontally.
//
// NOTE [ Resized rows ]
// Where output columns depend on x alone and rows on y alone, the sum over a tap column,
// v_j = sum_i wy_i p_ij, serves all pixels of a row that share the column. So an output row takes
// two steps: v for all columns that its pixels need, in vectors along the row; then sum_j wx_j v_j
// per pixel, all channels at once. Order and weights are those of filter_pixel(). Constant padding
// only: under the others taps fold.
#pragma once

#include <limits>

#include "cpu/simd/quad_groups.h"
#include "cpu/warp/augment_color.h"
#include "cpu/warp/augment_samplers.h"

namespace visops {
namespace {

constexpr int kTableFloats = 8192;    // weights of a chunk of columns
constexpr int kBufferFloats = 16384;  // filtered elements of a chunk, four per column

// A run of output columns and the columns of the image that they need.
struct ResizeColumns {
  int64_t x0;  // first column
  int count;
  int64_t origin;     // of the axis, a column of the image
  int32_t low, high;  // columns [low, high) of the image, relative to the axis' origin
  bool covered;       // no column blends with fill
  float cover[kSegment];
  int32_t first[kPaddedSegment];  // tap, relative to `low`
  int32_t taps[kSegment];

  void begin(int64_t column, const SegmentAxis<float>& axis) {
    x0 = column;
    origin = axis.origin;
    count = 0;
    low = high = 0;
    covered = true;
  }

  // Appends a column. False if its taps make [low, high) too wide.
  bool add(const FilterTaps<float>& column, float column_cover) {
    if (column.count > 0) {
      const bool none = low == high;
      const int32_t last = column.first + column.count;
      const int32_t lowest = none || column.first < low ? column.first : low;
      const int32_t highest = none || last > high ? last : high;
      if (int64_t{4} * (highest - lowest) > kBufferFloats) return false;
      low = lowest;
      high = highest;
    }
    first[count] = column.first;
    taps[count] = column.count;
    cover[count] = column_cover;
    covered = covered && column_cover == 1.0f;
    ++count;
    return true;
  }

  // Call after the last column.
  void finish() {
    for (int i = 0; i < count; ++i) first[i] = taps[i] > 0 ? first[i] - low : 0;
  }
};

struct ResizeChunk : ResizeColumns {
  int uniform;  // number of taps if all columns have as many, some of them added; else 0
  bool finite;  // elements are never infinite or NaN
  int stride;   // weights per column
  alignas(64) float weight[kTableFloats];
  alignas(64) float spread[kTableFloats];  // each four times, as filter_uniform() takes them
};

// kWidth columns are filtered at once, in four registers: quad k of register r is column 4 k + r.
constexpr int kQuads = Floats::kWidth / 4;

// Loops of one length are faster. So this gives all columns, in whole vectors, as many taps as the
// one with most. At the right end the new taps go first. Their weight is 0, which changes no sum of
// finite values; else NaN, which filter_uniform() leaves out.
inline void make_uniform(ResizeChunk& chunk) {
  const float none = chunk.finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  int most = 0;
  for (int i = 0; i < chunk.count; ++i) most = chunk.taps[i] > most ? chunk.taps[i] : most;
  const int padded = (chunk.count + kMaxWidth - 1) & -kMaxWidth;
  if (most == 0 || padded * 4 * most > kTableFloats) return;
  chunk.uniform = most;
  const int32_t last = chunk.high - chunk.low - most;
  for (int i = 0; i < padded; ++i) {
    const bool real = i < chunk.count;
    const int32_t shift = real && chunk.first[i] > last ? chunk.first[i] - last : 0;
    chunk.first[i] = real ? chunk.first[i] - shift : 0;
    const int column = i % Floats::kWidth, in_register = i - column + column % 4 * kQuads;
    float* group = chunk.spread + in_register * 4 * most + column / 4 * 4;
    for (int j = 0; j < most; ++j) {
      const bool some = real && j >= shift && j - shift < chunk.taps[i];
      const float weight = some ? chunk.weight[i * chunk.stride + j - shift] : none;
      for (int k = 0; k < 4; ++k) group[j * Floats::kWidth + k] = weight;
    }
  }
}

// Taps that certainly fit a chunk of one column.
constexpr double kMostTaps = 2048.0;

// As many lanes from `lane` on as fit, at least one.
template <Interpolation mode>
void make_chunk(const SegmentAxis<float>& axis, const AugmentSegment<float>& segment, int64_t x0,
                int lane, int lanes, bool finite, ResizeChunk& chunk) {
  chunk.stride = 2 * static_cast<int>(std::ceil(axis.radius));
  chunk.begin(x0 + lane, axis);
  for (int i = lane; i < lanes && (chunk.count + 1) * chunk.stride <= kTableFloats; ++i) {
    const LanePoint<float> point = lane_point(segment, i);
    const FilterTaps<float> taps = filter_taps<mode>(axis, Padding::kConstant, point.x);
    float* weight = chunk.weight + chunk.count * chunk.stride;
    if (!chunk.add(taps, edge_cover(axis, point.x))) break;
    for (int32_t j = 0; j < taps.count; ++j) {
      weight[j] = filter_tap<mode>(taps, taps.first + j) * taps.norm;
    }
  }
  chunk.finish();
  chunk.finite = finite;
  chunk.uniform = 0;
  make_uniform(chunk);
}

inline void make_chunk(Interpolation mode, const SegmentAxis<float>& axis,
                       const AugmentSegment<float>& segment, int64_t x0, int lane, int lanes,
                       bool finite, ResizeChunk& chunk) {
  with_filter(mode, [&](auto own) {
    make_chunk<own.value>(axis, segment, x0, lane, lanes, finite, chunk);
  });
}

// The tap rows of one output row, and their weights.
struct RowTaps {
  Interpolation mode;
  FilterTaps<float> taps;

  RowTaps(Interpolation interpolation, const SegmentAxis<float>& axis, float at)
      : mode(interpolation), taps(with_filter(mode, [&](auto own) {
          return filter_taps<own.value>(axis, Padding::kConstant, at);
        })) {}

  // The weights of taps [first, first + count), counted from taps.first.
  void weights(int32_t first, int count, float* weight) const {
    const int32_t tap = taps.first + first;
    with_filter(mode, [&](auto own) {
      for (int k = 0; k < count; ++k) {
        weight[k] = filter_tap<own.value>(taps, tap + k) * taps.norm;
      }
    });
  }
};

// sum[e] = sum over rows of weight x element e, for n elements; rows are `row_stride` elements
// apart.
using RowFilter = void(const void* rows, int64_t row_stride, const RowTaps& row_taps, int64_t n,
                       float* sum);

template <class T>
void filter_rows(const void* rows, int64_t row_stride, const RowTaps& row_taps, int64_t n,
                 float* sum) {
  constexpr int kMost = 32, kWidth = Floats::kWidth;
  const FilterTaps<float>& taps = row_taps.taps;
  for (int32_t k0 = 0; k0 < taps.count; k0 += kMost) {
    const int count = taps.count - k0 < kMost ? taps.count - k0 : kMost;
    float weight[kMost];
    row_taps.weights(k0, count, weight);
    const T* first = static_cast<const T*>(rows) + k0 * row_stride;
    const bool fresh = k0 == 0;
    const auto block = [&](int64_t e) {
      Floats v[4];
      for (int u = 0; u < 4; ++u) v[u] = fresh ? Floats(0.0f) : Floats::load(sum + e + u * kWidth);
      const T* row = first + e;
      for (int k = 0; k < count; ++k, row += row_stride) {
        const Floats w(weight[k]);
        for (int u = 0; u < 4; ++u) v[u] = v[u] + w * load_floats(row + u * kWidth);
      }
      for (int u = 0; u < 4; ++u) v[u].store(sum + e + u * kWidth);
    };
    int64_t e = 0;
    for (; e + 4 * kWidth <= n; e += 4 * kWidth) block(e);
    if (e < n && n >= 4 * kWidth && taps.count <= kMost) {
      block(n - 4 * kWidth);  // the last block overlaps the previous one, and finds the same sums
      return;
    }
    for (; e < n; ++e) {
      float v = fresh ? 0.0f : sum[e];
      const T* row = first + e;
      for (int k = 0; k < count; ++k, row += row_stride) v = v + weight[k] * load_element(row);
      sum[e] = v;
    }
  }
}

// Four planes of n elements, `stride` apart, to pixels of four.
inline void interleave(const float* planes, int64_t stride, int64_t channels, int64_t n,
                       float* pixels) {
  const auto plane = [=](int64_t c) { return planes + (c < channels ? c : 0) * stride; };
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    Quad q[4] = {Quad::load(plane(0) + i), Quad::load(plane(1) + i), Quad::load(plane(2) + i),
                 Quad::load(plane(3) + i)};
    transpose(q);
    for (int l = 0; l < 4; ++l) q[l].store(pixels + 4 * (i + l));
  }
  for (; i < n; ++i) {
    for (int64_t c = 0; c < 4; ++c) pixels[4 * i + c] = plane(c)[i];
  }
}

// kWidth columns from `i` on, with `Taps` taps each (0: chunk.uniform).
template <int Taps, bool kFinite>
VISOPS_ALWAYS_INLINE void filter_uniform(const ResizeChunk& chunk, const float* pixels, int step,
                                         int i, Planes& planes) {
  const int taps = Taps > 0 ? Taps : chunk.uniform;
  const float* weight = chunk.spread + i * 4 * taps;
  Floats sum[4];
  VISOPS_UNROLL
  for (int r = 0; r < 4; ++r, weight += taps * Floats::kWidth) {
    int32_t offset[kQuads];
    for (int k = 0; k < kQuads; ++k) offset[k] = chunk.first[i + 4 * k + r] * step;
    Floats v(0.0f);
    VISOPS_UNROLL
    for (int j = 0; j < taps; ++j) {
      const Floats w = Floats::load(weight + j * Floats::kWidth);
      const Floats x = load_quads(pixels + j * step, offset);
      v = v + (kFinite ? w * x : multiply_unless_nan(w, x));
    }
    sum[r] = v;
  }
  transpose_groups(sum);
  for (int c = 0; c < kGroup; ++c) sum[c].store(planes.v[c] + i);
}

template <int Taps, bool kFinite = true>
void filter_uniform_columns(const ResizeChunk& chunk, const float* pixels, int step,
                            Planes& planes) {
  for (int i = 0; i < chunk.count; i += Floats::kWidth) {
    filter_uniform<Taps, kFinite>(chunk, pixels, step, i, planes);
  }
}

// Pixels of `step` floats (3 or 4) to planes. Four floats must be readable at every pixel.
inline void filter_columns(const ResizeChunk& chunk, const float* pixels, int step,
                           Planes& planes) {
  if (!chunk.finite && chunk.uniform > 0) {
    return filter_uniform_columns<0, false>(chunk, pixels, step, planes);
  }
  switch (chunk.uniform) {
    case 0: break;
    case 3: return filter_uniform_columns<3>(chunk, pixels, step, planes);
    case 4: return filter_uniform_columns<4>(chunk, pixels, step, planes);
    case 5: return filter_uniform_columns<5>(chunk, pixels, step, planes);
    case 6: return filter_uniform_columns<6>(chunk, pixels, step, planes);
    case 7: return filter_uniform_columns<7>(chunk, pixels, step, planes);
    default: return filter_uniform_columns<0>(chunk, pixels, step, planes);
  }
  for (int i = 0; i < chunk.count; i += 4) {
    Quad q[4];
    for (int l = 0; l < 4; ++l) {
      q[l] = Quad(0.0f);
      if (i + l >= chunk.count) continue;
      const float* tap = pixels + chunk.first[i + l] * step;
      const float* weight = chunk.weight + (i + l) * chunk.stride;
      for (int j = 0; j < chunk.taps[i + l]; ++j) {
        q[l] = q[l] + Quad(weight[j]) * Quad::load(tap + j * step);
      }
    }
    transpose(q);
    for (int c = 0; c < kGroup; ++c) q[c].store(planes.v[c] + i);
  }
}

constexpr int kChunks = 2;  // resized together, row by row, so that an image is walked once

struct ResizeBuffers {
  ResizeChunk chunks[kChunks];
  AugmentLanes lanes;
  Planes planes;
  alignas(64) float rows[kBufferFloats + kMaxWidth];
  alignas(64) float pixels[kBufferFloats + kMaxWidth];
};

inline bool is_interleaved(const AugmentParams& p, const AugmentImage& image) {
  return (p.channels == 3 || p.channels == 4) && image.channel_stride == 1 &&
         image.column_stride == p.channels;
}

// Whether all distances between coordinates along an axis, `count` steps from its first one, and
// the window are whole floats: else taps lie beyond it.
inline bool has_exact_taps(double step, double first, int64_t count, int64_t size) {
  constexpr double kExact = 8388608.0;  // 2^23
  const double reach = std::fabs(first) + std::fabs(step) * static_cast<double>(count);
  return reach + static_cast<double>(size) < kExact;
}

// Whether augment_resized() can do the sample.
inline bool is_resize(const AugmentParams& p, const AugmentSample& s) {
  const double* m = s.map.m;
  const bool aligned = !s.map.perspective && m[1] == 0.0 && m[3] == 0.0;
  SegmentAxis<float> axis;
  set_axis_widths(s, s.x, s.map.width_x, &axis);
  return aligned && s.antialias && !s.is_fill && p.padding == Padding::kConstant &&
         2.0 * std::ceil(static_cast<double>(axis.radius)) <= kMostTaps &&
         has_exact_taps(m[0], m[2], p.output_width + kSegment, s.image.width) &&
         has_exact_taps(m[4], m[5], p.output_height, s.image.height) &&
         (s.image.column_stride == 1 || is_interleaved(p, s.image));
}

// Samples channels [first, first + channels) of one row of a chunk into planes.
inline void resize_row(const SegmentAt& at, const ResizeChunk& chunk, RowFilter* filter_rows,
                       int64_t first, int64_t channels, ResizeBuffers& buffers, Planes& planes) {
  const AugmentSample& s = at.s;
  const RowTaps y(s.mode, at.axes.y, at.segment.fy);
  const int64_t n = chunk.high - chunk.low;
  const AugmentImage& image = s.image;
  const int64_t size = element_size(at.p.dtype);
  const char* data =
      static_cast<const char*>(image.data) +
      (first * image.channel_stride + (at.segment.y + y.taps.first) * image.row_stride +
       (chunk.origin + chunk.low) * image.column_stride) *
          size;
  if (is_interleaved(at.p, image)) {
    filter_rows(data, image.row_stride, y, n * channels, buffers.rows);
    filter_columns(chunk, buffers.rows, static_cast<int>(channels), planes);
  } else {
    for (int64_t c = 0; c < channels; ++c) {
      filter_rows(data + c * image.channel_stride * size, image.row_stride, y, n,
                  buffers.rows + c * n);
    }
    interleave(buffers.rows, n, channels, n, buffers.pixels);
    filter_columns(chunk, buffers.pixels, 4, planes);
  }
}

}  // namespace
}  // namespace visops
