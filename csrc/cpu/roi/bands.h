// The gradient of maps, for kernels that add one box's share after another.
//
// NOTE [ Bands of gradients ]
// Work is split by channels and maps, so one task sums a pixel over all boxes, in the order of
// their indices, whatever the number of threads. Gradients with adjacent channels, of the type that
// is computed in, are summed in place. For others a band of rows, as many as fit the scratch, is
// summed for a block of channels and then converted; a box is read again for each band that it
// reaches.
#pragma once

#include "core/dispatch/threads.h"
#include "core/dispatch/workspace.h"
#include "core/roi/align.h"
#include "cpu/roi/blocks.h"

namespace visops {
namespace {

// Rows [begin, end) of pixels; the first channel of pixel (begin, 0) is at `data`.
template <class Acc>
struct Band {
  Acc* data;
  int64_t begin, end, row_stride, pixel_stride;
};

// A block of channels of one map, with room for a box's bins of these channels.
template <class Acc>
struct BandTask {
  const RoiAlignParams& p;
  const RoiPlan& plan;
  int64_t map_index, channel, channels;
  Acc* room;

  const RoiMap& map() const { return p.maps[map_index / p.images]; }
  int64_t image() const { return map_index % p.images; }

  // f(k) for the map's boxes, by index.
  template <class F>
  VISOPS_ALWAYS_INLINE void for_each_box(const F& f) const {
    for (int64_t i = plan.map_begin[map_index]; i < plan.map_begin[map_index + 1]; ++i) {
      f(plan.order[i]);
    }
  }
};

// spread(band) adds the boxes' shares.
template <class T, class Acc, class Spread>
VISOPS_ALWAYS_INLINE void sum_in_bands(const BandTask<Acc>& task, const Spread& spread) {
  const RoiAlignParams& p = task.p;
  const RoiMap& map = task.map();
  const int64_t pitch = task.plan.block_channels, row_size = map.width * pitch;
  if (row_size == 0) return;  // a level without pixels
  const int64_t room_size = p.bins_y * p.bins_x * pitch;
  Acc* pixels = task.room + room_size;
  const int64_t scratch_size = task.plan.scratch_bytes / static_cast<int64_t>(sizeof(Acc));
  const int64_t rows = (scratch_size - room_size) / row_size;
  for (int64_t begin = 0; begin < map.height; begin += rows) {
    const int64_t end = map.height - begin < rows ? map.height : begin + rows;
    memset(pixels, 0, (end - begin) * row_size * sizeof(Acc));
    spread(Band<Acc>{pixels, begin, end, row_size, pitch});
    for (int64_t row = begin; row < end; ++row) {
      store_block(pixels + (row - begin) * row_size, pitch, task.channels, map.width,
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

// spread(T*, task, band) for every map and block of channels in these slices; T is the type of
// elements.
template <class Spread>
VISOPS_ALWAYS_INLINE void sum_over_boxes(const RoiAlignParams& p, const RoiPlan& plan,
                                         int64_t begin, int64_t end, const Spread& spread) {
  const bool in_place = uses_maps_in_place(p);
  for_each_block(p, plan, begin, end, [&](int64_t map, int64_t channel, void* scratch) {
    with_floating_type(p.dtype, [&](auto* element) {
      using T = std::remove_pointer_t<decltype(element)>;
      using Acc = typename Accumulate<T>::type;
      const int64_t left = p.channels - channel, most = plan.block_channels;
      const BandTask<Acc> task = {
          p, plan, map, channel, left < most ? left : most, static_cast<Acc*>(scratch)};
      const auto add = [&](const Band<Acc>& band) { spread(element, task, band); };
      if constexpr (sizeof(T) == sizeof(Acc)) {
        if (in_place) return sum_in_place(task, add);
      }
      sum_in_bands<T>(task, add);
    });
  });
}

// Gradients of maps by blocks of channels: a pixel belongs to one task, which zeroes it once.

constexpr int64_t kChannelBlock = 16;  // a cache line of float32

constexpr int64_t kMostChannels = 256;  // taken together; more would not make runs any faster

// use(image, first channel, end) for all blocks of channels of all images, in parallel. An image's
// neighbouring blocks are taken together, up to `most` channels, so that channels_last maps are
// read in long runs.
template <class Use>
void for_each_channel_run(const RoiAlignParams& p, Workspace& workspace, int64_t most,
                          const Use& use) {
  const int64_t blocks = (p.channels + kChannelBlock - 1) / kChannelBlock;
  const int64_t cost = p.maps[0].height * p.maps[0].width * kChannelBlock;
  parallel_for(workspace, p.images * blocks, grain_of(cost), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const int64_t left = blocks - i % blocks;
      int64_t count = end - i < left ? end - i : left;
      count = count < most / kChannelBlock ? count : most / kChannelBlock;
      const int64_t first = i % blocks * kChannelBlock, last = first + count * kChannelBlock;
      use(i / blocks, first, last < p.channels ? last : p.channels);
      i += count;
    }
  });
}

// Zeroes channels [first, last) of an image. `map` is its channel 0; all pixels, also across rows,
// are column_stride apart.
template <class Acc>
void zero_channels(const RoiMap& m, Acc* map, int64_t first, int64_t last) {
  const int64_t pixels = m.height * m.width;
  if (m.channel_stride == 1) {
    for (int64_t i = 0; i < pixels; ++i) {
      for (int64_t c = first; c < last; ++c) map[i * m.column_stride + c] = static_cast<Acc>(0);
    }
    return;
  }
  for (int64_t c = first; c < last; ++c) {
    Acc* plane = map + c * m.channel_stride;
    for (int64_t i = 0; i < pixels; ++i) plane[i] = static_cast<Acc>(0);
  }
}

}  // namespace
}  // namespace visops
