// Converts between maps or bins of any layout and dtype, and blocks: for each pixel or bin, some
// channels side by side in the type that is computed in. A block's pixels are `pitch` numbers
// apart.
#pragma once

#include <type_traits>

#include "core/numbers/element.h"
#include "core/roi/align.h"
#include "core/roi/schedule.h"
#include "cpu/simd/floats.h"

namespace visops {
namespace {

constexpr int64_t kPart = 16;  // elements of a channel converted at a time: a cache line of float32

template <class T>
VISOPS_ALWAYS_INLINE void convert_run(const T* from, int64_t count, float* VISOPS_RESTRICT to) {
  int64_t i = 0;
  for (; i + Floats::kWidth <= count; i += Floats::kWidth) load_floats(from + i).store(to + i);
  for (; i < count; ++i) to[i] = load_element(from + i);
}
VISOPS_ALWAYS_INLINE void convert_run(const double* from, int64_t count,
                                      double* VISOPS_RESTRICT to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

template <class T, class Acc>
VISOPS_ALWAYS_INLINE void store_run(const Acc* from, int64_t count, T* VISOPS_RESTRICT to) {
  int64_t i = 0;
  if constexpr (sizeof(Acc) == sizeof(float)) {
    for (; i + Floats::kWidth <= count; i += Floats::kWidth) {
      const Floats part[1] = {Floats::load(from + i)};
      store_pixels(to + i, part);
    }
  }
  for (; i < count; ++i) store_element(to + i, from[i]);
}

// What a piece has of four planes and kPart elements each. Where both are constants, conversion
// takes a dozen vector instructions.
template <bool all_planes, bool whole_part>
struct Piece {
  static constexpr bool kIsWhole = whole_part;
  int64_t channels, count;  // that are left

  int64_t planes() const { return all_planes || channels > 4 ? 4 : channels; }
  int64_t part() const { return whole_part ? kPart : count; }
};

// Planes of adjacent elements -> to[element][0..3].
template <class Pieces, class T>
VISOPS_ALWAYS_INLINE void turn_planes(const Pieces& piece, const T* from, int64_t plane_stride,
                                      float* VISOPS_RESTRICT to, int64_t pitch) {
  const int64_t planes = piece.planes(), part = piece.part();
  alignas(64) float plane[4][kPart];
  if (!Pieces::kIsWhole) memset(plane, 0, sizeof(plane));
  for (int64_t i = 0; i < planes; ++i) convert_run(from + i * plane_stride, part, plane[i]);
  for (int64_t e = 0; e < part; e += 4) {
    Quad q[4];
    for (int i = 0; i < 4; ++i) q[i] = i < planes ? Quad::load(plane[i] + e) : Quad(0.0f);
    transpose(q);
    for (int64_t i = 0; i < (part - e > 4 ? 4 : part - e); ++i) q[i].store(to + (e + i) * pitch);
  }
}

// ... and back.
template <class Pieces, class T>
VISOPS_ALWAYS_INLINE void turn_block(const Pieces& piece, const float* from, int64_t pitch, T* to,
                                     int64_t plane_stride) {
  const int64_t planes = piece.planes(), part = piece.part();
  alignas(64) float plane[4][kPart];
  for (int64_t e = 0; e < part; e += 4) {
    Quad q[4];
    for (int64_t i = 0; i < 4; ++i) q[i] = Quad::load(from + (e + i < part ? e + i : e) * pitch);
    transpose(q);
    for (int i = 0; i < 4; ++i) q[i].store(plane[i] + e);
  }
  for (int64_t i = 0; i < planes; ++i) store_run(plane[i], part, to + i * plane_stride);
}

// f(channel, element, piece) for pieces of up to four channels and kPart elements.
template <class F>
VISOPS_ALWAYS_INLINE void for_each_piece(int64_t channels, int64_t count, const F& f) {
  for (int64_t e = 0; e < count; e += kPart) {
    for (int64_t c = 0; c < channels; c += 4) {
      const int64_t planes = channels - c, part = count - e;
      if (part < kPart) {
        f(c, e, Piece<false, false>{planes, part});
      } else if (planes < 4) {
        f(c, e, Piece<false, true>{planes, part});
      } else {
        f(c, e, Piece<true, true>{planes, part});
      }
    }
  }
}

// `channels` planes of `count` adjacent elements -> to[element][channel]. Numbers after the last
// channel, up to the next multiple of four, become 0.
template <class T>
void planes_to_block(const T* from, int64_t plane_stride, int64_t channels, int64_t count,
                     float* VISOPS_RESTRICT to, int64_t pitch) {
  for_each_piece(channels, count, [&](int64_t c, int64_t e, const auto& piece) {
    turn_planes(piece, from + c * plane_stride + e, plane_stride, to + e * pitch + c, pitch);
  });
}
inline void planes_to_block(const double* from, int64_t plane_stride, int64_t channels,
                            int64_t count, double* VISOPS_RESTRICT to, int64_t pitch) {
  for (int64_t e = 0; e < count; ++e) {
    for (int64_t c = 0; c < channels; ++c) to[e * pitch + c] = from[c * plane_stride + e];
  }
}

// ... and back; numbers after the last channel are ignored.
template <class T>
void block_to_planes(const float* from, int64_t pitch, int64_t channels, int64_t count, T* to,
                     int64_t plane_stride) {
  for_each_piece(channels, count, [&](int64_t c, int64_t e, const auto& piece) {
    turn_block(piece, from + e * pitch + c, pitch, to + c * plane_stride + e, plane_stride);
  });
}
inline void block_to_planes(const double* from, int64_t pitch, int64_t channels, int64_t count,
                            double* to, int64_t plane_stride) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t e = 0; e < count; ++e) to[c * plane_stride + e] = from[e * pitch + c];
  }
}

// `count` elements of one line, `step` apart, with their channels.
template <class T, class Acc>
void load_block(const T* from, int64_t step, int64_t channel_stride, int64_t channels,
                int64_t count, Acc* to, int64_t pitch) {
  if (channel_stride == 1) {
    for (int64_t e = 0; e < count; ++e) convert_run(from + e * step, channels, to + e * pitch);
  } else if (step == 1) {
    planes_to_block(from, channel_stride, channels, count, to, pitch);
  } else {
    for (int64_t e = 0; e < count; ++e) {
      const T* element = from + e * step;
      for (int64_t c = 0; c < channels; ++c) {
        to[e * pitch + c] = load_element(element + c * channel_stride);
      }
    }
  }
}

template <class T, class Acc>
void store_block(const Acc* from, int64_t pitch, int64_t channels, int64_t count, T* to,
                 int64_t step, int64_t channel_stride) {
  if (channel_stride == 1) {
    for (int64_t e = 0; e < count; ++e) store_run(from + e * pitch, channels, to + e * step);
  } else if (step == 1) {
    block_to_planes(from, pitch, channels, count, to, channel_stride);
  } else {
    for (int64_t e = 0; e < count; ++e) {
      T* element = to + e * step;
      for (int64_t c = 0; c < channels; ++c) {
        store_element(element + c * channel_stride, from[e * pitch + c]);
      }
    }
  }
}

// A box's bins as lines: one line if all bins are evenly spaced, else one for each row of bins.
struct BinLines {
  int64_t lines, length;
};

VISOPS_ALWAYS_INLINE BinLines bin_lines(const RoiAlignParams& p) {
  const bool is_one = p.bin_row_stride == p.bins_x * p.bin_column_stride;
  return is_one ? BinLines{1, p.bins_y * p.bins_x} : BinLines{p.bins_y, p.bins_x};
}

// `channels` channels of box k's bins, from `channel` on, <-> block[bin][channel].
template <class T, class Acc>
void load_bins(const RoiAlignParams& p, int64_t k, int64_t channel, int64_t channels, Acc* to,
               int64_t pitch) {
  const T* from = static_cast<const T*>(p.bins) + k * p.roi_stride + channel * p.channel_stride;
  const BinLines b = bin_lines(p);
  for (int64_t i = 0; i < b.lines; ++i) {
    load_block(from + i * p.bin_row_stride, p.bin_column_stride, p.channel_stride, channels,
               b.length, to + i * b.length * pitch, pitch);
  }
}

template <class T, class Acc>
void store_bins(const RoiAlignParams& p, int64_t k, int64_t channel, int64_t channels,
                const Acc* from, int64_t pitch) {
  T* to = static_cast<T*>(p.bins) + k * p.roi_stride + channel * p.channel_stride;
  const BinLines b = bin_lines(p);
  for (int64_t i = 0; i < b.lines; ++i) {
    store_block(from + i * b.length * pitch, pitch, channels, b.length, to + i * p.bin_row_stride,
                p.bin_column_stride, p.channel_stride);
  }
}

// f(map, first channel, scratch) for every block of channels in slices [begin, end): NOTE [
// RoIAlign schedules ].
template <class F>
VISOPS_ALWAYS_INLINE void for_each_block(const RoiAlignParams& p, const RoiPlan& plan,
                                         int64_t begin, int64_t end, const F& f) {
  const int64_t maps = p.levels * p.images;
  const int64_t blocks = (p.channels + plan.block_channels - 1) / plan.block_channels;
  const int64_t tasks = blocks * maps;
  for (int64_t slice = begin; slice < end; ++slice) {
    char* scratch = plan.scratch + slice * plan.scratch_bytes;
    const int64_t last = tasks * (slice + 1) / plan.slices;
    for (int64_t task = tasks * slice / plan.slices; task < last; ++task) {
      f(task % maps, task / maps * plan.block_channels, scratch);
    }
  }
}

}  // namespace
}  // namespace visops
