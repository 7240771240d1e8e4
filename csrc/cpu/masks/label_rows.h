// Rows of label maps as runs of equal pixels.
#pragma once

#include <cstdint>

#include "cpu/simd/bits.h"

namespace visops {
namespace {

// Runs of equal pixels that are not 0.
template <class T>
struct LabelRows {
  const T* pixels;  // [height, width]
  int64_t width;

  // Writes the columns [edges[0], edges[1]), [edges[2], edges[3]), ... that the runs of row y
  // cover; returns one past the last edge.
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

  // Whether two pixels that lie in runs have equal values.
  bool same(int64_t y, int32_t x, int64_t other_y, int32_t other_x) const {
    return pixels[y * width + x] == pixels[other_y * width + other_x];
  }
};

}  // namespace
}  // namespace visops
