// RoIAlign's maxima (NOTE [ RoIAlign maxima ] in core/roi/pool.h), and samples by number.
//
// As NOTE [ RoIAlign on CUDA ] (align_kernel.cu), but the lists hold samples on the map, not
// pixels. A thread has one bin of four channels, so a sample has 16 loads in flight at once.
//
// Rounding: as the NOTE says, without contraction (-fmad=false), so the bits are the CPU's. Boxes
// that are not valid have zeros and index -1.
#include "cuda/roi/bin_lists.h"
#include "cuda/roi/max_samples.h"
#include "cuda/roi/work_items.h"

namespace visops {
namespace {

// A sample on the map along one axis.
template <class Acc, class Offset>
struct AxisSample {
  Acc low_weight, high_weight;
  Offset low, high;  // of its pixels, in elements, from pixel 0
  uint32_t number;

  __device__ RoiTaps<Acc> weights() const { return {0, 0, low_weight, high_weight, false}; }
};

template <class Acc, class Offset>
struct BinStream {
  using Entry = AxisSample<Acc, Offset>;
  const RoiAxis<Acc>* axis;
  int32_t bin;
  SampleRange range;
  Offset stride;

  struct Samples {
    const BinStream* of;
    uint32_t number;

    __device__ bool next(Entry* entry) {
      if (number >= of->range.last) return false;
      const RoiAxis<Acc> axis = reload(*of->axis);
      const RoiTaps<Acc> taps = roi_taps(sample_at(axis, of->bin, number), axis.extent);
      *entry = {taps.low_weight, taps.high_weight, taps.low * of->stride, taps.high * of->stride,
                number++};
      return true;
    }
  };

  static __device__ BinStream of(const RoiAlignParams& p, const Roi<Acc>& roi, bool is_row,
                                 int32_t bin) {
    const RoiAxis<Acc>* axis = is_row ? &roi.y : &roi.x;
    return {axis, bin, samples_on_map(reload(*axis), bin),
            static_cast<Offset>(stride_of(p.maps[roi.level], is_row))};
  }
  __device__ Samples begin() const { return {this, range.first}; }
};

// How many samples there are along an axis, and the number of the i-th one.
template <class Entry>
__device__ int64_t count_of(const EntryList<Entry>& samples) {
  return samples.end - samples.at;
}
template <class Acc, class Offset>
__device__ int64_t count_of(const BinStream<Acc, Offset>& samples) {
  return samples.range.last - samples.range.first;
}
template <class Entry>
__device__ int64_t number_of(const EntryList<Entry>& samples, int64_t i) {
  return samples.at[i].number;
}
template <class Acc, class Offset>
__device__ int64_t number_of(const BinStream<Acc, Offset>& samples, int64_t i) {
  return samples.range.first + i;
}

// The largest samples of a bin so far. A place is which of the row's and of the column's samples it
// is, in the upper and the lower half; -1: none.
template <class Acc, class Position, int channels>
struct Largest {
  static constexpr int kHalf = 4 * sizeof(Position);  // bits
  Acc value[channels] = {};
  Position position[channels];

  __device__ Largest() {
#pragma unroll
    for (int c = 0; c < channels; ++c) position[c] = -1;
  }

  template <class Samples>
  __device__ int64_t index(int c, const Samples& rows, const Samples& columns, int64_t grid) const {
    if (position[c] < 0) return -1;
    const Position row = position[c] >> kHalf;
    return number_of(rows, row) * grid + number_of(columns, position[c] - (row << kHalf));
  }
};

// `data` is at row and column 0 of the first channel, and the next one is `step` further on. A bin
// has `samples`, those off the map included.
template <class T, class Acc, class Offset, int channels, class Samples>
__device__ void take_largest(const T* data, int count, Offset step, const Samples& rows,
                             const Samples& columns, int64_t samples,
                             Largest<Acc, Offset, channels>* largest) {
  typename Samples::Entry row, column;
  Offset first = 0;
  for (auto more = rows.begin(); more.next(&row); first += Offset{1} << largest->kHalf) {
    const T* low = data + row.low;
    const T* high = data + row.high;
    Offset position = first;
    for (auto rest = columns.begin(); rest.next(&column); ++position) {
#pragma unroll
      for (int c = 0; c < channels; ++c) {
        if (c >= count) break;
        const Acc value = sample_value(
            row.weights(), column.weights(), load_element(low + column.low + c * step),
            load_element(low + column.high + c * step), load_element(high + column.low + c * step),
            load_element(high + column.high + c * step));
        if (largest->position[c] < 0 || is_above(value, largest->value[c])) {
          largest->value[c] = value;
          largest->position[c] = position;
        }
      }
    }
  }
  if (count_of(rows) * count_of(columns) == samples) return;
  const Acc off_map = static_cast<Acc>(0);
#pragma unroll
  for (int c = 0; c < channels; ++c) {
    if (!is_above(off_map, largest->value[c])) continue;
    largest->value[c] = off_map;
    largest->position[c] = -1;
  }
}

// A stream takes the registers of three channels.
template <bool listed>
constexpr int kAtOnce = listed ? kGroup : 1;

template <class T, bool listed>
__global__ void __launch_bounds__(kThreads, blocks_at_once<T>())
    roi_align_max(const __grid_constant__ RoiAlignParams p, const ItemPlan plan,
                  const ListRoom room, const int64_t first) {
  using Acc = typename Accumulate<T>::type;
  using Offset = PixelOffset<listed>;
  using Stream = BinStream<Acc, Offset>;
  __shared__ ListedBox<Acc> box;
  __shared__ ItemSlice slice;
  load_slice<SameChannels>(
      p, plan, first + blockIdx.x, [&](int64_t k) { return box.load(p, room, k, listed); }, &slice);
  const auto lists = list_bins<Stream, listed>(p, room, slice.box, &box);
  if (!box.is_for(listed)) return;
  const Roi<Acc>& roi = box.roi;
  const bool on_channels = lanes_are_channels(p.maps[roi.level], p.channels);
  for_items(p, slice, on_channels, [&](const Item& item) {
    const RoiMap& map = p.maps[reload(roi.level)];
    const T* data = map_pixel<const T>(map, reload(roi.image), item.channel, 0, 0);
    const auto bin_at = item_offset<Offset>(p, item);
    const auto index_at =
        static_cast<Offset>(index_offset(p, 0, item.channel, item.bin_y, item.bin_x));
    const Offset step = static_cast<Offset>(item.step * map.channel_stride);
    const auto take = [&](int from, const auto& rows, const auto& columns) {
      Largest<Acc, Offset, kAtOnce<listed>> largest;
      const int count = item.count - from;
      take_largest(data + from * step, count, step, rows, columns, samples_of_bin(roi), &largest);
      const int64_t k = reload(slice.box);
      T* bin = static_cast<T*>(p.bins) + k * p.roi_stride + bin_at;
      int64_t* index = p.index + k * p.index_roi_stride + index_at;
#pragma unroll
      for (int c = 0; c < kAtOnce<listed>; ++c) {
        if (c >= count) break;
        const int64_t channel = (from + c) * item.step;
        store_element(bin + channel * p.channel_stride, largest.value[c]);
        index[channel * p.index_channel_stride] = largest.index(c, rows, columns, roi.x.grid);
      }
    };
    if constexpr (!listed) {
      const auto rows = Stream::of(p, roi, true, item.bin_y);
      const auto columns = Stream::of(p, roi, false, item.bin_x);
      for (int c = 0; c < item.count; c += kAtOnce<listed>) take(c, rows, columns);
    } else if (roi.valid) {
      take(0, lists.row_list(item.bin_y), lists.column_list(item.bin_x));
    } else {
      using List = EntryList<typename Stream::Entry>;
      take(0, List{}, List{});
    }
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads, blocks_at_once<T>())
    roi_align_max_at(const __grid_constant__ RoiAlignParams p, const ItemPlan plan,
                     const int64_t first) {
  using Acc = typename Accumulate<T>::type;
  __shared__ Roi<Acc> roi;
  __shared__ ItemSlice slice;
  load_slice<SameChannels>(
      p, plan, first + blockIdx.x, [&](int64_t k) { return roi = load_box<Acc>(p, k); }, &slice);
  const bool on_channels = lanes_are_channels(p.maps[roi.level], p.channels);
  for_items(p, slice, on_channels, [&](const Item& item) {
    const RoiMap& map = p.maps[reload(roi.level)];
    const int64_t k = reload(slice.box);
    const int64_t* index = p.index + index_offset(p, k, item.channel, item.bin_y, item.bin_x);
    Acc value[kGroup] = {};
#pragma unroll
    for (int c = 0; c < kGroup; ++c) {
      if (!roi.valid || c >= item.count) break;
      const TakenSample<Acc> s =
          taken_sample(roi, item.bin_y, item.bin_x, index[c * item.step * p.index_channel_stride]);
      if (!s.is_on_map) continue;
      const SamplePixels<Acc> v =
          load_sample<T, Acc>(map, roi.image, item.channel + c * item.step, s);
      value[c] = sample_value(s.y, s.x, v.a, v.b, v.c, v.d);
    }
    store_item<T>(p, k, item, item_offset<int64_t>(p, item), value);
  });
}

void max_cuda(const RoiAlignParams& p, Workspace& workspace) {
  with_element_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    using Entry = AxisSample<typename Accumulate<T>::type, PixelOffset<true>>;
    const ItemPlan plan = plan_items<SameChannels>(p);
    launch_with_lists<Entry, 1>(roi_align_max<T, true>, roi_align_max<T, false>, plan.blocks,
                                kThreads, p.channels, workspace, p, plan);
  });
}

void max_at_cuda(const RoiAlignParams& p, Workspace& workspace) {
  with_element_type(p.dtype, [&](auto* element) {
    const ItemPlan plan = plan_items<SameChannels>(p);
    each_grid(plan.blocks, [&](int64_t first, dim3 grid) {
      launch(roi_align_max_at<std::remove_pointer_t<decltype(element)>>, grid, dim3(kThreads), 0,
             workspace.stream(), p, plan, first);
    });
  });
}

const bool registered = roi_align_max_stub.set(kCudaSlot, max_cuda) &&
                        roi_align_max_at_stub.set(kCudaSlot, max_at_cuda);

}  // namespace
}  // namespace visops
