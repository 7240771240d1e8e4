// NOTE [ RoI pooling on the CPU ]
// Forward: a task has boxes. One pass over a bin's pixels serves a block of channels, whose maxima
// are in an array: if channels are adjacent, the loop over it is vectorised. If pixels of a row are
// adjacent instead, channels come one after another.
//
// Backward: a task has blocks of channels of images. It zeroes the block's gradient and adds the
// shares of the image's boxes, by index: a pixel belongs to one task, and sums have the order of
// NOTE [ RoI pooling ].
//
// Rounding: none in the forward; the backward sums in float32 (float64 for float64).
// Assumes from check_rois() that all boxes are valid, and nothing of `index`.
#include "core/roi/pool.h"

#include "cpu/items.h"
#include "cpu/prefetch.h"
#include "cpu/roi/bands.h"
#include "cpu/roi/blocks.h"

namespace visops {
namespace {

constexpr int64_t kChannels = 256;     // whose maxima are kept at once
constexpr int kRegisterChannels = 64;  // ... in registers

template <class Acc>
struct Largest {
  Acc value[kChannels];
  int32_t index[kChannels];
};

// The maxima of N adjacent channels from `map` on; of `channels` channels where N is 0.
template <int N, class T, class Acc>
void pool_adjacent(const T* VISOPS_RESTRICT map, const RoiMap& m, PixelRange rows,
                   PixelRange columns, int64_t channels, Acc* VISOPS_RESTRICT values,
                   int32_t* VISOPS_RESTRICT indices) {
  constexpr int kMost = N == 0 ? kRegisterChannels : N;
  const int64_t n = N == 0 ? channels : N;
  Acc best[kMost];
  int32_t index[kMost];
  const T* first = map + rows.first * m.row_stride + columns.first * m.column_stride;
  const auto first_pixel = static_cast<int32_t>(rows.first * m.width + columns.first);
  for (int64_t c = 0; c < n; ++c) {
    best[c] = load_element(first + c);
    index[c] = first_pixel;
  }
  for (int64_t y = rows.first; y < rows.last; ++y) {
    for (int64_t x = columns.first; x < columns.last; ++x) {
      const T* VISOPS_RESTRICT at = map + y * m.row_stride + x * m.column_stride;
      const auto pixel = static_cast<int32_t>(y * m.width + x);
      for (int64_t c = 0; c < n; ++c) {
        const Acc value = load_element(at + c);
        const bool above = is_above(value, best[c]);
        best[c] = above ? value : best[c];
        index[c] = above ? pixel : index[c];
      }
    }
  }
  for (int64_t c = 0; c < n; ++c) {
    values[c] = best[c];
    indices[c] = index[c];
  }
}

// The maxima of `channels` channels from `map` on. The ranges are not empty.
template <class T, class Acc>
void pool_bin(const T* map, const RoiMap& m, PixelRange rows, PixelRange columns, int64_t channels,
              Largest<Acc>* largest) {
  if (m.channel_stride == 1) {
    int64_t c = 0;
    for (; c + kRegisterChannels <= channels; c += kRegisterChannels) {
      pool_adjacent<kRegisterChannels>(map + c, m, rows, columns, kRegisterChannels,
                                       largest->value + c, largest->index + c);
    }
    pool_adjacent<0>(map + c, m, rows, columns, channels - c, largest->value + c,
                     largest->index + c);
    return;
  }
  for (int64_t c = 0; c < channels; ++c) {
    const T* plane = map + c * m.channel_stride;
    Acc best = load_element(plane + rows.first * m.row_stride + columns.first * m.column_stride);
    int64_t index = rows.first * m.width + columns.first;
    for (int64_t y = rows.first; y < rows.last; ++y) {
      for (int64_t x = columns.first; x < columns.last; ++x) {
        const Acc value = load_element(plane + y * m.row_stride + x * m.column_stride);
        if (!is_above(value, best)) continue;
        best = value;
        index = y * m.width + x;
      }
    }
    largest->value[c] = best;
    largest->index[c] = static_cast<int32_t>(index);
  }
}

template <class T, class Acc>
void pool_boxes(const RoiPoolParams& pool, int64_t begin, int64_t end) {
  const RoiAlignParams& p = pool.align;
  const RoiMap& m = p.maps[0];
  Largest<Acc> largest;
  for (int64_t k = begin; k < end; ++k) {
    const PoolRegion<Acc> region = load_pool_region<Acc>(p, k);
    const T* image = static_cast<const T*>(m.data) + region.image * m.image_stride;
    for (int64_t channel = 0; channel < p.channels; channel += kChannels) {
      const int64_t left = p.channels - channel, channels = left < kChannels ? left : kChannels;
      for (int64_t y = 0; y < p.bins_y; ++y) {
        const PixelRange rows = pixels_of(region.y, y);
        for (int64_t x = 0; x < p.bins_x; ++x) {
          const PixelRange columns = pixels_of(region.x, x);
          const bool is_empty = rows.first >= rows.last || columns.first >= columns.last;
          if (!is_empty) {
            pool_bin(image + channel * m.channel_stride, m, rows, columns, channels, &largest);
          }
          T* out = static_cast<T*>(p.bins) + bin_offset(p, k, channel, y, x);
          int32_t* index_out = pool.index + index_offset(p, k, channel, y, x);
          for (int64_t c = 0; c < channels; ++c) {
            store_element(out + c * p.channel_stride,
                          is_empty ? static_cast<Acc>(0) : largest.value[c]);
            index_out[c * p.index_channel_stride] = is_empty ? -1 : largest.index[c];
          }
        }
      }
    }
  }
}

void roi_pool_range(const RoiPoolParams& pool, int64_t begin, int64_t end) {
  with_element_type(pool.align.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    using Acc = typename Accumulate<T>::type;
    pool_boxes<T, Acc>(pool, begin, end);
  });
}

void roi_pool_kernel(const RoiPoolParams& p, Workspace& workspace) {
  for_items(workspace, p, p.align.boxes.count, box_cost(p.align), roi_pool_range);
}

template <class T>
void take_boxes(const RoiPoolParams& pool, int64_t begin, int64_t end) {
  const RoiAlignParams& p = pool.align;
  const RoiMap& m = p.maps[0];
  for (int64_t k = begin; k < end; ++k) {
    const T* image = static_cast<const T*>(m.data) + load_roi<float>(p, k).image * m.image_stride;
    for (int64_t c = 0; c < p.channels; ++c) {
      for (int64_t y = 0; y < p.bins_y; ++y) {
        for (int64_t x = 0; x < p.bins_x; ++x) {
          const int32_t pixel = pool.index[index_offset(p, k, c, y, x)];
          T value = {};
          if (is_pixel(m, pixel)) {
            value = image[c * m.channel_stride + pixel / m.width * m.row_stride +
                          pixel % m.width * m.column_stride];
          }
          static_cast<T*>(p.bins)[bin_offset(p, k, c, y, x)] = value;
        }
      }
    }
  }
}

void roi_pool_at_range(const RoiPoolParams& p, int64_t begin, int64_t end) {
  switch (element_size(p.align.dtype)) {
    case 1: return take_boxes<uint8_t>(p, begin, end);
    case 2: return take_boxes<uint16_t>(p, begin, end);
    case 4: return take_boxes<uint32_t>(p, begin, end);
    default: return take_boxes<uint64_t>(p, begin, end);
  }
}

void roi_pool_at_kernel(const RoiPoolParams& p, Workspace& workspace) {
  for_items(workspace, p, p.align.boxes.count, box_cost(p.align), roi_pool_at_range);
}

// Adds box k's share to channels [first, last), which are adjacent: all channels of a bin at once.
template <class T, class Acc>
void add_adjacent(const RoiPoolParams& pool, int64_t k, int64_t first, int64_t last, Acc* map) {
  const RoiAlignParams& p = pool.align;
  const RoiMap& m = p.maps[0];
  for (int64_t y = 0; y < p.bins_y; ++y) {
    for (int64_t x = 0; x < p.bins_x; ++x) {
      const int32_t* index = pool.index + index_offset(p, k, first, y, x);
      const T* grad = static_cast<const T*>(p.bins) + bin_offset(p, k, first, y, x);
      for (int64_t c = 0; c < last - first; ++c) {
        if (is_pixel(m, index[c])) {
          map[index[c] * m.column_stride + (first + c) * m.channel_stride] +=
              load_element(grad + c * p.channel_stride);
        }
      }
    }
  }
}

// Adds the boxes of an image to one channel. Their bins lie far apart, so the next box's are
// prefetched. The plane mostly fits the second-level cache; several planes at once would not.
template <class T, class Acc>
void add_to_plane(const RoiPoolParams& pool, int64_t image, int64_t channel, Acc* plane) {
  const RoiAlignParams& p = pool.align;
  const RoiMap m = p.maps[0];
  const auto pixels = static_cast<uint32_t>(m.height * m.width);
  const bool one_row = p.index_column_stride == 1 && p.bin_column_stride == 1 &&
                       p.index_row_stride == p.bins_x && p.bin_row_stride == p.bins_x;
  const int64_t rows = one_row ? 1 : p.bins_y, columns = one_row ? p.bins_y * p.bins_x : p.bins_x;
  const int64_t index_step = p.index_column_stride, grad_step = p.bin_column_stride;
  for (int64_t k = 0; k < p.boxes.count; ++k) {
    if (load_roi<Acc>(p, k).image != image) continue;
    const int32_t* index = pool.index + index_offset(p, k, channel, 0, 0);
    const T* grad = static_cast<const T*>(p.bins) + bin_offset(p, k, channel, 0, 0);
    if (one_row && k + 1 < p.boxes.count) {
      prefetch(index + p.index_roi_stride, columns);
      prefetch(grad + p.roi_stride, columns);
    }
    for (int64_t y = 0; y < rows; ++y) {
      for (int64_t x = 0; x < columns; ++x) {
        const auto pixel = static_cast<uint32_t>(index[x * index_step]);
        if (pixel < pixels) plane[pixel * m.column_stride] += load_element(grad + x * grad_step);
      }
      index += p.index_row_stride;
      grad += p.bin_row_stride;
    }
  }
}

template <class T, class Acc>
void sum_channels(const RoiPoolParams& pool, int64_t image, int64_t first, int64_t last) {
  const RoiAlignParams& p = pool.align;
  const RoiMap& m = p.maps[0];
  const bool adjacent = p.index_channel_stride == 1;
  Acc* map = static_cast<Acc*>(m.data) + image * m.image_stride;
  // Planes are zeroed one by one, so that they are in the cache when boxes are added.
  if (adjacent || m.channel_stride == 1) zero_channels(m, map, first, last);
  if (adjacent) {
    for (int64_t k = 0; k < p.boxes.count; ++k) {
      if (load_roi<Acc>(p, k).image == image) add_adjacent<T>(pool, k, first, last, map);
    }
    return;
  }
  for (int64_t channel = first; channel < last; ++channel) {
    if (m.channel_stride != 1) zero_channels(m, map, channel, channel + 1);
    add_to_plane<T>(pool, image, channel, map + channel * m.channel_stride);
  }
}

// Sums few planes at a time, so that they stay in the cache.
void roi_pool_backward_kernel(const RoiPoolParams& pool, Workspace& workspace) {
  const RoiAlignParams& p = pool.align;
  const int64_t most = p.index_channel_stride == 1 ? kMostChannels : kChannelBlock;
  for_each_channel_run(p, workspace, most, [&](int64_t image, int64_t first, int64_t last) {
    with_floating_type(p.dtype, [&](auto* element) {
      using T = std::remove_pointer_t<decltype(element)>;
      using Acc = typename Accumulate<T>::type;
      sum_channels<T, Acc>(pool, image, first, last);
    });
  });
}

const bool registered = roi_pool_stub.set(kIsaSlot, roi_pool_kernel) &&
                        roi_pool_at_stub.set(kIsaSlot, roi_pool_at_kernel) &&
                        roi_pool_backward_stub.set(kIsaSlot, roi_pool_backward_kernel);

}  // namespace
}  // namespace visops
