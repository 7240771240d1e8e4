// NOTE [ Read ahead ] for the augmentation.
#pragma once

#include "core/warp/augment_segment.h"
#include "cpu/read_ahead.h"

namespace visops {
namespace {

// For columns and rows of the output. Perspective maps and fill are not read ahead.
inline ReadAhead read_ahead(const AugmentParams& p, const AugmentSample& s, Span columns,
                            Span rows) {
  const int64_t size = element_size(p.dtype);
  const AugmentImage& image = s.image;
  const bool usable = !s.is_fill && !s.map.perspective;
  const bool interleaved = image.channel_stride == 1;
  return ReadAhead({image.data, image.height, usable ? image.width : 0,
                    interleaved && p.channels > 0 ? 1 : p.channels, image.channel_stride * size,
                    image.row_stride * size, image.column_stride * size},
                   s.map.m, s.antialias ? image.height : tap_count(s.mode), columns, rows);
}

constexpr int kBlockRows = 4;

// block(x0, y0, count, rows): up to kBlockRows rows go segment by segment, as in affine_kernel.cpp.
template <class Block>
VISOPS_ALWAYS_INLINE void for_each_block(const AugmentParams& p, const AugmentSample& s,
                                         Span columns, Span rows, const Block& block) {
  ReadAhead ahead = read_ahead(p, s, columns, rows);
  for (int64_t y0 = rows.begin; y0 < rows.end; y0 += kBlockRows) {
    ahead.at(y0);
    const int64_t below = rows.end - y0;
    for (int64_t x0 = columns.begin; x0 < columns.end; x0 += kSegment) {
      const int64_t left = columns.end - x0;
      block(x0, y0, static_cast<int>(left < kSegment ? left : kSegment),
            static_cast<int>(below < kBlockRows ? below : kBlockRows));
    }
  }
}

}  // namespace
}  // namespace visops
