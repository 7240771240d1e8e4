// Sums of RoIAlign over one row of a map: NOTE [ RoIAlign on the CPU ].
#pragma once

#include "core/roi/tables.h"
#include "cpu/roi/read_ahead.h"

namespace visops {
namespace {

constexpr int kLanes = 64;     // channels summed in registers
constexpr int kFewLanes = 16;  // ... of the last ones

// Entries of `rows` from `first` to `last` that have one row of pixels.
struct RowEntries {
  int64_t first, last;
};

template <class Acc>
VISOPS_ALWAYS_INLINE RowEntries entries_from(const RoiTable<Acc>& table, int64_t first) {
  RowEntries entries = {first, first + 1};
  while (entries.last < table.row_count &&
         table.rows[entries.last].pixel == table.rows[first].pixel) {
    ++entries.last;
  }
  return entries;
}

// f(N, first channel, channels) over all channels, N being a constant, or 0 for fewer than
// four.
template <class F>
VISOPS_ALWAYS_INLINE void for_each_lanes(int64_t channels, const F& f) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) {
    f(std::integral_constant<int, kLanes>(), c, static_cast<int64_t>(kLanes));
  }
  if (c + kLanes / 2 <= channels) {
    f(std::integral_constant<int, kLanes / 2>(), c, static_cast<int64_t>(kLanes / 2));
    c += kLanes / 2;
  }
  for (; c + kFewLanes <= channels; c += kFewLanes) {
    f(std::integral_constant<int, kFewLanes>(), c, static_cast<int64_t>(kFewLanes));
  }
  for (; c + 4 <= channels; c += 4) f(std::integral_constant<int, 4>(), c, int64_t{4});
  if (c < channels) f(std::integral_constant<int, 0>(), c, channels - c);
}

// Where bins lie for a block of channels: bin b's are at b * bin_stride.
template <class Acc>
struct BinLanes {
  Acc* data;
  int64_t stride, per_row;
};

// Adds a row of pixels, whose column 0 is at `row`, to the bins that read it. The next one will be
// `next_row` elements further on; 0: not known.
template <int N, class Acc>
VISOPS_ALWAYS_INLINE void pool_row(const RoiTable<Acc>& table, RowEntries entries, const Acc* row,
                                   int64_t next_row, int64_t pixel_stride, int64_t channels,
                                   BinLanes<Acc> bins) {
  constexpr int kMost = N == 0 ? 4 : N;
  const int64_t n = N == 0 ? channels : N;
  int64_t at = 0;
  for (int64_t b = 0; b < bins.per_row; ++b) {
    Acc sum[kMost] = {};
    for (; at < table.column_end[b]; ++at) {
      const Acc weight = table.columns[at].weight;
      const Acc* VISOPS_RESTRICT pixel = row + table.columns[at].pixel * pixel_stride;
      if (next_row != 0) read_ahead(pixel + next_row, n);
      for (int64_t c = 0; c < n; ++c) sum[c] += weight * pixel[c];
    }
    for (int64_t r = entries.first; r < entries.last; ++r) {
      const Acc weight = table.rows[r].weight;
      Acc* VISOPS_RESTRICT bin = bins.data + (table.rows[r].bin * bins.per_row + b) * bins.stride;
      for (int64_t c = 0; c < n; ++c) bin[c] += weight * sum[c];
    }
  }
}

// The way back: adds the bins' gradient to that of a row of pixels.
template <int N, class Acc>
VISOPS_ALWAYS_INLINE void spread_row(const RoiTable<Acc>& table, RowEntries entries, Acc* row,
                                     int64_t next_row, int64_t pixel_stride, int64_t channels,
                                     BinLanes<Acc> bins) {
  constexpr int kMost = N == 0 ? 4 : N;
  const int64_t n = N == 0 ? channels : N;
  int64_t at = 0;
  for (int64_t b = 0; b < bins.per_row; ++b) {
    Acc sum[kMost] = {};
    for (int64_t r = entries.first; r < entries.last; ++r) {
      const Acc weight = table.rows[r].weight;
      const Acc* VISOPS_RESTRICT bin =
          bins.data + (table.rows[r].bin * bins.per_row + b) * bins.stride;
      for (int64_t c = 0; c < n; ++c) sum[c] += weight * bin[c];
    }
    for (; at < table.column_end[b]; ++at) {
      const Acc weight = table.columns[at].weight;
      Acc* VISOPS_RESTRICT pixel = row + table.columns[at].pixel * pixel_stride;
      if (next_row != 0) read_ahead(pixel + next_row, n);
      for (int64_t c = 0; c < n; ++c) pixel[c] += weight * sum[c];
    }
  }
}

}  // namespace
}  // namespace visops
