#include "core/roi/schedule.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/check.h"
#include "core/dispatch/threads.h"

namespace visops {
namespace {

// The bytes of pixels that a thread copies of a map: what it aims for, and what it may take.
constexpr int64_t kCacheBytes = int64_t{12} << 20, kMostBytes = int64_t{48} << 20;
constexpr int64_t kBandBytes = int64_t{4}
                               << 20;   // of a map's gradient that a thread sums at a time
constexpr int64_t kLeastChannels = 32;  // in smaller blocks a channel takes three times as long
constexpr int64_t kChunk = 64;          // boxes that one task lists

int64_t accumulator_bytes(const RoiAlignParams& p) { return p.dtype == DType::kFloat64 ? 8 : 4; }

int64_t rounded_up(int64_t count, int64_t step) { return (count + step - 1) / step * step; }

// The numbers that a pixel of all channels takes in a block. Maps of a few channels, images among
// them, would otherwise be copied to a cache line for each pixel.
int64_t widest_block(const RoiAlignParams& p) {
  return rounded_up(p.channels, p.channels < kFewSummedChannels ? 4 : kFewSummedChannels);
}

// Owns what RoiTable points to. Chunks of boxes are listed in parallel.
template <class Acc>
class RoiTables {
 public:
  RoiTables(const RoiAlignParams& p, Workspace& workspace)
      : chunks_((p.boxes.count + kChunk - 1) / kChunk), tables_(p.boxes.count) {
    parallel_for(workspace, static_cast<int64_t>(chunks_.size()), 1,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) list_chunk(p, i);
                 });
  }
  const RoiTable<Acc>* data() const { return tables_.data(); }

 private:
  struct Chunk {
    std::vector<RoiRow<Acc>> rows;
    std::vector<RoiColumn<Acc>> columns;
    std::vector<int32_t> column_ends;
  };
  struct Offsets {
    size_t rows, columns, ends;
  };

  void list_chunk(const RoiAlignParams& p, int64_t index) {
    Chunk& chunk = chunks_[index];
    const int64_t begin = index * kChunk, end = std::min(begin + kChunk, p.boxes.count);
    Offsets offsets[kChunk + 1] = {};
    for (int64_t k = begin; k < end; ++k) {
      list_rows_and_columns(p, k, &chunk);
      offsets[k - begin + 1] = {chunk.rows.size(), chunk.columns.size(), chunk.column_ends.size()};
    }
    for (int64_t k = begin; k < end; ++k) {  // only now do the lists stay where they are
      const Offsets& at = offsets[k - begin];
      tables_[k].rows = chunk.rows.data() + at.rows;
      tables_[k].columns = chunk.columns.data() + at.columns;
      tables_[k].column_end = chunk.column_ends.data() + at.ends;
    }
  }

  void list_rows_and_columns(const RoiAlignParams& p, int64_t k, Chunk* chunk) {
    const Roi<Acc> roi = load_roi<Acc>(p, k);
    const size_t first_row = chunk->rows.size(), first_column = chunk->columns.size();
    const auto factor = mean_factor(roi.y, roi.x);
    for (int32_t bin = 0; bin < p.bins_y; ++bin) {
      BinPixels<Acc> pixels = bin_pixels(roi.y, bin);
      while (next_pixel(roi.y, &pixels)) {
        chunk->rows.push_back({pixels.pixel, bin, pixels.weight * factor});
      }
    }
    const auto earlier = [](const RoiRow<Acc>& a, const RoiRow<Acc>& b) {
      return a.pixel < b.pixel || (a.pixel == b.pixel && a.bin < b.bin);
    };
    const auto rows = chunk->rows.begin() + static_cast<std::ptrdiff_t>(first_row);
    if (!std::is_sorted(rows, chunk->rows.end(), earlier)) {
      std::sort(rows, chunk->rows.end(), earlier);
    }
    RoiTable<Acc>& table = tables_[k];
    table.level = roi.level;
    table.image = roi.image;
    table.row_count = static_cast<int64_t>(chunk->rows.size() - first_row);
    table.first_column = p.maps[roi.level].width;
    table.last_column = -1;
    for (int32_t bin = 0; bin < p.bins_x; ++bin) {
      BinPixels<Acc> pixels = bin_pixels(roi.x, bin);
      while (next_pixel(roi.x, &pixels)) {
        chunk->columns.push_back({pixels.pixel, pixels.weight});
        table.first_column = std::min<int64_t>(table.first_column, pixels.pixel);
        table.last_column = std::max<int64_t>(table.last_column, pixels.pixel);
      }
      chunk->column_ends.push_back(static_cast<int32_t>(chunk->columns.size() - first_column));
    }
    if (table.last_column < 0) {  // the box misses the map
      chunk->rows.resize(first_row);
      table.row_count = table.first_column = 0;
    }
  }

  std::vector<Chunk> chunks_;
  std::vector<RoiTable<Acc>> tables_;
};

// Boxes by map, then by index. All boxes are valid.
struct RoiOrder {
  std::vector<int64_t> order;
  int64_t* map_begin;  // [map_count + 1] of the workspace: there may be far more maps than boxes
  int64_t map_count;

  RoiOrder(const RoiAlignParams& p, Workspace& workspace);
  // Reorders the boxes of each map, for results that do not depend on the order.
  void sort_by_position(const RoiAlignParams& p);
};

RoiOrder::RoiOrder(const RoiAlignParams& p, Workspace& workspace)
    : order(p.boxes.count),
      map_begin(allocate<int64_t>(workspace, p.levels * p.images + 1)),
      map_count(p.levels * p.images) {
  std::fill_n(map_begin, map_count + 1, 0);
  std::vector<int64_t> maps(p.boxes.count);
  for (int64_t k = 0; k < p.boxes.count; ++k) {
    const auto map_of = [&](const auto& roi) { return roi.level * p.images + roi.image; };
    maps[k] =
        p.dtype == DType::kFloat64 ? map_of(load_roi<double>(p, k)) : map_of(load_roi<float>(p, k));
    ++map_begin[maps[k]];
  }
  // Where each map's boxes end. Filling them in from behind turns ends into beginnings.
  for (int64_t map = 1; map <= map_count; ++map) map_begin[map] += map_begin[map - 1];
  for (int64_t k = p.boxes.count; k-- > 0;) order[--map_begin[maps[k]]] = k;
}

void RoiOrder::sort_by_position(const RoiAlignParams& p) {
  constexpr double kStrip = 32.0;  // pixels; within a strip boxes go from top to bottom
  struct Position {
    double strip, y;
    int64_t box;
    bool operator<(const Position& other) const {
      return strip < other.strip || (strip == other.strip && y < other.y);
    }
  };
  std::vector<Position> positions;
  for (int64_t map = 0; map < map_count; ++map) {
    const int64_t begin = map_begin[map], end = map_begin[map + 1];
    const double scale = p.maps[map / p.images].scale;
    positions.clear();
    for (int64_t i = begin; i < end; ++i) {
      const auto coordinate = [&](int64_t c) {
        return load_coordinate<double>(
            p.boxes.data, p.boxes.dtype,
            order[i] * p.boxes.box_stride + c * p.boxes.coordinate_stride);
      };
      const double x = (coordinate(1) + coordinate(3)) * scale / 2;
      positions.push_back({std::floor(x / kStrip), coordinate(2) + coordinate(4), order[i]});
    }
    std::stable_sort(positions.begin(), positions.end());
    for (int64_t i = begin; i < end; ++i) order[i] = positions[i - begin].box;
  }
}

enum class By { kIndex, kPosition };

// run(plan) with boxes in order.
template <class Run>
void with_order(const RoiAlignParams& p, Workspace& workspace, By by, const void* tables,
                const Run& run) {
  RoiOrder order(p, workspace);
  if (by == By::kPosition) order.sort_by_position(p);
  RoiPlan plan = {};
  plan.order = order.order.data();
  plan.map_begin = order.map_begin;
  plan.tables = tables;
  run(plan);
}

// ... and with tables.
template <class Run>
void with_tables(const RoiAlignParams& p, Workspace& workspace, By by, const Run& run) {
  if (p.dtype == DType::kFloat64) {
    with_order(p, workspace, by, RoiTables<double>(p, workspace).data(), run);
  } else {
    with_order(p, workspace, by, RoiTables<float>(p, workspace).data(), run);
  }
}

void run_task(const RoiAlignParams& p, const RoiPlan& plan, Workspace& workspace, RoiTask task,
              int64_t count, int64_t grain) {
  parallel_for(workspace, count, grain,
               [&](int64_t begin, int64_t end) { task(p, plan, begin, end); });
}

void run_boxes(const RoiAlignParams& p, const RoiPlan& plan, Workspace& workspace, RoiTask task) {
  run_task(p, plan, workspace, task, p.boxes.count, grain_of(box_cost(p)));
}

// `numbers` of scratch follow a box's bins.
void run_slices(const RoiAlignParams& p, RoiPlan plan, Workspace& workspace, RoiTask task,
                int64_t numbers) {
  const int64_t blocks = (p.channels + plan.block_channels - 1) / plan.block_channels;
  plan.slices = std::min(workspace.threads(), blocks * p.levels * p.images);
  const int64_t bins =
      saturating_product(saturating_product(p.bins_y, p.bins_x), plan.block_channels);
  // So far below 2^63 that the sums below can't overflow; far more than any machine has.
  const int64_t bins_bytes =
      std::min(saturating_product(bins, accumulator_bytes(p)), int64_t{1} << 61);
  plan.scratch_bytes = rounded_up(bins_bytes + numbers * accumulator_bytes(p), 64);
  plan.scratch = allocate<char>(workspace, saturating_product(plan.slices, plan.scratch_bytes));
  run_task(p, plan, workspace, task, plan.slices, 1);
}

// Blocks small enough that each thread has one.
int64_t channels_for_threads(const RoiAlignParams& p, const Workspace& workspace,
                             int64_t channels) {
  const int64_t threads = workspace.threads();
  while (channels > kLeastChannels && (p.channels + channels - 1) / channels * p.images < threads) {
    channels = rounded_up(channels / 2, kFewSummedChannels);
  }
  return channels;
}

int64_t largest(const RoiAlignParams& p, int64_t (*size_of)(const RoiMap&)) {
  int64_t most = 0;
  for (int64_t level = 0; level < p.levels; ++level) most = std::max(most, size_of(p.maps[level]));
  return most;
}

int64_t most_pixels(const RoiAlignParams& p) {
  return largest(p, [](const RoiMap& map) { return saturating_product(map.height, map.width); });
}

int64_t widest(const RoiAlignParams& p) {
  return largest(p, [](const RoiMap& map) { return map.width; });
}

}  // namespace

bool uses_maps_in_place(const RoiAlignParams& p) {
  bool in_place = p.dtype == DType::kFloat32 || p.dtype == DType::kFloat64;
  for (int64_t level = 0; level < p.levels; ++level) {
    in_place = in_place && p.maps[level].channel_stride == 1;
  }
  return in_place;
}

int64_t box_cost(const RoiAlignParams& p) {
  return saturating_product(saturating_product(p.bins_y, p.bins_x), 4 * p.channels);
}

void run_over_boxes(const RoiAlignParams& p, Workspace& workspace, RoiTask task) {
  with_order(p, workspace, By::kPosition, nullptr,
             [&](const RoiPlan& plan) { run_boxes(p, plan, workspace, task); });
}

void run_over_listed_boxes(const RoiAlignParams& p, Workspace& workspace, RoiTask task) {
  with_tables(p, workspace, By::kPosition,
              [&](const RoiPlan& plan) { run_boxes(p, plan, workspace, task); });
}

void run_over_blocks(const RoiAlignParams& p, Workspace& workspace, RoiTask task) {
  const int64_t pixels = most_pixels(p);
  const auto bytes_of = [&](int64_t channels) {
    return saturating_product(pixels, channels * accumulator_bytes(p));
  };
  const int64_t few =
      channels_for_threads(p, workspace, std::min<int64_t>(kSummedChannels, widest_block(p)));
  int64_t channels = few;
  while (channels > kLeastChannels && bytes_of(channels) > kCacheBytes) {
    channels = rounded_up(channels / 2, kFewSummedChannels);
  }
  const bool fits = bytes_of(channels) <= kMostBytes;
  if (!fits) channels = few;
  with_tables(p, workspace, By::kPosition, [&](RoiPlan plan) {
    plan.block_channels = channels;
    run_slices(p, plan, workspace, task, (fits ? pixels : widest(p)) * channels);
  });
}

void run_over_gradient_blocks(const RoiAlignParams& p, Workspace& workspace, RoiTask task) {
  const bool in_place = uses_maps_in_place(p);
  const int64_t all = widest_block(p);
  const int64_t channels =
      channels_for_threads(p, workspace, in_place ? all : std::min<int64_t>(kSummedChannels, all));
  const int64_t row = widest(p) * channels;
  const int64_t band =
      std::min(saturating_product(most_pixels(p), channels), kBandBytes / accumulator_bytes(p));
  const auto run = [&](RoiPlan plan) {
    plan.block_channels = channels;
    run_slices(p, plan, workspace, task, in_place ? 0 : std::max(row, band));
  };
  if (p.index != nullptr) {
    with_order(p, workspace, By::kIndex, nullptr, run);
  } else {
    with_tables(p, workspace, By::kIndex, run);
  }
}

}  // namespace visops
