// Rows of masks and label maps as runs of equal pixels.
#pragma once

#include <cstdint>

#include "cpu/simd/bits.h"

namespace visops {
namespace {

// Rows have `edges(y, edges)`: it writes the columns [edges[0], edges[1]), [edges[2], edges[3]),
// ... that the runs of row y cover, and returns one past the last edge. `same(y, x, y', x')` tells
// whether two pixels that lie in runs have equal values.

// Runs of pixels that are not 0 or, where `inverted`, of those that are.
struct MaskRows {
  using Pixel = uint8_t;
  const uint8_t* pixels;  // [height, width]
  int64_t width;
  bool inverted = false;

  // The most runs in a row.
  int64_t most() const { return (width + 1) / 2; }

  int32_t* edges(int64_t y, int32_t* edges) const {
    const uint8_t* row = pixels + y * width;
    uint64_t before = 0;  // the last pixel's bit
    for (int64_t first = 0; first < width; first += kWordBits) {
      const int64_t count = width - first < kWordBits ? width - first : kWordBits;
      uint64_t inside = nonzero_bits(row + first, count);
      if (inverted) inside = ~inside & (~uint64_t{0} >> (kWordBits - count));
      uint64_t changes = inside ^ (inside << 1 | before);
      before = inside >> 63;
      for (; changes != 0; changes &= changes - 1) {
        *edges++ = static_cast<int32_t>(first + lowest_bit(changes));
      }
    }
    // A run that reaches the end of the row may have got an edge there, from the zeros that follow.
    if (before != 0) *edges++ = static_cast<int32_t>(width);
    return edges;
  }
};

// Runs of equal pixels that are not 0.
template <class T>
struct LabelRows {
  using Pixel = T;
  const T* pixels;
  int64_t width;

  int64_t most() const { return width; }

  int32_t* edges(int64_t y, int32_t* edges) const {
    const T* row = pixels + y * width;
    T before = 0;
    bool open = false;
    for (int64_t first = 0; first < width; first += kWordBits) {
      const int64_t count = width - first < kWordBits ? width - first : kWordBits;
      uint8_t differs[kWordBits];
      differs[0] = row[first] != before;
      for (int64_t i = 1; i < count; ++i) differs[i] = row[first + i] != row[first + i - 1];
      before = row[first + count - 1];
      uint64_t changes = nonzero_bits(differs, count);
      for (; changes != 0; changes &= changes - 1) {
        const auto x = static_cast<int32_t>(first + lowest_bit(changes));
        if (open) *edges++ = x;
        open = row[x] != 0;
        if (open) *edges++ = x;
      }
    }
    if (open) *edges++ = static_cast<int32_t>(width);
    return edges;
  }

  bool same(int64_t y, int32_t x, int64_t other_y, int32_t other_x) const {
    return pixels[y * width + x] == pixels[other_y * width + other_x];
  }
};

}  // namespace
}  // namespace visops
