// Between maps or bins of any layout and dtype and `lanes`: for each pixel or bin the numbers of a
// block of channels side by side, in what is computed in.
#pragma once

#include <type_traits>

#include "core/roi/layout.h"
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

// Four planes of kPart adjacent elements, or of fewer where `full` is false, -> to[element][0..3].
// Constant numbers make it a dozen of vector instructions.
template <bool full, class T>
VISOPS_ALWAYS_INLINE void turn_planes(const T* from, int64_t plane_stride, int64_t channels,
                                      int64_t count, float* VISOPS_RESTRICT to, int64_t lanes) {
  const int64_t planes = full || channels > 4 ? 4 : channels, part = full ? kPart : count;
  alignas(64) float plane[4][kPart];
  if (!full) memset(plane, 0, sizeof(plane));
  for (int64_t i = 0; i < planes; ++i) convert_run(from + i * plane_stride, part, plane[i]);
  for (int64_t e = 0; e < part; e += 4) {
    Quad q[4];
    for (int i = 0; i < 4; ++i) q[i] = Quad::load(plane[i] + e);
    transpose(q);
    for (int64_t i = 0; i < (full || part - e > 4 ? 4 : part - e); ++i) {
      q[i].store(to + (e + i) * lanes);
    }
  }
}

// ... and back.
template <bool full, class T>
VISOPS_ALWAYS_INLINE void turn_lanes(const float* from, int64_t lanes, int64_t channels,
                                     int64_t count, T* to, int64_t plane_stride) {
  const int64_t planes = full || channels > 4 ? 4 : channels, part = full ? kPart : count;
  alignas(64) float plane[4][kPart];
  for (int64_t e = 0; e < part; e += 4) {
    Quad q[4];
    for (int64_t i = 0; i < 4; ++i) {
      q[i] = Quad::load(from + (full || e + i < part ? e + i : e) * lanes);
    }
    transpose(q);
    for (int i = 0; i < 4; ++i) q[i].store(plane[i] + e);
  }
  for (int64_t i = 0; i < planes; ++i) store_run(plane[i], part, to + i * plane_stride);
}

// f(channel, element, whether four channels and kPart elements are there) for all such pieces.
template <class F>
VISOPS_ALWAYS_INLINE void for_each_piece(int64_t channels, int64_t count, const F& f) {
  for (int64_t e = 0; e < count; e += kPart) {
    for (int64_t c = 0; c < channels; c += 4) {
      if (count - e >= kPart && channels - c >= 4) {
        f(c, e, std::true_type());
      } else {
        f(c, e, std::false_type());
      }
    }
  }
}

// `channels` planes of `count` adjacent elements -> to[element][lane]. Lanes without a channel, up
// to the next multiple of four, are 0.
template <class T>
void planes_to_lanes(const T* from, int64_t plane_stride, int64_t channels, int64_t count,
                     float* VISOPS_RESTRICT to, int64_t lanes) {
  for_each_piece(channels, count, [&](int64_t c, int64_t e, auto full) {
    const int64_t left = count - e < kPart ? count - e : kPart;
    turn_planes<full()>(from + c * plane_stride + e, plane_stride, channels - c, left,
                        to + e * lanes + c, lanes);
  });
}
inline void planes_to_lanes(const double* from, int64_t plane_stride, int64_t channels,
                            int64_t count, double* VISOPS_RESTRICT to, int64_t lanes) {
  for (int64_t e = 0; e < count; ++e) {
    for (int64_t c = 0; c < channels; ++c) to[e * lanes + c] = from[c * plane_stride + e];
  }
}

// The way back: lanes without a channel are left.
template <class T>
void lanes_to_planes(const float* from, int64_t lanes, int64_t channels, int64_t count, T* to,
                     int64_t plane_stride) {
  for_each_piece(channels, count, [&](int64_t c, int64_t e, auto full) {
    const int64_t left = count - e < kPart ? count - e : kPart;
    turn_lanes<full()>(from + e * lanes + c, lanes, channels - c, left, to + c * plane_stride + e,
                       plane_stride);
  });
}
inline void lanes_to_planes(const double* from, int64_t lanes, int64_t channels, int64_t count,
                            double* to, int64_t plane_stride) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t e = 0; e < count; ++e) to[c * plane_stride + e] = from[e * lanes + c];
  }
}

// Elements of one line, `step` apart, and their channels.
template <class T, class Acc>
void load_lanes(const T* from, int64_t step, int64_t channel_stride, int64_t channels,
                int64_t count, Acc* to, int64_t lanes) {
  if (channel_stride == 1) {
    for (int64_t e = 0; e < count; ++e) convert_run(from + e * step, channels, to + e * lanes);
  } else if (step == 1) {
    planes_to_lanes(from, channel_stride, channels, count, to, lanes);
  } else {
    for (int64_t e = 0; e < count; ++e) {
      const T* element = from + e * step;
      for (int64_t c = 0; c < channels; ++c) {
        to[e * lanes + c] = load_element(element + c * channel_stride);
      }
    }
  }
}

template <class T, class Acc>
void store_lanes(const Acc* from, int64_t lanes, int64_t channels, int64_t count, T* to,
                 int64_t step, int64_t channel_stride) {
  if (channel_stride == 1) {
    for (int64_t e = 0; e < count; ++e) store_run(from + e * lanes, channels, to + e * step);
  } else if (step == 1) {
    lanes_to_planes(from, lanes, channels, count, to, channel_stride);
  } else {
    for (int64_t e = 0; e < count; ++e) {
      T* element = to + e * step;
      for (int64_t c = 0; c < channels; ++c) {
        store_element(element + c * channel_stride, from[e * lanes + c]);
      }
    }
  }
}

// A box's bins, as lines: one where they lie one after another, else a line a row of bins.
struct BinLines {
  int64_t lines, length;
};

VISOPS_ALWAYS_INLINE BinLines bin_lines(const RoiAlignParams& p) {
  const bool is_one = p.bin_row_stride == p.bins_x * p.bin_column_stride;
  return is_one ? BinLines{1, p.bins_y * p.bins_x} : BinLines{p.bins_y, p.bins_x};
}

// Channels from `channel` on of box k's bins <-> lanes[bin][lane].
template <class T, class Acc>
void load_bins(const RoiAlignParams& p, int64_t k, int64_t channel, int64_t channels, Acc* to,
               int64_t lanes) {
  const T* from = static_cast<const T*>(p.bins) + k * p.roi_stride + channel * p.channel_stride;
  const BinLines b = bin_lines(p);
  for (int64_t i = 0; i < b.lines; ++i) {
    load_lanes(from + i * p.bin_row_stride, p.bin_column_stride, p.channel_stride, channels,
               b.length, to + i * b.length * lanes, lanes);
  }
}

template <class T, class Acc>
void store_bins(const RoiAlignParams& p, int64_t k, int64_t channel, int64_t channels,
                const Acc* from, int64_t lanes) {
  T* to = static_cast<T*>(p.bins) + k * p.roi_stride + channel * p.channel_stride;
  const BinLines b = bin_lines(p);
  for (int64_t i = 0; i < b.lines; ++i) {
    store_lanes(from + i * b.length * lanes, lanes, channels, b.length, to + i * p.bin_row_stride,
                p.bin_column_stride, p.channel_stride);
  }
}

// f(map, first channel, scratch) for every block of channels of every map within these slices. One
// block's maps follow one another, so that slices are alike however boxes are spread over levels.
template <class F>
VISOPS_ALWAYS_INLINE void for_each_block(const RoiAlignParams& p, int64_t begin, int64_t end,
                                         const F& f) {
  const int64_t maps = p.levels * p.images;
  const int64_t tasks = (p.channels + p.block_channels - 1) / p.block_channels * maps;
  for (int64_t slice = begin; slice < end; ++slice) {
    char* scratch = static_cast<char*>(p.scratch) + slice * p.scratch_bytes;
    for (int64_t task = tasks * slice / p.slices; task < tasks * (slice + 1) / p.slices; ++task) {
      f(task % maps, task / maps * p.block_channels, scratch);
    }
  }
}

// f(T*, Acc*) with the types of p.dtype.
template <class F>
VISOPS_ALWAYS_INLINE void with_element_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kUInt8: return f(static_cast<uint8_t*>(nullptr), static_cast<float*>(nullptr));
    case DType::kFloat16: return f(static_cast<Half*>(nullptr), static_cast<float*>(nullptr));
    case DType::kBFloat16: return f(static_cast<BFloat16*>(nullptr), static_cast<float*>(nullptr));
    case DType::kFloat64: return f(static_cast<double*>(nullptr), static_cast<double*>(nullptr));
    default: return f(static_cast<float*>(nullptr), static_cast<float*>(nullptr));
  }
}

}  // namespace
}  // namespace visops
