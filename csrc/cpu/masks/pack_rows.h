// Rows of pixels to bits.
#pragma once

#include <cstdint>

#include "core/masks/packed.h"
#include "cpu/simd/bits.h"

namespace visops {
namespace {

// Packs adjacent rows. `readable` pixels, at least all of the rows, may be read from the first on:
// a whole word of pixels is read faster than a part of one.
inline void pack_rows(const uint8_t* pixels, int64_t rows, int64_t width, int64_t readable,
                      uint64_t* bits) {
  const int64_t words = words_of(width), last = (words - 1) * kPixelsPerWord;
  const uint64_t valid = ~uint64_t{0} >> (words * kPixelsPerWord - width);
  for (int64_t y = 0; y < rows; ++y, pixels += width, bits += words, readable -= width) {
    for (int64_t w = 0; w + 1 < words; ++w) bits[w] = nonzero_bits(pixels + w * kPixelsPerWord);
    bits[words - 1] = last + kPixelsPerWord <= readable ? nonzero_bits(pixels + last) & valid
                                                        : nonzero_bits(pixels + last, width - last);
  }
}

}  // namespace
}  // namespace visops
