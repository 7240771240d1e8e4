// Where the elements of maps, bins and indices lie.
#pragma once

#include "core/roi/align.h"

namespace visops {

template <class T>
VISOPS_HOT_FN T* map_pixel(const RoiMap& map, int64_t image, int64_t channel, int64_t row,
                           int64_t column) {
  return static_cast<T*>(map.data) + image * map.image_stride + channel * map.channel_stride +
         row * map.row_stride + column * map.column_stride;
}

// Where bin [bin_y, bin_x] of box k lies in `bins`, ...
VISOPS_HOT_FN int64_t bin_offset(const RoiAlignParams& p, int64_t k, int64_t channel, int64_t bin_y,
                                 int64_t bin_x) {
  return k * p.roi_stride + channel * p.channel_stride + bin_y * p.bin_row_stride +
         bin_x * p.bin_column_stride;
}
// ... and in `index`.
VISOPS_HOT_FN int64_t index_offset(const RoiAlignParams& p, int64_t k, int64_t channel,
                                   int64_t bin_y, int64_t bin_x) {
  return k * p.index_roi_stride + channel * p.index_channel_stride + bin_y * p.index_row_stride +
         bin_x * p.index_column_stride;
}

}  // namespace visops
