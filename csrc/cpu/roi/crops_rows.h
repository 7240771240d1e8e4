// Samples a row at a time: for crops of images, and for patches being pasted.
//
// NOTE [ Sampled rows ]
// All samples of a row have the same taps along y. So the rows with these taps are blended first,
// over all columns that the row needs, in vectors along memory; then every place blends its few
// columns of the result. This is the order of NOTE [ One pixel ] (core/images/pixel.h), so the bits
// are those of the scalar code. Columns are taken kRowColumns at a time. Columns beyond the border
// get positions of their own next to the image's (`index_`), so that a place's taps are always
// adjacent. If too many columns are needed (when shrinking by a lot), pixels are sampled one by
// one.
#pragma once

#include <type_traits>

#include "core/roi/crops.h"
#include "cpu/simd/floats.h"

namespace visops {
namespace {

constexpr int kRowColumns = 256;  // most patches' rows are one piece: memory likes long runs
constexpr int kRowBuffer = 8192;  // elements blended along y for them

template <class T>
constexpr bool kHasVectorLoad = std::is_same<T, uint8_t>::value || std::is_same<T, float>::value ||
                                std::is_same<T, Half>::value || std::is_same<T, BFloat16>::value;

// [height, width] of `elements` channels that are `channel` apart.
template <class T>
struct SampledPlane {
  const T* data;
  int64_t row, column, channel;
  const double* fill;  // of its first channel
  int64_t fill_step;   // to the next channel's
};

// Where the columns of a row are sampled, and their blend along x: alike for all types of elements
// that are computed in Acc.
template <Interpolation mode, class Acc>
class RowColumns {
 public:
  // As RowSampler::set_columns().
  void set(const GridAxis& axis, Span columns, Padding padding, int64_t width, int elements) {
    count_ = static_cast<int>(columns.end - columns.begin);
    elements_ = elements;
    touching_ = {0, 0};
    int64_t first = 0, last = -1;
    for (int j = 0; j < count_; ++j) {
      const auto sample = grid_sample<mode, Acc>(axis, columns.begin + j);
      taps_[j] = axis_taps<mode>(sample, padding, width);
      if (!taps_[j].outside()) {
        if (touching_.begin == touching_.end) {
          touching_.begin = j;
          first = sample.tap + first_tap(mode);
        }
        touching_.end = j + 1;
        last = sample.tap + first_tap(mode) + kTaps - 1;
      }
      at_[j] = sample.tap + first_tap(mode);
    }
    positions_ = last - first + 1;
    is_dense_ = mode != Interpolation::kNearest && positions_ * elements <= kRowBuffer;
    if (!is_dense_) return;
    for (int64_t i = 0; i < positions_; ++i) {
      index_[i] = static_cast<int32_t>(pad_index(padding, first + i, width));
    }
    inside_ = intersect({first, last + 1}, {0, width});
    inside_ = {inside_.begin - first, inside_.end - first};
    first_ = first;
    for (int64_t j = touching_.begin; j < touching_.end; ++j) {
      offset_[j] = static_cast<int32_t>((at_[j] - first) * elements);
      byte_offset_[j] = offset_[j] * int32_t{sizeof(float)};
      if constexpr (mode == Interpolation::kBilinear) {
        weight_[0][j] = taps_[j].t;
      } else {
        for (int i = 0; i < kTaps; ++i) weight_[i][j] = taps_[j].weight[i];
      }
    }
  }

  // The blend along x of v[position, element]; is_dense_ only.
  VISOPS_ALWAYS_INLINE void blend(const Acc* VISOPS_RESTRICT v, Acc* VISOPS_RESTRICT result) const {
    switch (elements_) {
      case 1: return blend_columns<1>(v, result);
      case 3: return blend_columns<3>(v, result);
      case 4: return blend_columns<4>(v, result);
      default: return blend_columns<0>(v, result);
    }
  }

 private:
  template <class, Interpolation>
  friend class RowSampler;
  static constexpr int kTaps = tap_count(mode);

  template <int Elements>
  VISOPS_ALWAYS_INLINE void blend_columns(const Acc* VISOPS_RESTRICT v,
                                          Acc* VISOPS_RESTRICT result) const {
    const int elements = Elements > 0 ? Elements : elements_;
    int64_t j = touching_.begin;
    if constexpr (std::is_same<Acc, float>::value && Elements == 1) {
      j = blend_pairs(v, result);
    } else if constexpr (std::is_same<Acc, float>::value && Elements > 1) {
      j = blend_quads<Elements>(v, result);
    }
    for (; j < touching_.end; ++j) {
      const Acc* p = v + offset_[j];
      for (int e = 0; e < elements; ++e) {
        if constexpr (mode == Interpolation::kBilinear) {
          result[j * elements + e] = p[e] + weight_[0][j] * (p[elements + e] - p[e]);
        } else {
          const Acc w[4] = {weight_[0][j], weight_[1][j], weight_[2][j], weight_[3][j]};
          result[j * elements + e] =
              weighted_sum(w, p[e], p[elements + e], p[2 * elements + e], p[3 * elements + e]);
        }
      }
    }
  }

  // Pixels of three or four channels; returns where they end. Of three, four are stored, the fourth
  // over the next pixel, which comes later: the last pixel is left. Not inlined: among its callers'
  // variables the loop would have no registers left.
  template <int Elements>
  VISOPS_NOINLINE int64_t blend_quads(const float* VISOPS_RESTRICT v,
                                      float* VISOPS_RESTRICT result) const {
    const int64_t end = Elements == 4 ? touching_.end : touching_.end - 1;
    int64_t j = touching_.begin;
    VISOPS_UNROLL
    for (; j < end; ++j) {
      const float* p = v + offset_[j];
      const Quad first = Quad::load(p);
      if constexpr (mode == Interpolation::kBilinear) {
        (first + Quad(weight_[0][j]) * (Quad::load(p + Elements) - first))
            .store(result + j * Elements);
      } else {
        Quad sum = Quad(weight_[0][j]) * first;
        for (int i = 1; i < 4; ++i) {
          sum = sum + Quad(weight_[i][j]) * Quad::load(p + i * Elements);
        }
        sum.store(result + j * Elements);
      }
    }
    return j;
  }

  // Runs of whole vectors of one channel's columns; returns where they end.
  int64_t blend_pairs(const float* VISOPS_RESTRICT v, float* VISOPS_RESTRICT result) const {
    constexpr int kWidth = Floats::kWidth;
    int64_t j = touching_.begin;
    for (; j + kWidth <= touching_.end; j += kWidth) {
      const int32_t* bytes = byte_offset_ + j;
      const char* base = reinterpret_cast<const char*>(v);
      if constexpr (mode == Interpolation::kBilinear) {
        PixelPairs pairs[1];
        load_pairs({base}, bytes, pairs);
        const FloatPairs p = channel_pairs<float, 1, 0>(pairs[0]);
        const Floats left = first_of_pairs(p);
        (left + Floats::load(weight_[0] + j) * (second_of_pairs(p) - left)).store(result + j);
      } else {
        PixelPairs pairs[2];
        load_pairs({base, base + 2 * sizeof(float)}, bytes, pairs);
        const FloatPairs a = channel_pairs<float, 1, 0>(pairs[0]);
        const FloatPairs b = channel_pairs<float, 1, 0>(pairs[1]);
        const Floats sum = ((Floats::load(weight_[0] + j) * first_of_pairs(a) +
                             Floats::load(weight_[1] + j) * second_of_pairs(a)) +
                            Floats::load(weight_[2] + j) * first_of_pairs(b)) +
                           Floats::load(weight_[3] + j) * second_of_pairs(b);
        sum.store(result + j);
      }
    }
    return j;
  }

  int count_ = 0, elements_ = 1;
  Span touching_ = {0, 0};
  bool is_dense_ = false;
  int64_t first_ = 0, positions_ = 0;
  Span inside_ = {0, 0};  // positions that are columns of the image
  int64_t at_[kRowColumns];
  AxisTaps<mode, Acc> taps_[kRowColumns];
  int32_t index_[kRowBuffer];
  alignas(64) int32_t offset_[kRowColumns];
  alignas(64) int32_t byte_offset_[kRowColumns];
  alignas(64) Acc weight_[kTaps][kRowColumns];
};

template <class T, Interpolation mode>
class RowSampler {
 public:
  using Acc = typename Accumulate<T>::type;
  static constexpr int kTaps = tap_count(mode);
  using RowTaps = AxisTaps<mode, Acc>;

  // At most kRowColumns columns; result[(j - columns.begin) * elements + e].
  void set_columns(const GridAxis& axis, Span columns, Padding padding, int64_t width,
                   int elements) {
    columns_.set(axis, columns, padding, width, elements);
  }

  // Columns that have a tap in the image; the others' results are left as they are.
  Span touching() const { return columns_.touching_; }

  // y must not be outside().
  void sample(const SampledPlane<T>& plane, const RowTaps& y, Acc* VISOPS_RESTRICT result) const {
    if (columns_.touching_.begin == columns_.touching_.end) return;
    if constexpr (mode != Interpolation::kNearest) {
      if (columns_.is_dense_) {
        alignas(64) Acc v[kRowBuffer + 4];  // quads of three reach beyond
        blend_rows(plane, y, v);
        return columns_.blend(v, result);
      }
    }
    const Strides stride = {0, plane.channel, plane.row, plane.column};
    for (int64_t j = columns_.touching_.begin; j < columns_.touching_.end; ++j) {
      const PixelTaps<mode, Acc> taps = {y, columns_.taps_[j]};
      for (int e = 0; e < columns_.elements_; ++e) {
        result[j * columns_.elements_ + e] =
            taken(plane.data + e * plane.channel, stride, taps, fill_of(plane, e));
      }
    }
  }

 private:
  static Acc fill_of(const SampledPlane<T>& plane, int64_t e) {
    return static_cast<Acc>(plane.fill[e * plane.fill_step]);
  }

  // Blends one column along y.
  VISOPS_ALWAYS_INLINE static Acc blend_column(const Acc (&p)[kTaps], const RowTaps& y) {
    if constexpr (mode == Interpolation::kBilinear) {
      return p[0] + y.t * (p[1] - p[0]);
    } else {
      return weighted_sum(y.weight, p[0], p[1], p[2], p[3]);
    }
  }

  static Acc border_column(const SampledPlane<T>& plane, const RowTaps& y, int64_t index, int e) {
    Acc p[kTaps];
    for (int i = 0; i < kTaps; ++i) {
      p[i] = index < 0 || y.index[i] < 0 ? fill_of(plane, e)
                                         : load_element(plane.data + y.index[i] * plane.row +
                                                        index * plane.column + e * plane.channel);
    }
    return blend_column(p, y);
  }

  void blend_border(const SampledPlane<T>& plane, const RowTaps& y, int64_t begin, int64_t end,
                    Acc* v) const {
    for (int64_t i = begin; i < end; ++i) {
      for (int e = 0; e < columns_.elements_; ++e) {
        v[i * columns_.elements_ + e] = border_column(plane, y, columns_.index_[i], e);
      }
    }
  }

  // v[position, element]
  void blend_rows(const SampledPlane<T>& plane, const RowTaps& y, Acc* VISOPS_RESTRICT v) const {
    const bool is_adjacent =
        plane.column == columns_.elements_ && (columns_.elements_ == 1 || plane.channel == 1);
    bool is_inside = is_adjacent && columns_.inside_.begin < columns_.inside_.end;
    for (int i = 0; i < kTaps; ++i) is_inside = is_inside && y.index[i] >= 0;
    if (!is_inside) return blend_border(plane, y, 0, columns_.positions_, v);
    blend_border(plane, y, 0, columns_.inside_.begin, v);
    blend_border(plane, y, columns_.inside_.end, columns_.positions_, v);
    const T* row[kTaps];
    for (int i = 0; i < kTaps; ++i) {
      row[i] = plane.data + y.index[i] * plane.row +
               (columns_.first_ + columns_.inside_.begin) * columns_.elements_;
    }
    blend_run(row, y, (columns_.inside_.end - columns_.inside_.begin) * columns_.elements_,
              v + columns_.inside_.begin * columns_.elements_);
  }

  static void blend_run(const T* const (&row)[kTaps], const RowTaps& y, int64_t n,
                        Acc* VISOPS_RESTRICT v) {
    int64_t e = 0;
    if constexpr (kHasVectorLoad<T>) {
      constexpr int kWidth = Floats::kWidth;
      for (; e + kWidth <= n; e += kWidth) {
        Floats p[kTaps];
        for (int i = 0; i < kTaps; ++i) p[i] = load_floats(row[i] + e);
        if constexpr (mode == Interpolation::kBilinear) {
          (p[0] + Floats(y.t) * (p[1] - p[0])).store(v + e);
        } else {
          Floats sum = Floats(y.weight[0]) * p[0];
          for (int i = 1; i < kTaps; ++i) sum = sum + Floats(y.weight[i]) * p[i];
          sum.store(v + e);
        }
      }
    }
    for (; e < n; ++e) {
      Acc p[kTaps];
      for (int i = 0; i < kTaps; ++i) p[i] = load_element(row[i] + e);
      v[e] = blend_column(p, y);
    }
  }

  RowColumns<mode, Acc> columns_;
};

// Loads adjacent elements.
template <class T, class Acc>
void load_run(const T* VISOPS_RESTRICT from, int64_t n, Acc* VISOPS_RESTRICT v) {
  int64_t e = 0;
  if constexpr (kHasVectorLoad<T>) {
    for (; e + Floats::kWidth <= n; e += Floats::kWidth) load_floats(from + e).store(v + e);
  }
  for (; e < n; ++e) v[e] = load_element(from + e);
}

// Stores adjacent elements, rounded.
template <class T, class Acc>
void store_run(T* VISOPS_RESTRICT out, const Acc* VISOPS_RESTRICT v, int64_t n) {
  int64_t e = 0;
  if constexpr (std::is_same<Acc, float>::value) {
    constexpr int kWidth = Floats::kWidth;
    for (; e + kWidth <= n; e += kWidth) {
      const Floats run[1] = {Floats::load(v + e)};
      store_pixels(out + e, run);
    }
  }
  for (; e < n; ++e) store_element(out + e, v[e]);
}

// Stores v[pixel, element] to pixels `column` apart.
template <class T, class Acc>
void store_row(T* out, int64_t column, int64_t channel, const Acc* v, int64_t pixels,
               int elements) {
  if (column == elements && (elements == 1 || channel == 1)) {
    return store_run(out, v, pixels * elements);
  }
  for (int64_t j = 0; j < pixels; ++j) {
    for (int e = 0; e < elements; ++e) {
      store_element(out + j * column + e * channel, v[j * elements + e]);
    }
  }
}

// How many channels are sampled together: a pixel's, if they are adjacent in both tensors, else
// one.
inline int channels_together(int64_t channels, const Strides& from, const Strides& to) {
  const bool is_adjacent =
      from.channel == 1 && from.column == channels && to.channel == 1 && to.column == channels;
  return is_adjacent && channels > 1 && channels <= 4 ? static_cast<int>(channels) : 1;
}

// NOTE [ Transposed samples on the CPU ]
// A task owns rows of the gradient and adds each box's share to them. Each row of the box's grid
// with a tap in the owned rows is summed along x into a buffer, and that sum, times the row's
// weight, is added. Every element is written by one task and gets its terms in the order of NOTE [
// Transposed samples ] (core/roi/crops.h), whatever the number of threads.

constexpr int64_t kTargetColumns = 512;   // summed at a time
constexpr int64_t kMostPositions = 1024;  // of the grid, whose taps are kept

// The gradient of one image or patch: [channels, height, width].
template <class Acc>
struct TransposeTarget {
  Acc* data;
  int64_t channels, height, width;
  int64_t channel_stride, row_stride, column_stride;
};

// A span of the grid that holds all places with a tap in `indices`.
template <Interpolation mode>
Span positions_of_span(const GridAxis& axis, Span grid, Padding padding, int64_t size,
                       Span indices) {
  const Span first = grid_positions<mode>(axis, grid, padding, size, indices.begin);
  const Span last = grid_positions<mode>(axis, grid, padding, size, indices.end - 1);
  const int64_t begin = first.begin < first.end ? first.begin : grid.begin;
  return {begin, last.begin < last.end ? last.end : grid.end};
}

template <Interpolation mode, class Acc>
struct PositionTaps {
  Span positions = {0, 0};
  AxisTaps<mode, Acc> taps[kMostPositions];

  void set(const GridAxis& axis, Padding padding, int64_t size, Span span) {
    if (span.begin == positions.begin && span.end == positions.end) return;
    positions = span;
    for (int64_t j = span.begin; j < span.end; ++j) {
      taps[j - span.begin] = grid_taps<mode, Acc>(axis, j, padding, size);
    }
  }
};

// `values` has prepare(i, columns), called before at(channel, i, j) for those columns of row i.
template <Interpolation mode, class Acc, class Values>
void add_transposed(const CropMap& map, Padding padding, const TransposeTarget<Acc>& target,
                    Span owned, Values& values) {
  constexpr int kTaps = tap_count(mode);
  const Span rows = positions_of_span<mode>(map.y, map.rows, padding, target.height, owned);
  PositionTaps<mode, Acc> table;
  for (int64_t x0 = map.reach_x.begin; x0 < map.reach_x.end; x0 += kTargetColumns) {
    const Span columns = intersect(map.reach_x, {x0, x0 + kTargetColumns});
    const Span positions =
        positions_of_span<mode>(map.x, map.columns, padding, target.width, columns);
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      const auto y = grid_taps<mode, Acc>(map.y, i, padding, target.height);
      bool is_owned = false;
      for (int r = 0; r < kTaps; ++r) is_owned = is_owned || contains(owned, y.index[r]);
      if (!is_owned) continue;
      for (int64_t c = 0; c < target.channels; ++c) {
        Acc sum[kTargetColumns] = {};
        for (int64_t j0 = positions.begin; j0 < positions.end; j0 += kMostPositions) {
          const Span part = intersect(positions, {j0, j0 + kMostPositions});
          table.set(map.x, padding, target.width, part);
          if (c == 0 || part.end - part.begin < positions.end - positions.begin)
            values.prepare(i, part);
          for (int64_t j = part.begin; j < part.end; ++j) {
            const AxisTaps<mode, Acc>& x = table.taps[j - part.begin];
            const Acc value = values.at(c, i, j);
            for (int t = 0; t < kTaps; ++t) {
              if (contains(columns, x.index[t])) {
                sum[x.index[t] - columns.begin] += x.weight[t] * value;
              }
            }
          }
        }
        for (int r = 0; r < kTaps; ++r) {
          if (!contains(owned, y.index[r])) continue;
          Acc* to = target.data + c * target.channel_stride + y.index[r] * target.row_stride +
                    columns.begin * target.column_stride;
          const Acc weight = y.weight[r];
          const int64_t count = columns.end - columns.begin;
          if (target.column_stride == 1) {
            for (int64_t x = 0; x < count; ++x) to[x] += weight * sum[x];
          } else {
            for (int64_t x = 0; x < count; ++x) to[x * target.column_stride] += weight * sum[x];
          }
        }
      }
    }
  }
}

template <class Acc>
void clear_rows(const TransposeTarget<Acc>& target, Span rows) {
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    for (int64_t c = 0; c < target.channels; ++c) {
      Acc* row = target.data + c * target.channel_stride + y * target.row_stride;
      for (int64_t x = 0; x < target.width; ++x) row[x * target.column_stride] = 0;
    }
  }
}

}  // namespace
}  // namespace visops
