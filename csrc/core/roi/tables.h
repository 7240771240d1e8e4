// The pixels of every box's bins, listed once for all channels. CPU only; for fronts, but for the
// plain structures, which kernels read.
#pragma once

#include <cstdint>
#include <vector>

#include "core/roi/align.h"

namespace visops {

// A pixel row that bins read; the mean's divisor is in the weight.
template <class Acc>
struct RoiRow {
  int32_t pixel, bin;
  Acc weight;
};

template <class Acc>
struct RoiColumn {
  int32_t pixel;
  Acc weight;
};

template <class Acc>
struct RoiTable {
  const RoiRow<Acc>* rows;        // [row_count], by rising pixel, then by bin
  const RoiColumn<Acc>* columns;  // bin by bin, by rising pixel
  const int32_t* column_end;      // [bins_x] of each bin in `columns`
  int64_t row_count, level, image;
  int64_t first_column, last_column;  // pixels that columns lie within; both included
};

// Owns what RoiTable points to. Chunks of boxes may be built in parallel.
template <class Acc>
class RoiTables {
 public:
  explicit RoiTables(const RoiAlignParams& p);
  int64_t chunks() const;
  void build(const RoiAlignParams& p, int64_t first_chunk, int64_t last_chunk);
  const RoiTable<Acc>* data() const;

 private:
  struct Chunk {
    std::vector<RoiRow<Acc>> rows;
    std::vector<RoiColumn<Acc>> columns;
    std::vector<int32_t> column_ends;
  };
  void build_chunk(const RoiAlignParams& p, int64_t index);

  std::vector<Chunk> chunks_;
  std::vector<RoiTable<Acc>> tables_;
};

extern template class RoiTables<float>;
extern template class RoiTables<double>;

// Boxes by map, for RoiAlignParams' `order` and `map_begin`. All boxes are valid.
struct RoiOrder {
  std::vector<int64_t> order, map_begin;
};

RoiOrder order_of_rois(const RoiAlignParams& p);

// Boxes of each map that lie near one another follow one another: their pixels are in the caches.
// For results that do not depend on the order.
void sort_by_place(const RoiAlignParams& p, RoiOrder* order);

}  // namespace visops
