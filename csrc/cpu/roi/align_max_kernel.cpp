// NOTE [ RoIAlign maxima on the CPU ]
// Vectors are channels: a sample's weights are scalars. The channels of its four pixels are read in
// place, or gathered pixel by pixel if they are not adjacent or of another type. Samples on the map
// are listed along either axis once per box. Each channel keeps its largest sample so far, with
// that sample's row and column in the grid. Work is split by boxes.
//
// Rounding: NOTE [ RoIAlign maxima ] (core/roi/pool.h), without contraction.
#include <limits>

#include "core/roi/pool.h"
#include "cpu/roi/channels.h"
#include "cpu/roi/sums.h"

namespace visops {
namespace {

// A sample along one axis: its number in the bin, and its pixels.
template <class Acc>
struct AxisSample {
  uint32_t number;
  RoiTaps<Acc> taps;
};

// A bin's samples on the map.
template <class Acc>
class SampleStream {
 public:
  using Entry = AxisSample<Acc>;

  SampleStream(const RoiAxis<Acc>& axis, int64_t bin)
      : axis_(axis), bin_(bin), range_(samples_on_map(axis, bin)) {}

  int64_t size() const { return range_.last - range_.first; }

  const Entry* next() {
    if (range_.first >= range_.last) return nullptr;
    const int64_t i = range_.first++;
    entry_ = {static_cast<uint32_t>(i), roi_taps(sample_at(axis_, bin_, i), axis_.extent)};
    return &entry_;
  }

 private:
  RoiAxis<Acc> axis_;
  int64_t bin_;
  SampleRange range_;
  Entry entry_ = {};
};

// The largest samples of kChannels so far, and where in the grid.
template <class Acc>
struct alignas(64) Largest {
  using Number = std::conditional_t<std::is_same<Acc, double>::value, uint64_t, uint32_t>;
  Acc value[kChannels<Acc>];
  Number row[kChannels<Acc>], column[kChannels<Acc>];
};

template <class Acc>
VISOPS_ALWAYS_INLINE void take_larger(const Channels<Acc>& sample, uint32_t row, uint32_t column,
                                      Largest<Acc>* VISOPS_RESTRICT largest) {
  alignas(64) Acc value[kChannels<Acc>];
  sample.store(value);
  for (int c = 0; c < kChannels<Acc>; ++c) {
    const bool is_new = is_above(value[c], largest->value[c]);
    largest->value[c] = is_new ? value[c] : largest->value[c];
    largest->row[c] = is_new ? row : largest->row[c];
    largest->column[c] = is_new ? column : largest->column[c];
  }
}

template <class T, class Acc>
class BoxMaxima {
 public:
  BoxMaxima(const RoiAlignParams& p, int64_t k) : p_(p), k_(k), roi_(load_roi<Acc>(p, k)) {}

  void compute() {
    for (int64_t bin_y = 0; bin_y < p_.bins_y; ++bin_y) {
      for (int64_t bin_x = 0; bin_x < p_.bins_x; ++bin_x) {
        if (rows_.has(bin_y, p_.bins_y, roi_.y) && columns_.has(bin_x, p_.bins_x, roi_.x)) {
          compute_bin<true>(rows_.cursor(bin_y), columns_.cursor(bin_x), bin_y, bin_x);
        } else {
          compute_bin<false>(SampleStream<Acc>(roi_.y, bin_y), SampleStream<Acc>(roi_.x, bin_x),
                             bin_y, bin_x);
        }
      }
    }
  }

 private:
  template <bool are_listed, class Rows, class Columns>
  VISOPS_ALWAYS_INLINE void compute_bin(const Rows& rows, const Columns& columns, int64_t bin_y,
                                        int64_t bin_x) {
    const int64_t to_next = ahead(bin_y, bin_x);
    for (int64_t channel = 0; channel < p_.channels; channel += kChannels<Acc>) {
      const auto map = map_channels<T>(p_, roi_, channel, to_next);
      Largest<Acc> largest;
      if constexpr (are_listed) {
        if (are_adjacent(map)) {
          find<true>(map, rows, columns, &largest);
          store(largest, rows.size(), columns.size(), channel, map.count, bin_y, bin_x);
          continue;
        }
      }
      find<false>(map, rows, columns, &largest);
      store(largest, rows.size(), columns.size(), channel, map.count, bin_y, bin_x);
    }
  }

  // The distance from a bin's first pixel to that of the next bin.
  int64_t ahead(int64_t bin_y, int64_t bin_x) const {
    const bool is_last = bin_x + 1 == p_.bins_x;
    const auto *row = rows_.first(bin_y), *next_row = rows_.first(is_last ? bin_y + 1 : bin_y);
    const auto *column = columns_.first(bin_x),
               *next_column = columns_.first(is_last ? 0 : bin_x + 1);
    if (!row || !next_row || !column || !next_column) return 0;
    const RoiMap& map = p_.maps[roi_.level];
    return (next_row->taps.low - row->taps.low) * map.row_stride +
           (next_column->taps.low - column->taps.low) * map.column_stride;
  }

  template <bool adjacent, class Rows, class Columns>
  VISOPS_ALWAYS_INLINE void find(const MapChannels<T, Acc>& map, Rows rows, const Columns& columns,
                                 Largest<Acc>* largest) {
    for (Acc& value : largest->value) value = -std::numeric_limits<Acc>::infinity();
    bool is_first = true;
    while (const auto* row = rows.next()) {
      Columns of_row = columns;
      while (const auto* column = of_row.next()) {
        if (is_first) {  // this sample stays the largest if all are -inf
          for (auto& number : largest->row) number = row->number;
          for (auto& number : largest->column) number = column->number;
          is_first = false;
        }
        const RoiTaps<Acc>&y = row->taps, &x = column->taps;
        const auto a = channels_at<adjacent>(map, y.low, x.low);
        const auto b = channels_at<adjacent>(map, y.low, x.high);
        const auto c = channels_at<adjacent>(map, y.high, x.low);
        const auto d = channels_at<adjacent>(map, y.high, x.high);
        take_larger<Acc>(sample_value(y, x, a, b, c, d), row->number, column->number, largest);
      }
    }
  }

  // rows, columns: how many of the grid's are on the map.
  void store(const Largest<Acc>& largest, int64_t rows, int64_t columns, int64_t channel,
             int64_t count, int64_t bin_y, int64_t bin_x) {
    const int64_t on_map = rows * columns;
    const bool some_off_map = on_map < samples_of_bin(roi_);
    const Acc zero = static_cast<Acc>(0);
    int64_t* index = p_.index + k_ * p_.index_roi_stride + channel * p_.index_channel_stride +
                     bin_y * p_.index_row_stride + bin_x * p_.index_column_stride;
    alignas(64) Acc value[kChannels<Acc>];
    for (int64_t c = 0; c < count; ++c) {
      const bool is_zero = on_map == 0 || (some_off_map && is_above(zero, largest.value[c]));
      value[c] = is_zero ? zero : largest.value[c];
      index[c * p_.index_channel_stride] =
          is_zero ? -1
                  : static_cast<int64_t>(largest.row[c]) * roi_.x.grid +
                        static_cast<int64_t>(largest.column[c]);
    }
    T* bin = static_cast<T*>(p_.bins) + k_ * p_.roi_stride + channel * p_.channel_stride +
             bin_y * p_.bin_row_stride + bin_x * p_.bin_column_stride;
    store_channels(value, count, bin, p_.channel_stride);
  }

  const RoiAlignParams& p_;
  int64_t k_;
  Roi<Acc> roi_;
  BinLists<SampleStream<Acc>> rows_, columns_;
};

void pool_boxes(const RoiAlignParams& p, const RoiPlan& plan, int64_t begin, int64_t end) {
  with_element_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    using Acc = typename Accumulate<T>::type;
    for (int64_t i = begin; i < end; ++i) BoxMaxima<T, Acc>(p, plan.order[i]).compute();
  });
}

void roi_align_max_kernel(const RoiAlignParams& p, Workspace& workspace) {
  run_over_boxes(p, workspace, pool_boxes);
}

const bool registered = roi_align_max_stub.set(kIsaSlot, roi_align_max_kernel);

}  // namespace
}  // namespace visops
