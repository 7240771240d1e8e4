// The boxes' gradient of RoIAlign's means: NOTE [ Gradient of the boxes ] in core/roi/gradient.h.
//
// A block has a box. It lists the pixels of the box's bins, with the slopes of their weights, in
// shared memory, as in NOTE [ RoIAlign on CUDA ]; a second kernel computes boxes for which there is
// no room. A lane then sums each bin's changes with the four sides, one channel after another, in
// the order that the NOTE requires.
//
// Rounding: as the NOTE says, without contraction (-fmad=false), so the bits are the CPU's.
#include "cuda/roi/lanes.h"
#include "cuda/roi/lists.h"

namespace visops {
namespace {

template <class Acc>
struct ListedSlope {
  static constexpr int kOfSample = 2;
  Acc weight, by_begin, by_end;
  int32_t pixel;

  __device__ PixelSlope<Acc> slope() const { return {pixel, weight, by_begin, by_end}; }
};

// A bin's pixels along one axis; along y the numbers include the mean's divisor.
template <class Acc>
struct SlopeStream {
  using Entry = ListedSlope<Acc>;
  const RoiAxis<Acc>* axis;
  BinSlopes<Acc> slopes;
  Acc factor;

  static __device__ SlopeStream of(const RoiAlignParams& p, const Roi<Acc>& roi, bool is_row,
                                   int64_t bin) {
    const RoiAxis<Acc>* axis = is_row ? &roi.y : &roi.x;
    return {axis, bin_slopes(*axis, bin, end_moves(*axis, p.aligned)),
            is_row ? mean_factor(roi.y, roi.x) : static_cast<Acc>(1)};
  }
  __device__ bool next(Entry* entry) {
    if (!next_slope(*axis, &slopes)) return false;
    const PixelSlope<Acc> s = with_factor(slopes.slope, factor);
    *entry = {s.weight, s.by_begin, s.by_end, static_cast<int32_t>(s.pixel)};
    return true;
  }
};

// How one mean changes. `data` is at row and column 0 of the channel.
template <class T, class Acc, class Slopes>
__device__ BoxSums<Acc> change_of_mean(const RoiMap& map, const T* data, Slopes rows,
                                       const Slopes& columns) {
  BoxSums<Acc> change = {};
  ListedSlope<Acc> row, column;
  while (rows.next(&row)) {
    const T* at_row = data + row.pixel * map.row_stride;
    Acc weight = 0, by_begin = 0, by_end = 0;
    for (Slopes rest = columns; rest.next(&column);) {
      const Acc pixel = load_number(at_row + column.pixel * map.column_stride);
      add_column(column.slope(), pixel, &weight, &by_begin, &by_end);
    }
    add_row(row.slope(), weight, by_begin, by_end, &change.x1, &change.y1, &change.x2, &change.y2);
  }
  return change;
}

template <class T, bool listed>
__global__ void __launch_bounds__(kSumThreads, blocks_at_once<T>(listed))
    roi_align_backward_boxes(const __grid_constant__ RoiAlignParams p, const ListRoom room) {
  using Acc = typename Accumulate<T>::type;
  __shared__ ListedBox<Acc> box;
  __shared__ RowSums<Acc> row_sums;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  for (int64_t k = blockIdx.x; k < p.boxes.count; k += gridDim.x) {
    const auto lists = list_bins<SlopeStream<Acc>, listed>(p, room, k, &box);
    const Roi<Acc>& roi = box.roi;
    if (box.is_for(listed)) {
      const RoiMap& map = p.maps[roi.level];
      sum_rows(p, k, roi, &row_sums, [&](int64_t y) {
        BoxSums<Acc> sum = {};
        for (int64_t c = lane; c < p.channels; c += kWarpLanes) {
          const T* data = map_pixel<const T>(map, roi.image, c, 0, 0);
          const T* grad = static_cast<const T*>(p.bins) + bin_offset(p, k, c, y, 0);
          for (int64_t x = 0; x < p.bins_x; ++x) {
            BoxSums<Acc> change;
            if constexpr (listed) {
              change = change_of_mean<T, Acc>(map, data, lists.row_list(y), lists.column_list(x));
            } else {
              change = change_of_mean<T, Acc>(map, data, SlopeStream<Acc>::of(p, roi, true, y),
                                              SlopeStream<Acc>::of(p, roi, false, x));
            }
            const Acc g = load_number(grad + x * p.bin_column_stride);
            sum.x1 += g * change.x1;
            sum.y1 += g * change.y1;
            sum.x2 += g * change.x2;
            sum.y2 += g * change.y2;
          }
        }
        return sum;
      });
    }
    if (k + gridDim.x < p.boxes.count) __syncthreads();  // before the next box replaces this one
  }
}

template <class T>
void backward_boxes_as(const RoiAlignParams& p, Workspace& workspace) {
  using Entry = ListedSlope<typename Accumulate<T>::type>;
  launch_with_lists<Entry>(roi_align_backward_boxes<T, true>, roi_align_backward_boxes<T, false>,
                           p.boxes.count, kSumThreads, workspace, p);
}

void backward_boxes_cuda(const RoiAlignParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    backward_boxes_as<std::remove_pointer_t<decltype(element)>>(p, workspace);
  });
}

const bool registered = roi_align_backward_boxes_stub.set(kCudaSlot, backward_boxes_cuda);

}  // namespace
}  // namespace visops
