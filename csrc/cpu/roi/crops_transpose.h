// NOTE [ Transposed samples on the CPU ]
// A task owns rows of the gradient and adds each box's share to them. Each row of the box's grid
// with a tap in the owned rows is summed along x into a buffer, and that sum, times the row's
// weight, is added. Every element is written by one task and gets its terms in the order of NOTE [
// Transposed samples ] (core/roi/crops.h), whatever the number of threads.
#pragma once

#include "core/roi/crops_pixel.h"

namespace visops {
namespace {

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
