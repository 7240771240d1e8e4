// NOTE [ RoIAlign on the CPU ]
// Vectors are channels: a pixel's weight is a scalar, and nothing is gathered. A row of the map is
// summed into one row of bins for kLanes channels at a time, in registers, and that sum goes into
// every row of bins that reads it (NOTE [ RoIAlign samples ]).
//
// Maps that have their channels side by side, in the type that is computed in, are read where they
// are, and work is cut by boxes. Of others a block of channels is first brought into that form: the
// whole map where boxes cover it more than once, else row by row what a box reads. Work is then
// cut by block and map.
//
// Rounding: as the NOTE says, without contraction; a bin's sum is within one task.
#include "core/roi_tables.h"
#include "cpu/roi_lanes.h"
#include "cpu/roi_sums.h"

namespace visops {
namespace {

// All of a box's rows into bins[bin][channel], which is zeroed first. `row_of` gives where column 0
// of a row of the map is, at the first channel. Rows are row_stride apart; 0: they come on demand.
template <class Acc, class RowOf>
VISOPS_ALWAYS_INLINE void pool_box(const RoiAlignParams& p, const RoiTable<Acc>& table,
                                   const RowOf& row_of, int64_t row_stride, int64_t pixel_stride,
                                   int64_t channels, Acc* data, int64_t bin_stride) {
  for (int64_t b = 0; b < p.bins_y * p.bins_x; ++b) {
    memset(data + b * bin_stride, 0, channels * sizeof(Acc));
  }
  for (int64_t first = 0; first < table.row_count;) {
    const RowEntries entries = entries_from(table, first);
    const int64_t pixel_row = table.rows[first].pixel;
    const Acc* row = row_of(pixel_row);
    const int64_t next_row = entries.last < table.row_count
                                 ? (table.rows[entries.last].pixel - pixel_row) * row_stride
                                 : 0;
    for_each_lanes(channels, [&](auto lanes, int64_t c, int64_t n) {
      pool_row<lanes()>(table, entries, row + c, next_row, pixel_stride, n,
                        BinLanes<Acc>{data + c, bin_stride, p.bins_x});
    });
    first = entries.last;
  }
}

template <class Acc>
void pool_in_place(const RoiAlignParams& p, int64_t begin, int64_t end) {
  const auto* tables = static_cast<const RoiTable<Acc>*>(p.tables);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t k = p.order[i];
    const RoiTable<Acc>& table = tables[k];
    const RoiMap& map = p.maps[table.level];
    const auto row_of = [&](int64_t row) {
      return map_pixel<const Acc>(map, table.image, 0, row, 0);
    };
    pool_box(p, table, row_of, map.row_stride, map.column_stride, p.channels,
             static_cast<Acc*>(p.bins) + k * p.roi_stride, p.bin_column_stride);
  }
}

void roi_align_kernel(const RoiAlignParams& p, int64_t begin, int64_t end) {
  if (p.dtype == DType::kFloat64) {
    pool_in_place<double>(p, begin, end);
  } else {
    pool_in_place<float>(p, begin, end);
  }
}

// Pixels that boxes of one map read, and how many they are if those of each are counted.
struct Region {
  int64_t first_row, last_row, first_column, last_column;  // both included
  int64_t box_pixels;
};

template <class Acc>
Region region_of(const RoiTable<Acc>* tables, const int64_t* order, int64_t count) {
  Region region = {INT64_MAX, -1, INT64_MAX, -1, 0};
  for (int64_t i = 0; i < count; ++i) {
    const RoiTable<Acc>& t = tables[order[i]];
    if (t.row_count == 0 || t.last_column < t.first_column) continue;
    const int64_t first_row = t.rows[0].pixel, last_row = t.rows[t.row_count - 1].pixel;
    if (first_row < region.first_row) region.first_row = first_row;
    if (last_row > region.last_row) region.last_row = last_row;
    if (t.first_column < region.first_column) region.first_column = t.first_column;
    if (t.last_column > region.last_column) region.last_column = t.last_column;
    region.box_pixels += (last_row - first_row + 1) * (t.last_column - t.first_column + 1);
  }
  return region;
}

// The boxes of one map, for a block of channels.
template <class T, class Acc>
void pool_block(const RoiAlignParams& p, int64_t map_index, int64_t channel, Acc* bins) {
  const int64_t* order = p.order + p.map_begin[map_index];
  const int64_t count = p.map_begin[map_index + 1] - p.map_begin[map_index];
  if (count == 0) return;
  const auto* tables = static_cast<const RoiTable<Acc>*>(p.tables);
  const RoiMap& map = p.maps[map_index / p.images];
  const int64_t image = map_index % p.images, lanes = p.block_channels;
  const int64_t channels = p.channels - channel < lanes ? p.channels - channel : lanes;
  Acc* pixels = bins + p.bins_y * p.bins_x * lanes;
  const int64_t pixel_room =
      p.scratch_bytes / static_cast<int64_t>(sizeof(Acc)) / lanes - p.bins_y * p.bins_x;
  const auto load_row = [&](int64_t row, int64_t first, int64_t columns, Acc* to) {
    load_lanes(map_pixel<const T>(map, image, channel, row, first), map.column_stride,
               map.channel_stride, channels, columns, to, lanes);
  };

  const Region region = region_of(tables, order, count);
  const int64_t columns = region.last_column - region.first_column + 1;
  const int64_t area = (region.last_row - region.first_row + 1) * columns;
  const bool whole = region.last_row >= 0 && area <= region.box_pixels && area <= pixel_room;
  for (int64_t row = region.first_row; whole && row <= region.last_row; ++row) {
    load_row(row, region.first_column, columns,
             pixels + (row - region.first_row) * columns * lanes);
  }
  for (int64_t i = 0; i < count; ++i) {
    const RoiTable<Acc>& table = tables[order[i]];
    const auto row_of = [&](int64_t row) -> const Acc* {
      if (whole) {
        return pixels + ((row - region.first_row) * columns - region.first_column) * lanes;
      }
      load_row(row, table.first_column, table.last_column - table.first_column + 1, pixels);
      return pixels - table.first_column * lanes;
    };
    pool_box(p, table, row_of, whole ? columns * lanes : 0, lanes, channels, bins, lanes);
    store_bins<T>(p, order[i], channel, channels, bins, lanes);
  }
}

void roi_align_blocks_kernel(const RoiAlignParams& p, int64_t begin, int64_t end) {
  for_each_block(p, begin, end, [&](int64_t map, int64_t channel, void* scratch) {
    with_element_type(p.dtype, [&](auto* element, auto* number) {
      using T = std::remove_pointer_t<decltype(element)>;
      using Acc = std::remove_pointer_t<decltype(number)>;
      pool_block<T>(p, map, channel, static_cast<Acc*>(scratch));
    });
  });
}

const bool registered = roi_align_stub.set(kIsaSlot, roi_align_kernel) &&
                        roi_align_blocks_stub.set(kIsaSlot, roi_align_blocks_kernel);

}  // namespace
}  // namespace visops
