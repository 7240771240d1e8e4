// NOTE [ RoIAlign on the CPU ]
// Vectors are channels: a pixel's weight is a scalar, and nothing is gathered. A row of the map is
// summed into one row of bins in registers, kSummedChannels at a time, and that sum is added to
// every row of bins that reads it (NOTE [ RoIAlign samples ]).
//
// Maps with adjacent channels, of the type that is computed in, are read in place, and work is
// split by boxes. Other maps are first converted to blocks of channels: the whole map if its boxes
// read that much, else the rows that one box reads. Work is then split by slices (NOTE [ RoIAlign
// schedules ]).
//
// Rounding: as the NOTE says, without contraction; one task sums a bin.
#include "cpu/roi/blocks.h"
#include "cpu/roi/sums.h"

namespace visops {
namespace {

// Sums all of a box's rows into bins[bin][channel], which it zeroes first. `row_of` returns where
// column 0 of a row of the map is, at the first channel. Rows are row_stride apart; 0: `row_of`
// makes them on demand.
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
    for_channels(channels, [&](auto constant, int64_t c, int64_t n) {
      pool_row<constant()>(table, entries, row + c, next_row, pixel_stride, n,
                           BlockBins<Acc>{data + c, bin_stride, p.bins_x});
    });
    first = entries.last;
  }
}

template <class Acc>
void pool_in_place(const RoiAlignParams& p, const RoiPlan& plan, int64_t begin, int64_t end) {
  const auto* tables = static_cast<const RoiTable<Acc>*>(plan.tables);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t k = plan.order[i];
    const RoiTable<Acc>& table = tables[k];
    const RoiMap& map = p.maps[table.level];
    const auto row_of = [&](int64_t row) {
      return map_pixel<const Acc>(map, table.image, 0, row, 0);
    };
    pool_box(p, table, row_of, map.row_stride, map.column_stride, p.channels,
             static_cast<Acc*>(p.bins) + k * p.roi_stride, p.bin_column_stride);
  }
}

// How a row of pixels is converted for one box: all columns from its first to its last, or one by
// one where the columns it reads are far apart, which takes kApart times as long for each.
constexpr int64_t kApart = 4;

struct Columns {
  int64_t count;  // columns read; a column of two bins counts twice
  int64_t range;

  bool are_apart() const { return count * kApart < range; }
  int64_t cost() const { return are_apart() ? count * kApart : range; }
};

template <class Acc>
Columns columns_of(const RoiAlignParams& p, const RoiTable<Acc>& table) {
  return {table.column_end[p.bins_x - 1], table.last_column - table.first_column + 1};
}

// The smallest rectangle of pixels that holds all that a map's boxes read, and the cost of
// converting each box's own pixels instead.
struct Region {
  int64_t first_row, last_row, first_column, last_column;  // both included
  int64_t cost_of_boxes;

  int64_t columns() const { return last_row < 0 ? 0 : last_column - first_column + 1; }
  int64_t area() const { return last_row < 0 ? 0 : (last_row - first_row + 1) * columns(); }
};

template <class Acc>
Region region_of(const RoiAlignParams& p, const RoiTable<Acc>* tables, const int64_t* order,
                 int64_t count) {
  Region region = {INT64_MAX, -1, INT64_MAX, -1, 0};
  for (int64_t i = 0; i < count; ++i) {
    const RoiTable<Acc>& t = tables[order[i]];
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

// A block of channels of one map, and how its pixels are converted.
template <class T, class Acc>
struct BlockSource {
  const RoiMap& map;
  int64_t image, channel, channels, pitch;

  const T* at(int64_t row, int64_t column) const {
    return map_pixel<const T>(map, image, channel, row, column);
  }
  void load_row(int64_t row, int64_t first, int64_t count, Acc* to) const {
    load_block(at(row, first), map.column_stride, map.channel_stride, channels, count, to, pitch);
  }
  // Only the columns that a box reads, placed as load_row() from its first column on places them.
  void load_columns(const RoiTable<Acc>& table, int64_t row, int64_t count, Acc* to) const {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t column = table.columns[i].pixel;
      const T* pixel = at(row, column);
      Acc* out = to + (column - table.first_column) * pitch;
      for (int64_t c = 0; c < channels; ++c) out[c] = load_element(pixel + c * map.channel_stride);
    }
  }
};

// Pools the boxes of one map for a block of channels. Scratch begins at `bins`: room for a box's
// bins, then for pixels.
template <class T, class Acc>
void pool_block(const RoiAlignParams& p, const RoiPlan& plan, int64_t map_index, int64_t channel,
                Acc* bins) {
  const int64_t* order = plan.order + plan.map_begin[map_index];
  const int64_t count = plan.map_begin[map_index + 1] - plan.map_begin[map_index];
  const auto* tables = static_cast<const RoiTable<Acc>*>(plan.tables);
  if (count == 0) return;
  const int64_t pitch = plan.block_channels, bin_count = p.bins_y * p.bins_x;
  const int64_t channels = p.channels - channel < pitch ? p.channels - channel : pitch;
  const BlockSource<T, Acc> source = {p.maps[map_index / p.images], map_index % p.images, channel,
                                      channels, pitch};
  Acc* pixels = bins + bin_count * pitch;
  const int64_t room = plan.scratch_bytes / static_cast<int64_t>(sizeof(Acc)) / pitch - bin_count;

  const Region region = region_of(p, tables, order, count);
  const bool whole = region.area() <= region.cost_of_boxes && region.area() <= room;
  const int64_t row_size = region.columns() * pitch;
  for (int64_t row = region.first_row; whole && row <= region.last_row; ++row) {
    source.load_row(row, region.first_column, region.columns(),
                    pixels + (row - region.first_row) * row_size);
  }
  for (int64_t i = 0; i < count; ++i) {
    const RoiTable<Acc>& table = tables[order[i]];
    const Columns columns = columns_of(p, table);
    const auto row_of = [&](int64_t row) -> const Acc* {
      if (whole) {
        return pixels + (row - region.first_row) * row_size - region.first_column * pitch;
      }
      if (columns.are_apart()) {
        source.load_columns(table, row, columns.count, pixels);
      } else {
        source.load_row(row, table.first_column, columns.range, pixels);
      }
      return pixels - table.first_column * pitch;
    };
    // Sums full groups of four; those after the last channel are not stored.
    pool_box(p, table, row_of, whole ? row_size : 0, pitch, (channels + 3) / 4 * 4, bins, pitch);
    store_bins<T>(p, order[i], channel, channels, bins, pitch);
  }
}

void pool_slices(const RoiAlignParams& p, const RoiPlan& plan, int64_t begin, int64_t end) {
  for_each_block(p, plan, begin, end, [&](int64_t map, int64_t channel, void* scratch) {
    with_element_type(p.dtype, [&](auto* element) {
      using T = std::remove_pointer_t<decltype(element)>;
      using Acc = typename Accumulate<T>::type;
      pool_block<T>(p, plan, map, channel, static_cast<Acc*>(scratch));
    });
  });
}

void roi_align_kernel(const RoiAlignParams& p, Workspace& workspace) {
  if (!uses_maps_in_place(p) || p.channel_stride != 1) {
    run_over_blocks(p, workspace, pool_slices);
  } else if (p.dtype == DType::kFloat64) {
    run_over_listed_boxes(p, workspace, pool_in_place<double>);
  } else {
    run_over_listed_boxes(p, workspace, pool_in_place<float>);
  }
}

const bool registered = roi_align_stub.set(kIsaSlot, roi_align_kernel);

}  // namespace
}  // namespace visops
