// Adjacent channels of one pixel or bin, in the type that is computed in: what the kernels of
// maxima and of boxes' gradients are written over.
#pragma once

#include "core/roi/gradient.h"
#include "cpu/lane_sum.h"
#include "cpu/prefetch.h"
#include "cpu/roi/blocks.h"
#include "cpu/simd/parts.h"

namespace visops {
namespace {

// kCount adjacent channels in two parts: one alone would wait for its own sums.
template <class Acc>
struct Channels {
  static constexpr int kCount = 2 * kPartCount<Acc>;

  Part<Acc> first, second;

  Channels() = default;
  VISOPS_ALWAYS_INLINE explicit Channels(Acc x) : first(repeated(x)), second(repeated(x)) {}
  VISOPS_ALWAYS_INLINE Channels(const Part<Acc>& a, const Part<Acc>& b) : first(a), second(b) {}
  static VISOPS_ALWAYS_INLINE Channels load(const Acc* p) {
    return {load_part(p), load_part(p + kPartCount<Acc>)};
  }
  VISOPS_ALWAYS_INLINE void store(Acc* p) const {
    store_part(p, first);
    store_part(p + kPartCount<Acc>, second);
  }
  friend VISOPS_ALWAYS_INLINE Channels operator+(const Channels& a, const Channels& b) {
    return {a.first + b.first, a.second + b.second};
  }
  friend VISOPS_ALWAYS_INLINE Channels operator*(const Channels& a, const Channels& b) {
    return {a.first * b.first, a.second * b.second};
  }
};

template <class Acc>
constexpr int kChannels = Channels<Acc>::kCount;

// kChannels adjacent elements.
template <class T>
VISOPS_ALWAYS_INLINE Channels<float> load_adjacent(const T* from) {
  return {load_floats(from), load_floats(from + Floats::kWidth)};
}
VISOPS_ALWAYS_INLINE Channels<double> load_adjacent(const double* from) {
  return Channels<double>::load(from);
}

template <class Acc, class T>
Channels<Acc> load_scattered(const T* from, int64_t channel_stride, int64_t count) {
  alignas(64) Acc room[kChannels<Acc>] = {};
  for (int64_t c = 0; c < count; ++c) room[c] = load_element(from + c * channel_stride);
  return Channels<Acc>::load(room);
}

// `count` channels from `from` on, then zeros.
template <class Acc, class T>
VISOPS_ALWAYS_INLINE Channels<Acc> load_channels(const T* from, int64_t channel_stride,
                                                 int64_t count) {
  return channel_stride == 1 && count == kChannels<Acc>
             ? load_adjacent(from)
             : load_scattered<Acc>(from, channel_stride, count);
}

template <class T, class Acc>
void store_channels(const Acc* from, int64_t count, T* to, int64_t channel_stride) {
  if (channel_stride == 1) {
    store_run(from, count, to);
  } else {
    for (int64_t c = 0; c < count; ++c) store_element(to + c * channel_stride, from[c]);
  }
}

// One image of a map, from some channel on: kChannels, of which `count` exist. The pixel needed
// next is `ahead` elements after the one being read.
template <class T, class Acc>
struct MapChannels {
  const T* data;
  int64_t row_stride, column_stride, channel_stride, count, ahead;

  VISOPS_ALWAYS_INLINE const T* at(int64_t row, int64_t column) const {
    return data + row * row_stride + column * column_stride;
  }
};

template <class T, class Acc>
VISOPS_ALWAYS_INLINE MapChannels<T, Acc> map_channels(const RoiAlignParams& p, const Roi<Acc>& roi,
                                                      int64_t channel, int64_t ahead) {
  const RoiMap& map = p.maps[roi.level];
  const int64_t left = p.channels - channel;
  return {map_pixel<const T>(map, roi.image, channel, 0, 0),
          map.row_stride,
          map.column_stride,
          map.channel_stride,
          left < kChannels<Acc> ? left : kChannels<Acc>,
          ahead};
}

template <class T, class Acc>
VISOPS_ALWAYS_INLINE bool are_adjacent(const MapChannels<T, Acc>& map) {
  return map.channel_stride == 1 && map.count == kChannels<Acc>;
}

// A pixel's channels; those that do not exist are 0. `adjacent`: all exist, side by side.
template <bool adjacent, class T, class Acc>
VISOPS_ALWAYS_INLINE Channels<Acc> channels_at(const MapChannels<T, Acc>& map, int64_t row,
                                               int64_t column) {
  if constexpr (adjacent) {
    const T* pixel = map.at(row, column);
    prefetch(pixel + map.ahead, kChannels<Acc>);
    return load_adjacent(pixel);
  } else {
    return load_scattered<Acc>(map.at(row, column), map.channel_stride, map.count);
  }
}

// A box's gradient while it is being summed: the lanes of NOTE [ Gradient of the boxes ].

template <class Acc>
struct alignas(64) BoxLanes {
  Acc x1[kSumLanes], y1[kSumLanes], x2[kSumLanes], y2[kSumLanes];
};

// Adds a row of bins to the total.
template <class Acc>
void add_lanes(const BoxLanes<Acc>& row, BoxLanes<Acc>* total) {
  for (int64_t l = 0; l < kSumLanes; ++l) {
    total->x1[l] += row.x1[l];
    total->y1[l] += row.y1[l];
    total->x2[l] += row.x2[l];
    total->y2[l] += row.y2[l];
  }
}

// Sums the lanes, which it overwrites, and stores the gradient.
template <class Acc>
void store_lanes_sum(const RoiAlignParams& p, int64_t k, int64_t level, BoxLanes<Acc>* total) {
  const Acc sums[4] = {sum_lanes(total->x1), sum_lanes(total->y1), sum_lanes(total->x2),
                       sum_lanes(total->y2)};
  store_box_gradient(p, k, static_cast<Acc>(p.maps[level].scale), sums);
}

}  // namespace
}  // namespace visops
