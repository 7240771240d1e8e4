// How a strip of the output is walked: a few rows at a time, segment by segment.
#pragma once

#include "core/warp/affine.h"
#include "cpu/read_ahead.h"

namespace visops {
namespace {

// block(x0, y0, count, rows): up to `Rows` rows finish a segment before the next one begins. Under
// rotation a row crosses many rows of the image, and cache lines that one row fetches serve the
// others.
template <int Rows, class Block>
VISOPS_ALWAYS_INLINE void for_each_block(ReadAhead& ahead, Span columns, Span rows,
                                         const Block& block) {
  for (int64_t y0 = rows.begin; y0 < rows.end; y0 += Rows) {
    ahead.at(y0);
    const int64_t below = rows.end - y0;
    for (int64_t x0 = columns.begin; x0 < columns.end; x0 += kSegment) {
      const int64_t left = columns.end - x0;
      block(x0, y0, static_cast<int>(left < kSegment ? left : kSegment),
            static_cast<int>(below < Rows ? below : Rows));
    }
  }
}

}  // namespace
}  // namespace visops
