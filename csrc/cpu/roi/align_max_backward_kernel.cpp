// NOTE [ Gradients of RoIAlign maxima on the CPU ]
// A bin has one sample per channel, whose number is in `index`
// (cpu/roi/align_max_backward_kernel.cpp). The map's gradient is split by channels and maps, as for
// means (NOTE [ Bands of gradients ]); the boxes' gradient, and the samples themselves, by boxes.
// No sum is split.
//
// Rounding: NOTE [ RoIAlign maxima ] (core/roi/pool.h), without contraction.
#include "core/roi/pool.h"
#include "cpu/prefetch.h"
#include "cpu/roi/bands.h"
#include "cpu/roi/channels.h"

namespace visops {
namespace {

// The samples that bins took for their maxima, by number (core/roi/pool.h): where gradients go.
//
// Each channel of a bin takes a sample of its own, but there are few to choose from. If a bin has
// fewer samples than channels, what is needed of each sample (an Entry) is computed once and looked
// up.

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

// A sample on a map: where its pixels lie, in the order of sample_value().
template <class Acc>
struct LocatedSample {
  TakenSample<Acc> sample;
  int64_t offset[4];
};

template <class Acc>
VISOPS_ALWAYS_INLINE LocatedSample<Acc> placed(const RoiMap& map, const TakenSample<Acc>& s) {
  const int64_t low = s.y.low * map.row_stride, high = s.y.high * map.row_stride;
  const int64_t left = s.x.low * map.column_stride, right = s.x.high * map.column_stride;
  return {s, {low + left, low + right, high + left, high + right}};
}

// f(channel, the channel's image, the bin's element, bin_x, placed sample) for a whole row of bins.
template <class T, class Acc, class F>
VISOPS_ALWAYS_INLINE void for_each_placed(const RoiAlignParams& p, int64_t k, int64_t bin_y,
                                          const Roi<Acc>& roi,
                                          TakenSamples<Acc, LocatedSample<Acc>>& samples,
                                          const F& f) {
  const RoiMap& map = p.maps[roi.level];
  const T* image = map_pixel<const T>(map, roi.image, 0, 0, 0);
  T* bins = static_cast<T*>(p.bins) + k * p.roi_stride + bin_y * p.bin_row_stride;
  samples.for_each(
      taken_row(p, k, bin_y, 0, p.channels),
      [&](const TakenSample<Acc>& s) { return placed(map, s); },
      [&](const LocatedSample<Acc>& s) {
        if (map.channel_stride != 1) return;
        for (const int64_t offset : s.offset) prefetch(image + offset, p.channels);
      },
      [&](int64_t c, int64_t bin_x, const LocatedSample<Acc>& s) {
        f(c, image + c * map.channel_stride,
          bins + c * p.channel_stride + bin_x * p.bin_column_stride, bin_x, s);
      });
}

template <class T, class Acc>
void samples_of_box(const RoiAlignParams& p, int64_t k) {
  const Roi<Acc> roi = load_roi<Acc>(p, k);
  TakenSamples<Acc, LocatedSample<Acc>> samples(roi);
  for (int64_t bin_y = 0; bin_y < p.bins_y; ++bin_y) {
    for_each_placed<T>(p, k, bin_y, roi, samples,
                       [](int64_t, const T* image, T* bin, int64_t, const LocatedSample<Acc>& at) {
                         const TakenSample<Acc>& s = at.sample;
                         Acc value = static_cast<Acc>(0);
                         if (s.is_on_map) {
                           value = sample_value(s.y, s.x, load_element(image + at.offset[0]),
                                                load_element(image + at.offset[1]),
                                                load_element(image + at.offset[2]),
                                                load_element(image + at.offset[3]));
                         }
                         store_element(bin, value);
                       });
  }
}

template <class T, class Acc>
void gradient_of_box(const RoiAlignParams& p, int64_t k) {
  const Roi<Acc> roi = load_roi<Acc>(p, k);
  const bool y2_moves = end_moves(roi.y, p.aligned), x2_moves = end_moves(roi.x, p.aligned);
  TakenSamples<Acc, LocatedSample<Acc>> samples(roi);
  BoxLanes<Acc> total = {};
  for (int64_t bin_y = 0; bin_y < p.bins_y; ++bin_y) {
    BoxLanes<Acc> row = {};
    for_each_placed<T>(
        p, k, bin_y, roi, samples,
        [&](int64_t c, const T* image, const T* bin, int64_t bin_x, const LocatedSample<Acc>& at) {
          const TakenSample<Acc>& s = at.sample;
          if (!s.is_on_map) return;
          const Acc v[4] = {load_element(image + at.offset[0]), load_element(image + at.offset[1]),
                            load_element(image + at.offset[2]), load_element(image + at.offset[3])};
          const Acc grad = load_element(bin);
          const Acc along_y = grad * slope_along_y(s.y, s.x, v[0], v[1], v[2], v[3]);
          const Acc along_x = grad * slope_along_x(s.y, s.x, v[0], v[1], v[2], v[3]);
          const int64_t l = c % kSumLanes;
          add_slopes(along_y, along_x, part_of_box(roi.y, bin_y, s.row, y2_moves),
                     part_of_box(roi.x, bin_x, s.column, x2_moves), &row.x1[l], &row.y1[l],
                     &row.x2[l], &row.y2[l]);
        });
    add_lanes(row, &total);
  }
  store_lanes_sum(p, k, roi.level, &total);
}

// A sample's pixels within a band, and their weights, none of which is 0.
template <class Acc>
struct BandTaps {
  int64_t count;
  int64_t offset[4];
  Acc weight[4];
};

template <class Acc>
VISOPS_ALWAYS_INLINE void add_row_taps(const Band<Acc>& band, int64_t row, Acc row_weight,
                                       const RoiTaps<Acc>& x, BandTaps<Acc>* taps) {
  if (row < band.begin || row >= band.end) return;
  const int64_t columns[2] = {x.low, x.high};
  const Acc weights[2] = {row_weight * x.low_weight, row_weight * x.high_weight};
  for (int i = 0; i < 2; ++i) {
    if (weights[i] == static_cast<Acc>(0)) continue;
    taps->offset[taps->count] =
        (row - band.begin) * band.row_stride + columns[i] * band.pixel_stride;
    taps->weight[taps->count++] = weights[i];
  }
}

template <class Acc>
VISOPS_ALWAYS_INLINE BandTaps<Acc> band_taps(const Band<Acc>& band, const TakenSample<Acc>& s) {
  BandTaps<Acc> taps = {};
  if (!s.is_on_map) return taps;
  add_row_taps(band, s.y.low, s.y.low_weight, s.x, &taps);
  add_row_taps(band, s.y.high, s.y.high_weight, s.x, &taps);
  return taps;
}

template <class Acc>
VISOPS_ALWAYS_INLINE void add_taps(const BandTaps<Acc>& taps, Acc grad, Acc* pixels) {
  if (taps.count == 4) {
    for (int i = 0; i < 4; ++i) pixels[taps.offset[i]] += taps.weight[i] * grad;
  } else {
    for (int64_t i = 0; i < taps.count; ++i) pixels[taps.offset[i]] += taps.weight[i] * grad;
  }
}

// Whether samples of a row of bins may lie on the band's rows or next to them.
template <class Acc>
bool reaches(const RoiAxis<Acc>& y, int64_t bin_y, const Band<Acc>& band) {
  return y.grid > 0 && sample_at(y, bin_y, y.grid - 1) >= static_cast<Acc>(band.begin - 1) &&
         sample_at(y, bin_y, 0) <= static_cast<Acc>(band.end);
}

template <class T, class Acc>
void spread_boxes(const BandTask<Acc>& task, const Band<Acc>& band) {
  const RoiAlignParams& p = task.p;
  task.for_each_box([&](int64_t k) {
    const Roi<Acc> roi = load_roi<Acc>(p, k);
    TakenSamples<Acc, BandTaps<Acc>> samples(roi);
    for (int64_t bin_y = 0; bin_y < p.bins_y; ++bin_y) {
      if (!reaches(roi.y, bin_y, band)) continue;
      const T* bins = static_cast<const T*>(p.bins) + k * p.roi_stride + bin_y * p.bin_row_stride;
      samples.for_each(
          taken_row(p, k, bin_y, task.channel, task.channel + task.channels),
          [&](const TakenSample<Acc>& s) { return band_taps(band, s); },
          [&](const BandTaps<Acc>& taps) {
            for (int64_t t = 0; t < taps.count; ++t) {
              prefetch(band.data + taps.offset[t], task.channels);
            }
          },
          [&](int64_t c, int64_t bin_x, const BandTaps<Acc>& taps) {
            const Acc grad =
                load_element(bins + c * p.channel_stride + bin_x * p.bin_column_stride);
            add_taps(taps, grad, band.data + (c - task.channel));
          });
    }
  });
}

void sample_boxes(const RoiAlignParams& p, const RoiPlan& plan, int64_t begin, int64_t end) {
  with_element_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    using Acc = typename Accumulate<T>::type;
    for (int64_t i = begin; i < end; ++i) samples_of_box<T, Acc>(p, plan.order[i]);
  });
}

void roi_align_max_at_kernel(const RoiAlignParams& p, Workspace& workspace) {
  run_over_boxes(p, workspace, sample_boxes);
}

void differentiate_boxes(const RoiAlignParams& p, const RoiPlan& plan, int64_t begin, int64_t end) {
  with_floating_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    using Acc = typename Accumulate<T>::type;
    for (int64_t i = begin; i < end; ++i) gradient_of_box<T, Acc>(p, plan.order[i]);
  });
}

void roi_align_max_backward_boxes_kernel(const RoiAlignParams& p, Workspace& workspace) {
  run_over_boxes(p, workspace, differentiate_boxes);
}

void sum_slices(const RoiAlignParams& p, const RoiPlan& plan, int64_t begin, int64_t end) {
  sum_over_boxes(p, plan, begin, end, [](auto* element, const auto& task, const auto& band) {
    spread_boxes<std::remove_pointer_t<decltype(element)>>(task, band);
  });
}

void roi_align_max_backward_input_kernel(const RoiAlignParams& p, Workspace& workspace) {
  run_over_gradient_blocks(p, workspace, sum_slices);
}

const bool registered =
    roi_align_max_at_stub.set(kIsaSlot, roi_align_max_at_kernel) &&
    roi_align_max_backward_boxes_stub.set(kIsaSlot, roi_align_max_backward_boxes_kernel) &&
    roi_align_max_backward_input_stub.set(kIsaSlot, roi_align_max_backward_input_kernel);

}  // namespace
}  // namespace visops
