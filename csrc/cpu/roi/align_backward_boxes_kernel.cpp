// NOTE [ RoIAlign's gradient of boxes on the CPU ]
// Vectors are channels, as in the forward. The six sums over a bin's pixels (NOTE [ Gradient of the
// boxes ]) stay in registers for two vectors at a time, and each pixel is read once for all of
// them. Channels that are not adjacent, or of another type, are gathered pixel by pixel. Numbers
// along the axes are listed once per box. Work is split by boxes, never within a box's sum.
//
// Rounding: as the NOTE says, without contraction.
#include "cpu/roi/channels.h"
#include "cpu/roi/sums.h"

namespace visops {
namespace {

static_assert(kSumLanes % kChannels<float> == 0 && kSumLanes % kChannels<double> == 0,
              "channels computed together must have adjacent lanes");

// A bin's PixelSlopes, times `factor`.
template <class Acc>
class SlopeStream {
 public:
  using Entry = PixelSlope<Acc>;

  SlopeStream(const RoiAxis<Acc>& axis, bool aligned, Acc factor, int64_t bin)
      : axis_(axis), slopes_(bin_slopes(axis, bin, end_moves(axis, aligned))), factor_(factor) {}

  const Entry* next() {
    if (!next_slope(axis_, &slopes_)) return nullptr;
    entry_ = with_factor(slopes_.slope, factor_);
    return &entry_;
  }

 private:
  RoiAxis<Acc> axis_;
  BinSlopes<Acc> slopes_;
  Acc factor_;
  Entry entry_ = {};
};

// A mean's changes with the sides of its box.
template <class V>
struct Changes {
  V x1, y1, x2, y2;
};

// The changes of a bin's means, for kChannels.
template <bool adjacent, class T, class Acc, class Rows, class Columns>
VISOPS_ALWAYS_INLINE Changes<Channels<Acc>> changes_of_bin(const MapChannels<T, Acc>& map,
                                                           Rows rows, const Columns& columns) {
  using V = Channels<Acc>;
  const V zero(static_cast<Acc>(0));
  Changes<V> sums = {zero, zero, zero, zero};
  while (const auto* row = rows.next()) {
    V weight = zero, by_begin = zero, by_end = zero;
    Columns of_row = columns;
    while (const auto* column = of_row.next()) {
      const V pixel = channels_at<adjacent>(map, row->pixel, column->pixel);
      add_column(*column, pixel, &weight, &by_begin, &by_end);
    }
    add_row(*row, weight, by_begin, by_end, &sums.x1, &sums.y1, &sums.x2, &sums.y2);
  }
  return sums;
}

template <class Acc>
VISOPS_ALWAYS_INLINE void add_product(const Channels<Acc>& a, const Channels<Acc>& b, Acc* lanes) {
  (Channels<Acc>::load(lanes) + a * b).store(lanes);
}

template <class T, class Acc>
class BoxGradient {
 public:
  BoxGradient(const RoiAlignParams& p, int64_t k) : p_(p), k_(k), roi_(load_roi<Acc>(p, k)) {}

  void compute() {
    BoxLanes<Acc> total = {};
    for (int64_t bin_y = 0; roi_.valid && bin_y < p_.bins_y; ++bin_y) {
      BoxLanes<Acc> row = {};
      for (int64_t channel = 0; channel < p_.channels; channel += kChannels<Acc>) {
        add_row_of_bins(bin_y, channel, &row);
      }
      add_lanes(row, &total);
    }
    store_lanes_sum(p_, k_, roi_.level, &total);
  }

 private:
  // For kChannels channels from `channel` on.
  void add_row_of_bins(int64_t bin_y, int64_t channel, BoxLanes<Acc>* row) {
    const auto map = map_channels<T>(p_, roi_, channel, ahead(bin_y));
    const T* grad = static_cast<const T*>(p_.bins) + k_ * p_.roi_stride +
                    channel * p_.channel_stride + bin_y * p_.bin_row_stride;
    const int64_t lane = channel % kSumLanes;
    for (int64_t bin_x = 0; bin_x < p_.bins_x; ++bin_x) {
      const Changes<Channels<Acc>> changes = changes_of(map, bin_y, bin_x);
      const auto by =
          load_channels<Acc>(grad + bin_x * p_.bin_column_stride, p_.channel_stride, map.count);
      add_product<Acc>(by, changes.x1, row->x1 + lane);
      add_product<Acc>(by, changes.y1, row->y1 + lane);
      add_product<Acc>(by, changes.x2, row->x2 + lane);
      add_product<Acc>(by, changes.y2, row->y2 + lane);
    }
  }

  // The distance from a row of bins' first pixel to that of the next row.
  int64_t ahead(int64_t bin_y) const {
    const auto *row = rows_.first(bin_y), *next = rows_.first(bin_y + 1);
    if (row == nullptr || next == nullptr) return 0;
    return (next->pixel - row->pixel) * p_.maps[roi_.level].row_stride;
  }

  VISOPS_ALWAYS_INLINE Changes<Channels<Acc>> changes_of(const MapChannels<T, Acc>& map,
                                                         int64_t bin_y, int64_t bin_x) {
    const Acc factor = mean_factor(roi_.y, roi_.x), one = static_cast<Acc>(1);
    const bool are_listed = rows_.has(bin_y, p_.bins_y, roi_.y, p_.aligned, factor) &&
                            columns_.has(bin_x, p_.bins_x, roi_.x, p_.aligned, one);
    if (!are_listed) {
      return changes_of_bin<false>(map, SlopeStream<Acc>(roi_.y, p_.aligned, factor, bin_y),
                                   SlopeStream<Acc>(roi_.x, p_.aligned, one, bin_x));
    }
    if (are_adjacent(map)) {
      return changes_of_bin<true>(map, rows_.cursor(bin_y), columns_.cursor(bin_x));
    }
    return changes_of_bin<false>(map, rows_.cursor(bin_y), columns_.cursor(bin_x));
  }

  const RoiAlignParams& p_;
  int64_t k_;
  Roi<Acc> roi_;
  BinLists<SlopeStream<Acc>> rows_, columns_;
};

void differentiate_boxes(const RoiAlignParams& p, const RoiPlan& plan, int64_t begin, int64_t end) {
  with_floating_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    using Acc = typename Accumulate<T>::type;
    for (int64_t i = begin; i < end; ++i) BoxGradient<T, Acc>(p, plan.order[i]).compute();
  });
}

void roi_align_backward_boxes_kernel(const RoiAlignParams& p, Workspace& workspace) {
  run_over_boxes(p, workspace, differentiate_boxes);
}

const bool registered =
    roi_align_backward_boxes_stub.set(kIsaSlot, roi_align_backward_boxes_kernel);

}  // namespace
}  // namespace visops
