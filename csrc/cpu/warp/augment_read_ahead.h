// NOTE [ Read ahead ] for the augmentation.
#pragma once

#include "core/warp/augment_segment.h"
#include "cpu/prefetch.h"

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

}  // namespace
}  // namespace visops
