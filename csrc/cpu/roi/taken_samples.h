// The samples that bins took for their maxima, by number (core/roi/max.h): where gradients go.
//
// Each channel of a bin takes a sample of its own, but there are few to choose from. If a bin has
// fewer samples than channels, what is needed of each sample (an Entry) is computed once and looked
// up.
#pragma once

#include "core/roi/max.h"

namespace visops {
namespace {

// The bins of one row of a box: the `index` of channel 0, and the channels first <= c < last.
struct TakenRow {
  const int64_t* index;
  int64_t channel_stride, column_stride, first, last, bin_y;
};

VISOPS_ALWAYS_INLINE TakenRow taken_row(const RoiAlignParams& p, int64_t k, int64_t bin_y,
                                        int64_t first, int64_t last) {
  return {p.index + k * p.index_roi_stride + bin_y * p.index_row_stride,
          p.index_channel_stride,
          p.index_column_stride,
          first,
          last,
          bin_y};
}

template <class Acc, class Entry>
class TakenSamples {
 public:
  explicit TakenSamples(const Roi<Acc>& roi) : roi_(roi) {}

  // f(channel, bin_x, entry), where entry is make(TakenSample<Acc>): over blocks of channels, bins,
  // and the block's channels, each by rising number. Before that, ahead(entry) is called for
  // entries that may come.
  template <class Make, class Ahead, class F>
  VISOPS_ALWAYS_INLINE void for_each(const TakenRow& row, const Make& make, const Ahead& ahead,
                                     const F& f) {
    list(row, make, ahead);
    for (int64_t block = row.first; block < row.last; block += kBlock) {
      const int64_t end = row.last - block < kBlock ? row.last : block + kBlock;
      for (int64_t bin_x = 0; bin_x < roi_.x.bins; ++bin_x) {
        const int64_t* number = row.index + bin_x * row.column_stride + block * row.channel_stride;
        const Entry* listed = entries_ + bin_x * listed_;
        for (int64_t c = block; c < end; ++c, number += row.channel_stride) {
          if (*number >= 0 && *number < listed_) {
            f(c, bin_x, listed[*number]);
          } else {
            f(c, bin_x, make(taken_sample(roi_, row.bin_y, bin_x, *number)));
          }
        }
      }
    }
  }

 private:
  static constexpr int64_t kBlock = 32;
  static constexpr int64_t kMost = 512;

  template <class Make, class Ahead>
  VISOPS_ALWAYS_INLINE void list(const TakenRow& row, const Make& make, const Ahead& ahead) {
    const int64_t samples =
        roi_.y.grid <= kMost && roi_.x.grid <= kMost ? roi_.y.grid * roi_.x.grid : kMost + 1;
    const bool fits = roi_.x.bins <= kMost && samples * roi_.x.bins <= kMost;
    listed_ = fits && samples <= row.last - row.first ? samples : 0;
    Entry* entry = entries_;
    for (int64_t bin_x = 0; listed_ > 0 && bin_x < roi_.x.bins; ++bin_x) {
      for (int64_t i = 0; i < listed_; ++i) {
        *entry = make(taken_sample(roi_, row.bin_y, bin_x, i));
        ahead(*entry++);
      }
    }
  }

  const Roi<Acc>& roi_;
  int64_t listed_ = 0;  // samples of each bin in entries_
  Entry entries_[kMost];
};

}  // namespace
}  // namespace visops
