// Images moved by a map, on the CPU.
//
// NOTE [ Maps on the CPU ]
// Positions of kChunk pixels of a row at a time are split into whole and fractional parts, once for
// all channels. Each channel is then read in a loop without conditions, in which pixels with a tap
// outside the image read a position inside; after it they are computed again, tap by tap, with the
// padding. Both add in the same order. Split: by rows.
#include "core/warp/remap.h"

#include <cstring>

#include "core/element_types.h"

namespace visops {
namespace {

constexpr int kChunk = 64;
constexpr float kFar = 1e7f;

struct Positions {
  int32_t x[kChunk], y[kChunk];  // whole parts
  float right[kChunk], below[kChunk];
  int32_t offset[kChunk];   // of (x, y) in a channel; of some pixel where a tap is outside
  int32_t outside[kChunk];  // pixels with a tap outside, outside_count of them
  int outside_count;
};

VISOPS_ALWAYS_INLINE int32_t whole_part(float value) {
  const auto cut = static_cast<int32_t>(value);
  return cut - (static_cast<float>(cut) > value ? 1 : 0);
}

VISOPS_ALWAYS_INLINE float limited(float value) {
  const float above = value > -kFar ? value : -kFar;  // NaN too
  return above < kFar ? above : kFar;
}

// Fills the positions of a chunk from column `first` on. `before` and `after`: how far taps reach.
VISOPS_ALWAYS_INLINE void find_positions(const RemapParams& p, int64_t row, int64_t first,
                                         int count, float shift, int before, int after,
                                         Positions& positions) {
  const float* const map_x = p.x + row * p.target_width + first;
  const float* const map_y = p.y + row * p.target_width + first;
  const float base_x = p.relative ? static_cast<float>(first) : 0.0f;
  const float base_y = p.relative ? static_cast<float>(row) : 0.0f;
  const float step = p.relative ? 1.0f : 0.0f;
  const auto last_x = static_cast<int32_t>(p.width - 1 - after);
  const auto last_y = static_cast<int32_t>(p.height - 1 - after);
  const auto row_stride = static_cast<int32_t>(p.row_stride);
  const auto column_stride = static_cast<int32_t>(p.column_stride);
  const int32_t safe = before * (row_stride + column_stride);
  int32_t is_outside[kChunk], any = 0;
  for (int i = 0; i < count; ++i) {
    const float own_x = base_x + step * static_cast<float>(i);
    const float x = limited(map_x[i] + own_x) + shift, y = limited(map_y[i] + base_y) + shift;
    const int32_t whole_x = whole_part(x), whole_y = whole_part(y);
    positions.x[i] = whole_x;
    positions.y[i] = whole_y;
    positions.right[i] = x - static_cast<float>(whole_x);
    positions.below[i] = y - static_cast<float>(whole_y);
    const int32_t out =
        (whole_x < before) | (whole_x > last_x) | (whole_y < before) | (whole_y > last_y);
    // Unsigned: far outside, the product overflows before it is dropped.
    const uint32_t offset = static_cast<uint32_t>(whole_y) * static_cast<uint32_t>(row_stride) +
                            static_cast<uint32_t>(whole_x) * static_cast<uint32_t>(column_stride);
    positions.offset[i] = out != 0 ? safe : static_cast<int32_t>(offset);
    is_outside[i] = out;
    any |= out;
  }
  positions.outside_count = 0;
  if (any == 0) return;
  for (int i = 0; i < count; ++i) {
    positions.outside[positions.outside_count] = i;
    positions.outside_count += is_outside[i];
  }
}

template <class T>
struct Channel {
  const RemapParams& p;
  const T* data;
  float fill;

  float padded(int64_t x, int64_t y) const {
    const int64_t column = pad_index(p.padding, x, p.width);
    const int64_t row = pad_index(p.padding, y, p.height);
    if (column < 0 || row < 0) return fill;
    return load_element(data + row * p.row_stride + column * p.column_stride);
  }
};

VISOPS_ALWAYS_INLINE float between(float a, float b, float c, float d, float right, float below) {
  const float left = 1.0f - right, above = 1.0f - below;
  return (a * left + b * right) * above + (c * left + d * right) * below;
}

// Split two bytes loaded as one number; the byte order puts the first one low.
VISOPS_ALWAYS_INLINE float first_of(int32_t both) { return static_cast<float>(both & 255); }
VISOPS_ALWAYS_INLINE float second_of(int32_t both) { return static_cast<float>(both >> 8); }

template <class T>
void bilinear(const Channel<T>& channel, const Positions& positions, int count, T* to) {
  const RemapParams& p = channel.p;
  float values[kChunk];
  if (positions.outside_count < count) {
    const int64_t row_stride = p.row_stride, column_stride = p.column_stride;
    const T* const data = channel.data;
    if (sizeof(T) == 1 && column_stride == 1) {
      // Two neighbours with one load; the arithmetic is a loop of its own.
      uint16_t upper[kChunk], lower[kChunk];
      for (int i = 0; i < count; ++i) {
        const T* const at = data + positions.offset[i];
        std::memcpy(upper + i, at, 2);
        std::memcpy(lower + i, at + row_stride, 2);
      }
      for (int i = 0; i < count; ++i) {
        const int32_t above = upper[i], under = lower[i];
        values[i] = between(first_of(above), second_of(above), first_of(under), second_of(under),
                            positions.right[i], positions.below[i]);
      }
    } else {
      for (int i = 0; i < count; ++i) {
        const T* const at = data + positions.offset[i];
        const T* const under = at + row_stride;
        values[i] =
            between(load_element(at), load_element(at + column_stride), load_element(under),
                    load_element(under + column_stride), positions.right[i], positions.below[i]);
      }
    }
  }
  for (int k = 0; k < positions.outside_count; ++k) {
    const int32_t i = positions.outside[k];
    const int64_t x = positions.x[i], y = positions.y[i];
    values[i] = between(channel.padded(x, y), channel.padded(x + 1, y), channel.padded(x, y + 1),
                        channel.padded(x + 1, y + 1), positions.right[i], positions.below[i]);
  }
  for (int i = 0; i < count; ++i) store_element(to + i, values[i]);
}

// Keys' weights of the four columns and rows around each pixel of a chunk.
struct CubicWeights {
  float across[4][kChunk], down[4][kChunk];
};

void find_weights(const Positions& positions, int count, CubicWeights& weights) {
  for (int i = 0; i < count; ++i) {
    float across[4], down[4];
    cubic_weights(positions.right[i], across);
    cubic_weights(positions.below[i], down);
    for (int k = 0; k < 4; ++k) {
      weights.across[k][i] = across[k];
      weights.down[k][i] = down[k];
    }
  }
}

// The value of pixel i of a chunk, of its neighbours [4, 4] as `at(column, row)` returns them.
template <class Neighbours>
VISOPS_ALWAYS_INLINE float bicubic_at(const CubicWeights& weights, int i, Neighbours at) {
  float sum = 0.0f;
  for (int k = 0; k < 4; ++k) {
    float line = 0.0f;
    for (int j = 0; j < 4; ++j) line += weights.across[j][i] * at(j, k);
    sum += weights.down[k][i] * line;
  }
  return sum;
}

template <class T>
void bicubic(const Channel<T>& channel, const Positions& positions, const CubicWeights& weights,
             int count, T* to) {
  const RemapParams& p = channel.p;
  float values[kChunk];
  if (positions.outside_count < count) {
    const int64_t row_stride = p.row_stride, column_stride = p.column_stride;
    const T* const data = channel.data - row_stride - column_stride;
    for (int i = 0; i < count; ++i) {
      const T* const at = data + positions.offset[i];
      values[i] = bicubic_at(weights, i, [&](int column, int row) {
        return load_element(at + row * row_stride + column * column_stride);
      });
    }
  }
  for (int k = 0; k < positions.outside_count; ++k) {
    const int32_t i = positions.outside[k];
    const int64_t x = positions.x[i] - 1, y = positions.y[i] - 1;
    values[i] = bicubic_at(
        weights, i, [&](int column, int row) { return channel.padded(x + column, y + row); });
  }
  for (int i = 0; i < count; ++i) store_element(to + i, values[i]);
}

template <class T>
void interpolate(const RemapParams& p, int64_t begin, int64_t end) {
  const int64_t plane = p.target_height * p.target_width;
  const bool linear = p.mode == Interpolation::kBilinear;
  Positions positions;
  CubicWeights weights;
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t first = 0; first < p.target_width; first += kChunk) {
      const int64_t left = p.target_width - first;
      const int count = left < kChunk ? static_cast<int>(left) : kChunk;
      find_positions(p, row, first, count, 0.0f, linear ? 0 : 1, linear ? 1 : 2, positions);
      if (!linear) find_weights(positions, count, weights);
      for (int64_t c = 0; c < p.channels; ++c) {
        const Channel<T> channel = {p, static_cast<const T*>(p.source) + c * p.channel_stride,
                                    p.fill[c]};
        T* const to = static_cast<T*>(p.target) + c * plane + row * p.target_width + first;
        linear ? bilinear(channel, positions, count, to)
               : bicubic(channel, positions, weights, count, to);
      }
    }
  }
}

// Elements of a size, whatever they hold.
template <class Bits>
void nearest(const RemapParams& p, int64_t begin, int64_t end) {
  const int64_t plane = p.target_height * p.target_width;
  Bits fill;
  std::memcpy(&fill, p.fill_bits, sizeof(Bits));
  Positions positions;
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t first = 0; first < p.target_width; first += kChunk) {
      const int64_t left = p.target_width - first;
      const int count = left < kChunk ? static_cast<int>(left) : kChunk;
      find_positions(p, row, first, count, 0.5f, 0, 0, positions);
      for (int64_t c = 0; c < p.channels; ++c) {
        const Bits* const data = static_cast<const Bits*>(p.source) + c * p.channel_stride;
        Bits* const to = static_cast<Bits*>(p.target) + c * plane + row * p.target_width + first;
        if (positions.outside_count < count) {
          for (int i = 0; i < count; ++i) to[i] = data[positions.offset[i]];
        }
        for (int k = 0; k < positions.outside_count; ++k) {
          const int32_t i = positions.outside[k];
          const int64_t x = pad_index(p.padding, positions.x[i], p.width);
          const int64_t y = pad_index(p.padding, positions.y[i], p.height);
          to[i] = x < 0 || y < 0 ? fill : data[y * p.row_stride + x * p.column_stride];
        }
      }
    }
  }
}

void remap_kernel(const RemapParams& p, int64_t begin, int64_t end) {
  if (p.mode == Interpolation::kNearest) {
    switch (element_size(p.dtype)) {
      case 1: return nearest<uint8_t>(p, begin, end);
      case 2: return nearest<uint16_t>(p, begin, end);
      case 4: return nearest<uint32_t>(p, begin, end);
      default: return nearest<uint64_t>(p, begin, end);
    }
  }
  switch (p.dtype) {
    case DType::kUInt8: return interpolate<uint8_t>(p, begin, end);
    case DType::kFloat16: return interpolate<Half>(p, begin, end);
    case DType::kBFloat16: return interpolate<BFloat16>(p, begin, end);
    default: return interpolate<float>(p, begin, end);
  }
}

const bool registered = remap_stub.set(kIsaSlot, remap_kernel);

}  // namespace
}  // namespace visops
