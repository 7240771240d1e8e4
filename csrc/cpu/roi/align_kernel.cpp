// NOTE [ RoIAlign on the CPU ]
// Vectors are channels: a pixel's weight is a scalar, and nothing is gathered. A row of the map is
// summed into one row of bins for kLanes channels at a time, in registers, and that sum goes into
// every row of bins that reads it (NOTE [ RoIAlign samples ]).
//
// Maps that have their channels side by side, in the type that is computed in, are read where they
// are, and work is cut by boxes. Of others a block of channels is first brought into that form: the
// whole map where boxes read as much, else row by row what one box reads. Work is then cut by block
// and map.
//
// Rounding: as the NOTE says, without contraction; a bin's sum is within one task.
#include "core/roi/tables.h"
#include "cpu/roi/lanes.h"
#include "cpu/roi/sums.h"

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

// How a row of pixels is brought into lanes for one box: all from its first to its last column, or,
// where those it reads are far apart, one by one, which takes kApart times as long for each.
constexpr int64_t kApart = 4;

struct Columns {
  int64_t count;  // that are read; those of two bins twice
  int64_t range;

  bool are_apart() const { return count * kApart < range; }
  int64_t cost() const { return are_apart() ? count * kApart : range; }
};

template <class Acc>
Columns columns_of(const RoiAlignParams& p, const RoiTable<Acc>& table) {
  return {table.column_end[p.bins_x - 1], table.last_column - table.first_column + 1};
}

// The pixels around all that boxes of one map read, and what bringing in each box's own would cost.
struct Region {
  int64_t first_row, last_row, first_column, last_column;  // both included
  int64_t cost_of_boxes;

  int64_t columns() const { return last_column - first_column + 1; }
  int64_t area() const { return last_row < 0 ? 0 : (last_row - first_row + 1) * columns(); }
};

template <class Acc>
Region region_of(const RoiAlignParams& p, const int64_t* order, int64_t count) {
  Region region = {INT64_MAX, -1, INT64_MAX, -1, 0};
  for (int64_t i = 0; i < count; ++i) {
    const RoiTable<Acc>& t = static_cast<const RoiTable<Acc>*>(p.tables)[order[i]];
    if (t.row_count == 0 || t.last_column < t.first_column) continue;
    const int64_t first_row = t.rows[0].pixel, last_row = t.rows[t.row_count - 1].pixel;
    if (first_row < region.first_row) region.first_row = first_row;
    if (last_row > region.last_row) region.last_row = last_row;
    if (t.first_column < region.first_column) region.first_column = t.first_column;
    if (t.last_column > region.last_column) region.last_column = t.last_column;
    const int64_t range = last_row - first_row + 1;
    region.cost_of_boxes += (t.row_count < range ? t.row_count : range) * columns_of(p, t).cost();
  }
  return region;
}

// A block of channels of one map, as it comes into lanes.
template <class T, class Acc>
struct BlockSource {
  const RoiMap& map;
  int64_t image, channel, channels, lanes;

  const T* at(int64_t row, int64_t column) const {
    return map_pixel<const T>(map, image, channel, row, column);
  }
  void load_row(int64_t row, int64_t first, int64_t count, Acc* to) const {
    load_lanes(at(row, first), map.column_stride, map.channel_stride, channels, count, to, lanes);
  }
  // The columns that a box reads, to where they would be among all from its first one on.
  void load_columns(const RoiTable<Acc>& table, int64_t row, int64_t count, Acc* to) const {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t column = table.columns[i].pixel;
      const T* pixel = at(row, column);
      Acc* lane = to + (column - table.first_column) * lanes;
      for (int64_t c = 0; c < channels; ++c) lane[c] = load_element(pixel + c * map.channel_stride);
    }
  }
};

// The boxes of one map, for a block of channels. Room for a box's bins, then for pixels.
template <class T, class Acc>
void pool_block(const RoiAlignParams& p, int64_t map_index, int64_t channel, Acc* bins) {
  const int64_t* order = p.order + p.map_begin[map_index];
  const int64_t count = p.map_begin[map_index + 1] - p.map_begin[map_index];
  if (count == 0) return;
  const int64_t lanes = p.block_channels, bin_count = p.bins_y * p.bins_x;
  const int64_t channels = p.channels - channel < lanes ? p.channels - channel : lanes;
  const BlockSource<T, Acc> source = {p.maps[map_index / p.images], map_index % p.images, channel,
                                      channels, lanes};
  Acc* pixels = bins + bin_count * lanes;
  const int64_t room = p.scratch_bytes / static_cast<int64_t>(sizeof(Acc)) / lanes - bin_count;

  const Region region = region_of<Acc>(p, order, count);
  const bool whole = region.area() <= region.cost_of_boxes && region.area() <= room;
  const int64_t row_size = region.columns() * lanes;
  for (int64_t row = region.first_row; whole && row <= region.last_row; ++row) {
    source.load_row(row, region.first_column, region.columns(),
                    pixels + (row - region.first_row) * row_size);
  }
  for (int64_t i = 0; i < count; ++i) {
    const RoiTable<Acc>& table = static_cast<const RoiTable<Acc>*>(p.tables)[order[i]];
    const Columns columns = columns_of(p, table);
    const auto row_of = [&](int64_t row) -> const Acc* {
      if (whole) {
        return pixels + (row - region.first_row) * row_size - region.first_column * lanes;
      }
      if (columns.are_apart()) {
        source.load_columns(table, row, columns.count, pixels);
      } else {
        source.load_row(row, table.first_column, columns.range, pixels);
      }
      return pixels - table.first_column * lanes;
    };
    // Lanes of no channel, up to the next multiple of four, are summed and not stored.
    pool_box(p, table, row_of, whole ? row_size : 0, lanes, (channels + 3) / 4 * 4, bins, lanes);
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
