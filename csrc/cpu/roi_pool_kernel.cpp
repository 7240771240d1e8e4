// NOTE [ RoI pooling on the CPU ]
// Forward: a task has boxes. A bin's pixels are gone through once for a block of channels, whose
// maxima are in an array: with adjacent channels the loop over it is of vectors. Where pixels of a
// row are adjacent instead, channels come one after another.
//
// Backward: a task has blocks of channels of images. It zeroes the block's gradient and adds what
// boxes of the image have, by index: no pixel belongs to two tasks, and the order is that of NOTE
// [ RoI pooling ].
//
// Rounding: none in the forward; sums of the backward are in float32 (float64 for float64).
// Assumes from check_rois() that all boxes are valid; of `index` nothing.
#include "core/roi_pool.h"

#include "cpu/roi_lanes.h"

namespace visops {
namespace {

constexpr int64_t kChannels = 128;  // whose maxima are kept at once

// The largest of `channels` channels, `stride` elements apart, from `map` on.
template <class T, class Acc>
void pool_bin(const T* VISOPS_RESTRICT map, int64_t stride, const RoiMap& m, PixelRange rows,
              PixelRange columns, int64_t channels, Acc* VISOPS_RESTRICT best,
              int32_t* VISOPS_RESTRICT index) {
  const auto begin = [&](int64_t c, const T* at) {
    best[c] = load_element(at);
    index[c] = static_cast<int32_t>(rows.first * m.width + columns.first);
  };
  const auto meet = [&](int64_t c, const T* at, int32_t pixel) {
    const Acc value = load_element(at);
    const bool above = is_above(value, best[c]);
    best[c] = above ? value : best[c];
    index[c] = above ? pixel : index[c];
  };
  const int64_t first = rows.first * m.row_stride + columns.first * m.column_stride;
  if (stride == 1) {
    for (int64_t c = 0; c < channels; ++c) begin(c, map + first + c);
    for (int64_t y = rows.first; y < rows.last; ++y) {
      for (int64_t x = columns.first; x < columns.last; ++x) {
        const T* at = map + y * m.row_stride + x * m.column_stride;
        const auto pixel = static_cast<int32_t>(y * m.width + x);
        for (int64_t c = 0; c < channels; ++c) meet(c, at + c, pixel);
      }
    }
    return;
  }
  for (int64_t c = 0; c < channels; ++c) {
    const T* plane = map + c * stride;
    begin(c, plane + first);
    for (int64_t y = rows.first; y < rows.last; ++y) {
      for (int64_t x = columns.first; x < columns.last; ++x) {
        meet(c, plane + y * m.row_stride + x * m.column_stride,
             static_cast<int32_t>(y * m.width + x));
      }
    }
  }
}

template <class T, class Acc>
void pool_boxes(const RoiPoolParams& pool, int64_t begin, int64_t end) {
  const RoiAlignParams& p = pool.align;
  const RoiMap& m = p.maps[0];
  Acc best[kChannels];
  int32_t index[kChannels];
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
            pool_bin(image + channel * m.channel_stride, m.channel_stride, m, rows, columns,
                     channels, best, index);
          }
          T* out = static_cast<T*>(p.bins) + pool_bin_at(p, k, channel, y, x);
          int32_t* index_out = pool.index + pool_index_at(p, k, channel, y, x);
          for (int64_t c = 0; c < channels; ++c) {
            store_element(out + c * p.channel_stride, is_empty ? static_cast<Acc>(0) : best[c]);
            index_out[c * p.index_channel_stride] = is_empty ? -1 : index[c];
          }
        }
      }
    }
  }
}

void roi_pool_kernel(const RoiPoolParams& pool, int64_t begin, int64_t end) {
  with_element_type(pool.align.dtype, [&](auto* element, auto* number) {
    using T = std::remove_pointer_t<decltype(element)>;
    using Acc = std::remove_pointer_t<decltype(number)>;
    pool_boxes<T, Acc>(pool, begin, end);
  });
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
          const int32_t pixel = pool.index[pool_index_at(p, k, c, y, x)];
          T value = {};
          if (is_pixel(m, pixel)) {
            value = image[c * m.channel_stride + pixel / m.width * m.row_stride +
                          pixel % m.width * m.column_stride];
          }
          static_cast<T*>(p.bins)[pool_bin_at(p, k, c, y, x)] = value;
        }
      }
    }
  }
}

void roi_pool_at_kernel(const RoiPoolParams& p, int64_t begin, int64_t end) {
  switch (element_size(p.align.dtype)) {
    case 1: return take_boxes<uint8_t>(p, begin, end);
    case 2: return take_boxes<uint16_t>(p, begin, end);
    case 4: return take_boxes<uint32_t>(p, begin, end);
    default: return take_boxes<uint64_t>(p, begin, end);
  }
}

// Pixels of a gradient are `column_stride` apart throughout.
template <class Acc>
void zero_block(const RoiMap& m, Acc* map, int64_t first, int64_t last) {
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

// Adds what box k has for channels [first, last). A channel's bins in their order: which channels
// are between them makes no difference.
template <class T, class Acc>
void add_box(const RoiPoolParams& pool, int64_t k, int64_t first, int64_t last, Acc* map) {
  const RoiAlignParams& p = pool.align;
  const RoiMap m = p.maps[0];
  const int64_t step = m.column_stride, channel_step = m.channel_stride;
  const bool by_channels = p.index_channel_stride == 1;
  const int64_t channels = last - first;
  for (int64_t c = first; c < (by_channels ? first + 1 : last); ++c) {
    Acc* plane = map + c * channel_step;
    for (int64_t y = 0; y < p.bins_y; ++y) {
      const int32_t* index = pool.index + pool_index_at(p, k, c, y, 0);
      const T* grad = static_cast<const T*>(p.bins) + pool_bin_at(p, k, c, y, 0);
      for (int64_t x = 0; x < p.bins_x; ++x) {
        if (by_channels) {
          for (int64_t i = 0; i < channels; ++i) {
            if (is_pixel(m, index[i])) {
              plane[index[i] * step + i * channel_step] +=
                  load_element(grad + i * p.channel_stride);
            }
          }
        } else if (is_pixel(m, *index)) {
          plane[*index * step] += load_element(grad);
        }
        index += p.index_column_stride;
        grad += p.bin_column_stride;
      }
    }
  }
}

template <class T, class Acc>
void sum_blocks(const RoiPoolParams& pool, int64_t begin, int64_t end) {
  const RoiAlignParams& p = pool.align;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t image = i / pool_blocks(p), first = i % pool_blocks(p) * kPoolBlock;
    const int64_t last = p.channels - first < kPoolBlock ? p.channels : first + kPoolBlock;
    Acc* map = static_cast<Acc*>(p.maps[0].data) + image * p.maps[0].image_stride;
    zero_block(p.maps[0], map, first, last);
    for (int64_t k = 0; k < p.boxes.count; ++k) {
      if (load_roi<Acc>(p, k).image == image) add_box<T>(pool, k, first, last, map);
    }
  }
}

void roi_pool_backward_kernel(const RoiPoolParams& pool, int64_t begin, int64_t end) {
  with_element_type(pool.align.dtype, [&](auto* element, auto* number) {
    using T = std::remove_pointer_t<decltype(element)>;
    using Acc = std::remove_pointer_t<decltype(number)>;
    sum_blocks<T, Acc>(pool, begin, end);
  });
}

const bool registered = roi_pool_stub.set(kIsaSlot, roi_pool_kernel) &&
                        roi_pool_at_stub.set(kIsaSlot, roi_pool_at_kernel) &&
                        roi_pool_backward_stub.set(kIsaSlot, roi_pool_backward_kernel);

}  // namespace
}  // namespace visops
