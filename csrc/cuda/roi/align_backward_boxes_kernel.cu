// The boxes' gradient of RoIAlign's means: NOTE [ Gradient of the boxes ] in core/roi/gradient.h.
//
// A block has a box. It lists the pixels of the box's bins, with the slopes of their weights, in
// shared memory, as in NOTE [ RoIAlign on CUDA ]; a second kernel computes boxes for which there is
// no room. A lane then sums each bin's changes with the four sides, one channel after another, in
// the order that the NOTE requires.
//
// Rounding: as the NOTE says, without contraction (-fmad=false), so the bits are the CPU's.
#include "cuda/roi/bin_lists.h"
#include "cuda/roi/box_tile.h"

namespace visops {
namespace {

template <class Acc, class Offset>
struct ListedSlope {
  Acc weight, by_begin, by_end;
  Offset offset;  // in elements, from pixel 0

  __device__ PixelSlope<Acc> slope() const { return {0, weight, by_begin, by_end}; }
};

// A bin's pixels along one axis; along y the numbers include the mean's divisor.
template <class Acc, class Offset>
struct BinStream {
  using Entry = ListedSlope<Acc, Offset>;
  const RoiAxis<Acc>* axis;
  int32_t bin;
  SampleRange range;
  bool end_moves;
  Acc factor;
  Offset stride;

  struct Pixels {
    const BinStream* of;
    BinSlopes<Acc> slopes;

    __device__ bool next(Entry* entry) {
      if (!next_slope(*of->axis, &slopes)) return false;
      const PixelSlope<Acc> s = with_factor(slopes.slope, of->factor);
      *entry = {s.weight, s.by_begin, s.by_end, s.pixel * of->stride};
      return true;
    }
  };

  static __device__ BinStream of(const RoiAlignParams& p, const Roi<Acc>& roi, bool is_row,
                                 int32_t bin) {
    const RoiAxis<Acc>* axis = is_row ? &roi.y : &roi.x;
    return {axis,
            bin,
            samples_on_map(*axis, bin),
            visops::end_moves(*axis, p.aligned),
            is_row ? mean_factor(roi.y, roi.x) : static_cast<Acc>(1),
            static_cast<Offset>(stride_of(p.maps[roi.level], is_row))};
  }
  __device__ Pixels begin() const { return {this, bin_slopes(*axis, bin, range, end_moves)}; }
};

// How one mean changes. `data` is at row and column 0 of the channel.
template <class T, class Acc, class Slopes>
__device__ BoxSums<Acc> change_of_mean(const T* data, const Slopes& rows, const Slopes& columns) {
  BoxSums<Acc> change = {};
  typename Slopes::Entry row, column;
  for (auto more = rows.begin(); more.next(&row);) {
    const T* at_row = data + row.offset;
    Acc weight = 0, by_begin = 0, by_end = 0;
    for (auto rest = columns.begin(); rest.next(&column);) {
      const Acc pixel = load_element(at_row + column.offset);
      add_column(column.slope(), pixel, &weight, &by_begin, &by_end);
    }
    add_row(row.slope(), weight, by_begin, by_end, &change.x1, &change.y1, &change.x2, &change.y2);
  }
  return change;
}

// Called by all threads of the block, which synchronise here.
template <class T, bool listed>
__device__ void sum_box(const RoiAlignParams& p, const ListRoom& room, int64_t k) {
  using Acc = typename Accumulate<T>::type;
  using Stream = BinStream<Acc, PixelOffset<listed>>;
  __shared__ ListedBox<Acc> box;
  __shared__ RowSums<Acc> row_sums;
  if (threadIdx.x == 0) box.load(p, room, k, listed);
  __syncthreads();
  const auto lists = list_bins<Stream, listed>(p, room, k, &box);
  if (!box.is_for(listed)) return;
  const Roi<Acc>& roi = box.roi;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  sum_rows(p, k, roi, &row_sums, [&](int32_t y) {
    BoxSums<Acc> sum = {};
    for (int64_t c = lane; c < p.channels; c += kWarpLanes) {
      const T* data = map_pixel<const T>(p.maps[roi.level], roi.image, c, 0, 0);
      const T* grad = static_cast<const T*>(p.bins) + bin_offset(p, k, c, y, 0);
      for (int32_t x = 0; x < p.bins_x; ++x) {
        BoxSums<Acc> change;
        if constexpr (listed) {
          change = change_of_mean<T, Acc>(data, lists.row_list(y), lists.column_list(x));
        } else {
          change = change_of_mean<T, Acc>(data, Stream::of(p, roi, true, y),
                                          Stream::of(p, roi, false, x));
        }
        const Acc g = load_element(grad + x * p.bin_column_stride);
        sum.x1 += g * change.x1;
        sum.y1 += g * change.y1;
        sum.x2 += g * change.x2;
        sum.y2 += g * change.y2;
      }
    }
    return sum;
  });
}

template <class T>
__global__ void __launch_bounds__(kSumThreads, blocks_at_once<T>())
    roi_align_backward_boxes(const __grid_constant__ RoiAlignParams p, const ListRoom room,
                             const int64_t first) {
  sum_box<T, true>(p, room, first + blockIdx.x);
}

// Two streams take registers, and few boxes need them.
template <class T>
__global__ void __launch_bounds__(kSumThreads, sizeof(T) == 8 ? 1 : 2)
    roi_align_backward_boxes_streamed(const __grid_constant__ RoiAlignParams p, const ListRoom room,
                                      const int64_t first) {
  sum_box<T, false>(p, room, first + blockIdx.x);
}

void backward_boxes_cuda(const RoiAlignParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    using Entry = ListedSlope<typename Accumulate<T>::type, PixelOffset<true>>;
    launch_with_lists<Entry, 2>(roi_align_backward_boxes<T>, roi_align_backward_boxes_streamed<T>,
                                p.boxes.count, kSumThreads, p.channels, workspace, p);
  });
}

const bool registered = roi_align_backward_boxes_stub.set(kCudaSlot, backward_boxes_cuda);

}  // namespace
}  // namespace visops
