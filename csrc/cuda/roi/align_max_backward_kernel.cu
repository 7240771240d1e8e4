// The gradients of RoIAlign's maxima: NOTE [ RoIAlign maxima ] in core/roi/pool.h.
//
// Maps: as NOTE [ RoIAlign's gradient of maps on CUDA ] (cuda/roi/box_tile.h). Each channel has
// samples of its own, so a lane is a channel whatever the layout. It goes through the bins that may
// reach its row of the tile and adds their samples' shares to sums in shared memory that no other
// lane uses. If columns are adjacent in memory, sums change lanes as they are written.
//
// Boxes: as the gradient of means (align_backward_boxes_kernel.cu), without lists.
//
// Rounding: as the NOTE says, without contraction (-fmad=false), so the bits are the CPU's.
#include "cuda/reload.h"
#include "cuda/roi/box_tile.h"
#include "cuda/roi/max_samples.h"

namespace visops {
namespace {

template <class Acc>
struct MaxTile {
  static constexpr int kRows = kTileRows;
  static constexpr int kColumns = sizeof(Acc) == 8 ? 16 : 32;
  static bool is_for(const RoiMap&, int64_t) { return true; }
};

// As many as have threads, less so many that four blocks have shared memory.
constexpr int kBoxesAtOnce = 22;
static_assert(kBoxesAtOnce * (kTileRows + 1) <= kTileThreads);

// Boxes that reach a block's tile, and which of their bins do.
template <class Acc>
struct TileBoxes {
  Roi<Acc> roi[kBoxesAtOnce];
  BinSpan rows[kBoxesAtOnce][kTileRows];  // for each row of the tile
  BinSpan columns[kBoxesAtOnce];
};

// Called by all threads of the block, which synchronise here. A thread takes a row of the tile, or
// all of its columns.
template <class Acc>
__device__ void prepare_boxes(const Roi<Acc>* rois, const Tile& tile, const int64_t* list,
                              int count, TileBoxes<Acc>* boxes) {
  const int box = static_cast<int>(threadIdx.x) / (kTileRows + 1);
  const int row = static_cast<int>(threadIdx.x) % (kTileRows + 1);
  if (box < count) {
    const Roi<Acc>& roi = rois[list[box]];
    if (row < kTileRows) {
      boxes->rows[box][row] = bins_between(roi.y, tile.row + row, tile.row + row);
    } else {
      boxes->roi[box] = roi;
      boxes->columns[box] =
          bins_between(roi.x, tile.column, tile.column + MaxTile<Acc>::kColumns - 1);
    }
  }
  __syncthreads();
}

// The sums of one row of a tile, padded so that accesses of either layout hit different banks.
template <class Acc>
struct RowOfSums {
  Acc sum[MaxTile<Acc>::kColumns][kWarp + 1];
};

template <class T, class Acc>
__device__ void add_box(const RoiAlignParams& p, const TileBoxes<Acc>& boxes, int box, int64_t k,
                        const Tile& tile, int row, int lane, RowOfSums<Acc>* sums) {
  constexpr int64_t kColumns = MaxTile<Acc>::kColumns;
  const Acc zero = static_cast<Acc>(0);
  const BinSpan rows = boxes.rows[box][row], columns = boxes.columns[box];
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const int64_t* index = p.index + index_offset(p, k, tile.channel + lane, y, 0);
    const T* grad = static_cast<const T*>(p.bins) + bin_offset(p, k, tile.channel + lane, y, 0);
    for (int64_t x = columns.begin; x < columns.end; ++x) {
      const TakenSample<Acc> s =
          taken_sample(boxes.roi[box], y, x, index[x * p.index_column_stride]);
      if (!s.is_on_map) continue;
      const Acc row_weight = tap_weight(s.y, tile.row + row);
      if (row_weight == zero) continue;
      const Acc g = load_element(grad + x * p.bin_column_stride);
      const Acc low = row_weight * s.x.low_weight, high = row_weight * s.x.high_weight;
      const int64_t left = s.x.low - tile.column, right = s.x.high - tile.column;
      if (low != zero && left >= 0 && left < kColumns) sums->sum[left][lane] += low * g;
      if (high != zero && right >= 0 && right < kColumns) sums->sum[right][lane] += high * g;
    }
  }
}

// Called by all lanes of the row's warp, which synchronise here.
template <class T, class Acc>
__device__ void store_row(const RoiAlignParams& p, const Tile& tile, int row, int lane,
                          const RowOfSums<Acc>& sums) {
  constexpr int kColumns = MaxTile<Acc>::kColumns;
  const RoiMap& map = p.maps[tile.level];
  __syncwarp();
  if (tile.row + row < map.height) {
    const bool on_channels = lanes_are_channels(map, p.channels);
    for (int i = lane; i < kColumns * kWarp; i += kWarp) {
      const int column = on_channels ? i / kWarp : i % kColumns;
      const int channel = on_channels ? i % kWarp : i / kColumns;
      if (tile.column + column >= map.width || tile.channel + channel >= p.channels) continue;
      store_element(map_pixel<T>(map, tile.image, tile.channel + channel, tile.row + row,
                                 tile.column + column),
                    sums.sum[column][channel]);
    }
  }
  __syncwarp();
}

template <class T>
__global__ void __launch_bounds__(kTileThreads, sizeof(T) == 8 ? 2 : 4) roi_align_max_gather(
    const __grid_constant__ RoiAlignParams p, const ListedRois<typename Accumulate<T>::type> listed,
    const __grid_constant__ TileGrid<MaxTile<typename Accumulate<T>::type>> grid) {
  using Acc = typename Accumulate<T>::type;
  __shared__ BoxList list;
  __shared__ TileBoxes<Acc> boxes;
  __shared__ RowOfSums<Acc> sums[kTileRows];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = static_cast<int>(threadIdx.x) / kWarp;
  for (int64_t i = blockIdx.x; i < grid.count; i += gridDim.x) {
    const Tile tile = tile_at(grid, i);
    for (int column = 0; column < MaxTile<Acc>::kColumns; ++column) {
      sums[row].sum[column][lane] = static_cast<Acc>(0);
    }
    for_boxes_of<MaxTile<Acc>>(p, listed, tile, &list, [&](int count) {
      for (int first = 0; first < count; first += kBoxesAtOnce) {
        const int n = count - first < kBoxesAtOnce ? count - first : kBoxesAtOnce;
        prepare_boxes(listed.rois, tile, list.box + first, n, &boxes);
        for (int box = 0; box < n && tile.channel + lane < p.channels; ++box) {
          add_box<T>(p, boxes, box, list.box[first + box], tile, row, lane, &sums[row]);
        }
        __syncthreads();
      }
    });
    store_row<T>(p, tile, row, lane, sums[row]);
  }
}

template <class T>
__global__ void __launch_bounds__(kSumThreads, sizeof(T) == 8 ? 2 : 4)
    roi_align_max_backward_boxes(const __grid_constant__ RoiAlignParams p, const int64_t first) {
  using Acc = typename Accumulate<T>::type;
  __shared__ Roi<Acc> roi;
  __shared__ RowSums<Acc> row_sums;
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int64_t k = first + blockIdx.x;
  if (threadIdx.x == 0) roi = load_box<Acc>(p, k);
  __syncthreads();
  sum_rows(p, k, roi, &row_sums, [&](int32_t y) {
    const bool y2_moves = end_moves(roi.y, p.aligned), x2_moves = end_moves(roi.x, p.aligned);
    BoxSums<Acc> sum = {};
    for (int64_t c = lane; c < p.channels; c += kWarpLanes) {
      const RoiMap& map = p.maps[reload(roi.level)];
      const int64_t* index = p.index + index_offset(p, k, c, y, 0);
      const T* grad = static_cast<const T*>(p.bins) + bin_offset(p, k, c, y, 0);
      for (int32_t x = 0; x < p.bins_x; ++x) {
        const TakenSample<Acc> s = taken_sample(roi, y, x, index[x * p.index_column_stride]);
        if (!s.is_on_map) continue;
        const Acc g = load_element(grad + x * p.bin_column_stride);
        const SamplePixels<Acc> v = load_sample<T, Acc>(map, roi.image, c, s);
        add_slopes(g * slope_along_y(s.y, s.x, v.a, v.b, v.c, v.d),
                   g * slope_along_x(s.y, s.x, v.a, v.b, v.c, v.d),
                   part_of_box(roi.y, y, s.row, y2_moves),
                   part_of_box(roi.x, x, s.column, x2_moves), &sum.x1, &sum.y1, &sum.x2, &sum.y2);
      }
    }
    return sum;
  });
}

void max_backward_input_cuda(const RoiAlignParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    using Acc = typename Accumulate<T>::type;
    const ListedRois<Acc> listed = list_rois<Acc>(p, workspace);
    const auto grid = tile_grid<MaxTile<Acc>>(p, p.channels, kWarp);
    launch(roi_align_max_gather<T>, grid_for(grid.count), dim3(kTileThreads), 0, workspace.stream(),
           p, listed, grid);
  });
}

void max_backward_boxes_cuda(const RoiAlignParams& p, Workspace& workspace) {
  with_floating_type(p.dtype, [&](auto* element) {
    each_grid(p.boxes.count, [&](int64_t first, dim3 grid) {
      launch(roi_align_max_backward_boxes<std::remove_pointer_t<decltype(element)>>, grid,
             dim3(kSumThreads), 0, workspace.stream(), p, first);
    });
  });
}

const bool registered = roi_align_max_backward_input_stub.set(kCudaSlot, max_backward_input_cuda) &&
                        roi_align_max_backward_boxes_stub.set(kCudaSlot, max_backward_boxes_cuda);

}  // namespace
}  // namespace visops
