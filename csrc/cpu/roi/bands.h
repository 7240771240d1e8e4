// The gradient of maps, for kernels that add boxes' parts to it one box after another.
//
// NOTE [ Bands ]
// Work is cut by channels and maps: a pixel's sum over boxes, in the order of their indices, is
// within one task, whatever the number of threads. Gradients that have their channels side by side,
// in the type that is computed in, are summed where they are. Of others a band of rows, as many as
// fit the scratch, is summed for a block of channels and then brought into its form; a box is read
// again for each band that it reaches.
#pragma once

#include "cpu/roi/lanes.h"

namespace visops {
namespace {

// Rows of pixels from `begin` to `end`, pixel (begin, 0)'s first channel at `data`.
template <class Acc>
struct Band {
  Acc* data;
  int64_t begin, end, row_stride, pixel_stride;
};

// A block of channels of one map. In `room` there is place for a box's bins of these channels.
template <class Acc>
struct BandTask {
  const RoiAlignParams& p;
  int64_t map_index, channel, channels;
  Acc* room;

  const RoiMap& map() const { return p.maps[map_index / p.images]; }
  int64_t image() const { return map_index % p.images; }
};

// spread(band) adds the boxes' parts.
template <class T, class Acc, class Spread>
VISOPS_ALWAYS_INLINE void sum_in_bands(const BandTask<Acc>& task, int64_t room_size,
                                       const Spread& spread) {
  const RoiAlignParams& p = task.p;
  const RoiMap& map = task.map();
  const int64_t lanes = p.block_channels, row_size = map.width * lanes;
  Acc* pixels = task.room + room_size;
  const int64_t rows = (p.scratch_bytes / static_cast<int64_t>(sizeof(Acc)) - room_size) / row_size;
  for (int64_t begin = 0; begin < map.height; begin += rows) {
    const int64_t end = map.height - begin < rows ? map.height : begin + rows;
    memset(pixels, 0, (end - begin) * row_size * sizeof(Acc));
    spread(Band<Acc>{pixels, begin, end, row_size, lanes});
    for (int64_t row = begin; row < end; ++row) {
      store_lanes(pixels + (row - begin) * row_size, lanes, task.channels, map.width,
                  map_pixel<T>(map, task.image(), task.channel, row, 0), map.column_stride,
                  map.channel_stride);
    }
  }
}

template <class Acc, class Spread>
VISOPS_ALWAYS_INLINE void sum_in_place(const BandTask<Acc>& task, const Spread& spread) {
  const RoiMap& map = task.map();
  for (int64_t row = 0; row < map.height; ++row) {
    for (int64_t column = 0; column < map.width; ++column) {
      memset(map_pixel<Acc>(map, task.image(), task.channel, row, column), 0,
             task.channels * sizeof(Acc));
    }
  }
  spread(Band<Acc>{map_pixel<Acc>(map, task.image(), task.channel, 0, 0), 0, map.height,
                   map.row_stride, map.column_stride});
}

// spread(T*, task, band) for every map and block of channels within these slices, T being the type
// of elements. Scratch begins with room for a box's bins of a block.
template <class Spread>
VISOPS_ALWAYS_INLINE void sum_over_boxes(const RoiAlignParams& p, int64_t begin, int64_t end,
                                         const Spread& spread) {
  const bool in_place = maps_are_lanes(p);
  for_each_block(p, begin, end, [&](int64_t map, int64_t channel, void* scratch) {
    with_element_type(p.dtype, [&](auto* element, auto* number) {
      using T = std::remove_pointer_t<decltype(element)>;
      using Acc = std::remove_pointer_t<decltype(number)>;
      const int64_t left = p.channels - channel, lanes = p.block_channels;
      const BandTask<Acc> task = {p, map, channel, left < lanes ? left : lanes,
                                  static_cast<Acc*>(scratch)};
      const auto add = [&](const Band<Acc>& band) { spread(element, task, band); };
      if constexpr (sizeof(T) == sizeof(Acc)) {
        if (in_place) return sum_in_place(task, add);
      }
      if constexpr (!std::is_same<T, uint8_t>::value) {  // which has no gradient
        sum_in_bands<T>(task, p.bins_y * p.bins_x * lanes, add);
      }
    });
  });
}

}  // namespace
}  // namespace visops
