// RoIAlign's sums over one row of a map: NOTE [ RoIAlign on the CPU ].
#pragma once

#include <type_traits>

#include "core/roi/gradient.h"
#include "core/roi/schedule.h"
#include "cpu/prefetch.h"
#include "cpu/simd/floats.h"

namespace visops {
namespace {

// Entries [first, last) of a table's rows, all of one row of pixels.
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

// f(N, first channel, channels) until all channels are done. N is the number of channels as a
// constant, or 0 for fewer than four.
template <class F>
VISOPS_ALWAYS_INLINE void for_channels(int64_t channels, const F& f) {
  constexpr int kMost = kSummedChannels, kHalf = kMost / 2, kFew = kFewSummedChannels;
  int64_t c = 0;
  for (; c + kMost <= channels; c += kMost) {
    f(std::integral_constant<int, kMost>(), c, static_cast<int64_t>(kMost));
  }
  if (c + kHalf <= channels) {
    f(std::integral_constant<int, kHalf>(), c, static_cast<int64_t>(kHalf));
    c += kHalf;
  }
  for (; c + kFew <= channels; c += kFew) {
    f(std::integral_constant<int, kFew>(), c, static_cast<int64_t>(kFew));
  }
  for (; c + 4 <= channels; c += 4) f(std::integral_constant<int, 4>(), c, int64_t{4});
  if (c < channels) f(std::integral_constant<int, 0>(), c, channels - c);
}

// The bins of a block of channels: bin b's channels are at data + b * stride.
template <class Acc>
struct BlockBins {
  Acc* data;
  int64_t stride, per_row;
};

// Weighted sums of N channels; 0: of up to four, as many as it is told.
template <int N, class Acc>
struct ChannelSums {
  Acc sum[N == 0 ? 4 : N] = {};
  int64_t count;

  VISOPS_ALWAYS_INLINE explicit ChannelSums(int64_t channels) : count(N == 0 ? channels : N) {}
  VISOPS_ALWAYS_INLINE void add(Acc weight, const Acc* VISOPS_RESTRICT from) {
    for (int64_t c = 0; c < count; ++c) sum[c] += weight * from[c];
  }
  VISOPS_ALWAYS_INLINE void add_to(Acc weight, Acc* VISOPS_RESTRICT to) const {
    for (int64_t c = 0; c < count; ++c) to[c] += weight * sum[c];
  }
};

// GCC leaves a loop over four numbers to single lanes.
template <>
struct ChannelSums<4, float> {
  Quad sum = Quad(0.0f);

  VISOPS_ALWAYS_INLINE explicit ChannelSums(int64_t) {}
  VISOPS_ALWAYS_INLINE void add(float weight, const float* from) {
    sum = sum + Quad(weight) * Quad::load(from);
  }
  VISOPS_ALWAYS_INLINE void add_to(float weight, float* to) const {
    (Quad::load(to) + Quad(weight) * sum).store(to);
  }
};

// Adds a row of pixels, whose column 0 is at `row`, to the bins that read it. The row to be read
// next is `next_row` elements further on; 0 if that is not known.
template <int N, class Acc>
VISOPS_ALWAYS_INLINE void pool_row(const RoiTable<Acc>& table, RowEntries entries, const Acc* row,
                                   int64_t next_row, int64_t pixel_stride, int64_t channels,
                                   BlockBins<Acc> bins) {
  int64_t at = 0;
  for (int64_t b = 0; b < bins.per_row; ++b) {
    ChannelSums<N, Acc> sums(channels);
    for (; at < table.column_end[b]; ++at) {
      const Acc* pixel = row + table.columns[at].pixel * pixel_stride;
      if (next_row != 0) prefetch(pixel + next_row, channels);
      sums.add(table.columns[at].weight, pixel);
    }
    for (int64_t r = entries.first; r < entries.last; ++r) {
      sums.add_to(table.rows[r].weight,
                  bins.data + (table.rows[r].bin * bins.per_row + b) * bins.stride);
    }
  }
}

// The transpose: adds the bins' gradient to that of a row of pixels.
template <int N, class Acc>
VISOPS_ALWAYS_INLINE void spread_row(const RoiTable<Acc>& table, RowEntries entries, Acc* row,
                                     int64_t next_row, int64_t pixel_stride, int64_t channels,
                                     BlockBins<Acc> bins) {
  int64_t at = 0;
  for (int64_t b = 0; b < bins.per_row; ++b) {
    ChannelSums<N, Acc> sums(channels);
    for (int64_t r = entries.first; r < entries.last; ++r) {
      sums.add(table.rows[r].weight,
               bins.data + (table.rows[r].bin * bins.per_row + b) * bins.stride);
    }
    for (; at < table.column_end[b]; ++at) {
      Acc* pixel = row + table.columns[at].pixel * pixel_stride;
      if (next_row != 0) prefetch(pixel + next_row, channels);
      sums.add_to(table.columns[at].weight, pixel);
    }
  }
}

// The entries of bins along one axis, listed once for all channels and all bins along the other.
//
// A Stream yields the entries of one bin: Stream(axis, ..., bin), then next(), which returns null
// after the last. BinLists holds the entries of as many bins as fit and yields them as a Cursor,
// which has the same next(). A bin that does not fit is rare (it has hundreds of pixels) and is
// read as a stream.

template <class Entry>
class Cursor {
 public:
  Cursor(const Entry* begin, const Entry* end) : at_(begin), end_(end) {}
  int64_t size() const { return end_ - at_; }
  VISOPS_ALWAYS_INLINE const Entry* next() { return at_ == end_ ? nullptr : at_++; }

 private:
  const Entry *at_, *end_;
};

template <class Stream>
class BinLists {
 public:
  using Entry = typename Stream::Entry;

  // Lists bins from `bin` on unless it is listed already; false if it does not fit.
  template <class... Arguments>
  bool has(int64_t bin, int64_t bins, const Arguments&... arguments) {
    if (bin >= first_ && bin < last_) return true;
    first_ = last_ = bin;
    ends_[0] = 0;
    while (last_ < bins && last_ - first_ < kBins && append(Stream(arguments..., last_))) ++last_;
    return last_ > first_;
  }

  // A listed bin's first entry, if any.
  const Entry* first(int64_t bin) const {
    return bin >= first_ && bin < last_ ? cursor(bin).next() : nullptr;
  }

  VISOPS_ALWAYS_INLINE Cursor<Entry> cursor(int64_t bin) const {
    return {entries_ + ends_[bin - first_], entries_ + ends_[bin - first_ + 1]};
  }

 private:
  static constexpr int64_t kBins = 128, kEntries = 512;

  bool append(Stream stream) {
    int32_t end = ends_[last_ - first_];
    for (const Entry* entry = stream.next(); entry != nullptr; entry = stream.next()) {
      if (end == kEntries) return false;
      entries_[end++] = *entry;
    }
    ends_[last_ - first_ + 1] = end;
    return true;
  }

  int64_t first_ = 0, last_ = 0;
  int32_t ends_[kBins + 1];
  Entry entries_[kEntries];
};

}  // namespace
}  // namespace visops
