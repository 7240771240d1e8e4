// RoIAlign's maxima (NOTE [ RoIAlign maxima ] in core/roi/max.h), and samples by number.
//
// As NOTE [ RoIAlign on CUDA ] (align_kernel.cu), but the lists hold samples on the map, not
// pixels. A thread has one bin of four channels, so a sample has 16 loads in flight at once.
//
// Rounding: as the NOTE says, without contraction (-fmad=false), so the bits are the CPU's. Boxes
// that are not valid have zeros and index -1.
#include "cuda/roi/items.h"
#include "cuda/roi/lists.h"
#include "cuda/roi/taken.h"

namespace visops {
namespace {

// A sample on the map along one axis.
template <class Acc>
struct AxisSample {
  static constexpr int kOfSample = 1;
  Acc low_weight, high_weight;
  int32_t low, high, number;

  __device__ RoiTaps<Acc> taps() const { return {low, high, low_weight, high_weight, false}; }
};

template <class Acc>
struct SampleStream {
  using Entry = AxisSample<Acc>;
  const RoiAxis<Acc>* axis;
  int64_t bin;
  SampleRange range;

  static __device__ SampleStream of(const RoiAlignParams&, const Roi<Acc>& roi, bool is_row,
                                    int64_t bin) {
    const RoiAxis<Acc>* axis = is_row ? &roi.y : &roi.x;
    return {axis, bin, samples_on_map(*axis, bin)};
  }
  __device__ bool next(Entry* entry) {
    if (range.first >= range.last) return false;
    const int64_t i = range.first++;
    const RoiTaps<Acc> taps = roi_taps(sample_at(*axis, bin, i), axis->extent);
    *entry = {taps.low_weight, taps.high_weight, static_cast<int32_t>(taps.low),
              static_cast<int32_t>(taps.high), static_cast<int32_t>(i)};
    return true;
  }
};

// The largest samples of a bin so far, and their numbers.
template <class Acc>
struct Largest {
  Acc value[kGroup] = {};
  int64_t index[kGroup] = {-1, -1, -1, -1};
};

// `data` is at row and column 0 of the first channel.
template <class T, class Acc, class Samples>
__device__ void take_largest(const RoiMap& map, const T* data, const Item& item,
                             const Roi<Acc>& roi, Samples rows, const Samples& columns,
                             Largest<Acc>* largest) {
  const int64_t step = item.step * map.channel_stride;
  int64_t row_count = 0, column_count = 0;
  AxisSample<Acc> row, column;
  for (; rows.next(&row); ++row_count) {
    const RoiTaps<Acc> y = row.taps();
    const int64_t first = row.number * roi.x.grid;
    column_count = 0;
    for (Samples rest = columns; rest.next(&column); ++column_count) {
      const RoiTaps<Acc> x = column.taps();
      const T* low = data + y.low * map.row_stride;
      const T* high = data + y.high * map.row_stride;
      const int64_t left = x.low * map.column_stride, right = x.high * map.column_stride;
#pragma unroll
      for (int c = 0; c < kGroup; ++c) {
        if (c >= item.count) break;
        const Acc value = sample_value(
            y, x, load_number(low + left + c * step), load_number(low + right + c * step),
            load_number(high + left + c * step), load_number(high + right + c * step));
        if (largest->index[c] < 0 || is_above(value, largest->value[c])) {
          largest->value[c] = value;
          largest->index[c] = first + column.number;
        }
      }
    }
  }
  if (row_count * column_count == roi.y.grid * roi.x.grid) return;
  const Acc off_map = static_cast<Acc>(0);
#pragma unroll
  for (int c = 0; c < kGroup; ++c) {
    if (!is_above(off_map, largest->value[c])) continue;
    largest->value[c] = off_map;
    largest->index[c] = -1;
  }
}

template <class T, bool listed>
__global__ void __launch_bounds__(kThreads, listed ? 2 : 1)
    roi_align_max(const __grid_constant__ RoiAlignParams p, const ItemPlan plan,
                  const ListRoom room) {
  using Acc = typename Accumulate<T>::type;
  __shared__ ListedBox<Acc> box;
  for (int64_t i = blockIdx.x; i < plan.blocks; i += gridDim.x) {
    const int64_t k = i / plan.slices;
    const auto lists = list_bins<SampleStream<Acc>, listed>(p, room, k, &box);
    const Roi<Acc>& roi = box.roi;
    const RoiMap& map = p.maps[roi.level];
    if (box.is_for(listed)) {
      const bool on_channels = lanes_are_channels(map, p.channels);
      for_items(p, plan, i - k * plan.slices, on_channels, [&](const Item& item) {
        const T* data = map_pixel<const T>(map, roi.image, item.channel, 0, 0);
        Largest<Acc> largest;
        if constexpr (listed) {
          if (roi.valid) {
            take_largest(map, data, item, roi, lists.row_list(item.bin_y),
                         lists.column_list(item.bin_x), &largest);
          }
        } else {
          take_largest(map, data, item, roi, SampleStream<Acc>::of(p, roi, true, item.bin_y),
                       SampleStream<Acc>::of(p, roi, false, item.bin_x), &largest);
        }
        store_item<T>(p, k, item, largest.value);
        int64_t* index = p.index + index_offset(p, k, item.channel, item.bin_y, item.bin_x);
#pragma unroll
        for (int c = 0; c < kGroup; ++c) {
          if (c < item.count) index[c * item.step * p.index_channel_stride] = largest.index[c];
        }
      });
    }
    if (i + gridDim.x < plan.blocks) __syncthreads();  // before the next box replaces this one
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 8 ? 2 : 3)
    roi_align_max_at(const __grid_constant__ RoiAlignParams p, const ItemPlan plan) {
  using Acc = typename Accumulate<T>::type;
  __shared__ Roi<Acc> roi;
  for (int64_t i = blockIdx.x; i < plan.blocks; i += gridDim.x) {
    const int64_t k = i / plan.slices;
    if (threadIdx.x == 0) {
      roi = load_roi<Acc>(p, k);
      if (!roi.valid) roi.level = 0;  // level_of_box() may have found none
    }
    __syncthreads();
    const RoiMap& map = p.maps[roi.level];
    const bool on_channels = lanes_are_channels(map, p.channels);
    for_items(p, plan, i - k * plan.slices, on_channels, [&](const Item& item) {
      const int64_t* index = p.index + index_offset(p, k, item.channel, item.bin_y, item.bin_x);
      Acc value[kGroup] = {};
#pragma unroll
      for (int c = 0; c < kGroup; ++c) {
        if (!roi.valid || c >= item.count) break;
        const TakenSample<Acc> s = taken_sample(roi, item.bin_y, item.bin_x,
                                                index[c * item.step * p.index_channel_stride]);
        if (!s.is_on_map) continue;
        const SamplePixels<Acc> v =
            load_sample<T, Acc>(map, roi.image, item.channel + c * item.step, s);
        value[c] = sample_value(s.y, s.x, v.a, v.b, v.c, v.d);
      }
      store_item<T>(p, k, item, value);
    });
    if (i + gridDim.x < plan.blocks) __syncthreads();  // before the next box replaces this one
  }
}

template <class T>
void max_as(const RoiAlignParams& p, Workspace& workspace) {
  using Entry = AxisSample<typename Accumulate<T>::type>;
  const ItemPlan plan = plan_items(p);
  launch_with_lists<Entry>(roi_align_max<T, true>, roi_align_max<T, false>, plan.blocks, kThreads,
                           workspace, p, plan);
}

void max_cuda(const RoiAlignParams& p, Workspace& workspace) {
  with_element_type(p.dtype, [&](auto* element) {
    max_as<std::remove_pointer_t<decltype(element)>>(p, workspace);
  });
}

void max_at_cuda(const RoiAlignParams& p, Workspace& workspace) {
  with_element_type(p.dtype, [&](auto* element) {
    const ItemPlan plan = plan_items(p);
    launch(roi_align_max_at<std::remove_pointer_t<decltype(element)>>, grid_for(plan.blocks),
           dim3(kThreads), 0, workspace.stream(), p, plan);
  });
}

const bool registered = roi_align_max_stub.set(kCudaSlot, max_cuda) &&
                        roi_align_max_at_stub.set(kCudaSlot, max_at_cuda);

}  // namespace
}  // namespace visops
