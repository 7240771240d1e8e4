#include "core/roi/tables.h"

#include <algorithm>

namespace visops {
namespace {

constexpr int64_t kChunk = 64;  // boxes that one task lists

}  // namespace

template <class Acc>
RoiTables<Acc>::RoiTables(const RoiAlignParams& p)
    : chunks_((p.boxes.count + kChunk - 1) / kChunk), tables_(p.boxes.count) {}

template <class Acc>
int64_t RoiTables<Acc>::chunks() const {
  return static_cast<int64_t>(chunks_.size());
}

template <class Acc>
const RoiTable<Acc>* RoiTables<Acc>::data() const {
  return tables_.data();
}

template <class Acc>
void RoiTables<Acc>::build(const RoiAlignParams& p, int64_t first_chunk, int64_t last_chunk) {
  for (int64_t i = first_chunk; i < last_chunk; ++i) build_chunk(p, i);
}

template <class Acc>
void RoiTables<Acc>::build_chunk(const RoiAlignParams& p, int64_t index) {
  Chunk& chunk = chunks_[index];
  const int64_t begin = index * kChunk, end = std::min(begin + kChunk, p.boxes.count);
  struct Offsets {
    size_t rows, columns, ends;
  };
  Offsets offsets[kChunk + 1] = {};
  for (int64_t k = begin; k < end; ++k) {
    const Roi<Acc> roi = load_roi<Acc>(p, k);
    const auto factor = mean_factor(roi.y, roi.x);
    for (int64_t bin = 0; bin < p.bins_y; ++bin) {
      BinPixels<Acc> pixels = bin_pixels(roi.y, bin);
      while (next_pixel(roi.y, &pixels)) {
        chunk.rows.push_back({static_cast<int32_t>(pixels.pixel), static_cast<int32_t>(bin),
                              pixels.weight * factor});
      }
    }
    const size_t first_row = offsets[k - begin].rows, first_column = chunk.columns.size();
    const auto earlier = [](const RoiRow<Acc>& a, const RoiRow<Acc>& b) {
      return a.pixel < b.pixel || (a.pixel == b.pixel && a.bin < b.bin);
    };
    const auto rows = chunk.rows.begin() + static_cast<std::ptrdiff_t>(first_row);
    if (!std::is_sorted(rows, chunk.rows.end(), earlier)) {
      std::sort(rows, chunk.rows.end(), earlier);
    }
    RoiTable<Acc>& table = tables_[k];
    table.level = roi.level;
    table.image = roi.image;
    table.first_column = p.maps[roi.level].width;
    table.last_column = -1;
    for (int64_t bin = 0; bin < p.bins_x; ++bin) {
      BinPixels<Acc> pixels = bin_pixels(roi.x, bin);
      while (next_pixel(roi.x, &pixels)) {
        chunk.columns.push_back({static_cast<int32_t>(pixels.pixel), pixels.weight});
        table.first_column = std::min(table.first_column, pixels.pixel);
        table.last_column = std::max(table.last_column, pixels.pixel);
      }
      chunk.column_ends.push_back(static_cast<int32_t>(chunk.columns.size() - first_column));
    }
    table.row_count = static_cast<int64_t>(chunk.rows.size() - first_row);
    offsets[k - begin + 1] = {chunk.rows.size(), chunk.columns.size(), chunk.column_ends.size()};
  }
  for (int64_t k = begin; k < end; ++k) {  // only now do the lists stay where they are
    const Offsets& at = offsets[k - begin];
    tables_[k].rows = chunk.rows.data() + at.rows;
    tables_[k].columns = chunk.columns.data() + at.columns;
    tables_[k].column_end = chunk.column_ends.data() + at.ends;
  }
}

template class RoiTables<float>;
template class RoiTables<double>;

RoiOrder order_of_rois(const RoiAlignParams& p) {
  RoiOrder result;
  result.map_begin.assign(p.levels * p.images + 1, 0);
  std::vector<int64_t> maps(p.boxes.count);
  for (int64_t k = 0; k < p.boxes.count; ++k) {
    const bool in_double = p.dtype == DType::kFloat64;
    const auto map_of = [&](const auto& roi) { return roi.level * p.images + roi.image; };
    maps[k] = in_double ? map_of(load_roi<double>(p, k)) : map_of(load_roi<float>(p, k));
    ++result.map_begin[maps[k] + 1];
  }
  for (size_t i = 1; i < result.map_begin.size(); ++i) {
    result.map_begin[i] += result.map_begin[i - 1];
  }
  std::vector<int64_t> next(result.map_begin.begin(), result.map_begin.end() - 1);
  result.order.resize(p.boxes.count);
  for (int64_t k = 0; k < p.boxes.count; ++k) result.order[next[maps[k]]++] = k;
  return result;
}

void sort_by_place(const RoiAlignParams& p, RoiOrder* order) {
  constexpr double kStrip = 32.0;  // pixels; within a strip boxes go from top to bottom
  struct Place {
    double strip, y;
    int64_t box;
    bool operator<(const Place& other) const {
      return strip < other.strip || (strip == other.strip && y < other.y);
    }
  };
  std::vector<Place> places;
  for (size_t map = 0; map + 1 < order->map_begin.size(); ++map) {
    const int64_t begin = order->map_begin[map], end = order->map_begin[map + 1];
    const double scale = p.maps[map / p.images].scale;
    places.clear();
    for (int64_t i = begin; i < end; ++i) {
      const int64_t k = order->order[i];
      const auto coordinate = [&](int64_t c) {
        return load_coordinate<double>(p.boxes.data, p.boxes.dtype,
                                       k * p.boxes.box_stride + c * p.boxes.coordinate_stride);
      };
      const double x = (coordinate(1) + coordinate(3)) * scale / 2;
      places.push_back({std::floor(x / kStrip), coordinate(2) + coordinate(4), k});
    }
    std::stable_sort(places.begin(), places.end());
    for (int64_t i = begin; i < end; ++i) order->order[i] = places[i - begin].box;
  }
}

}  // namespace visops
