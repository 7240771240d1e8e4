// Rows of pixels to bits.
//
// NOTE [ Reading masks ]
// Pixels are a byte each, so reading them takes longer than anything else. Most are outside: four
// words are looked at together, and only those with a pixel become bits. Pixels further on are
// asked for early, across the pages where the processor's own reading ahead stops.
#pragma once

#include <cstdint>

#include "core/masks/packed.h"
#include "cpu/simd/bits.h"

namespace visops {
namespace {

constexpr int64_t kBytesAhead = 1 << 14;

// Calls empty(w) for four words from w on without a pixel, and word(w, bits) for all others of a
// row. `readable` pixels, at least all of the row, may be read from the first on: a whole word of
// pixels is read faster than a part of one.
template <class Empty, class Word>
VISOPS_ALWAYS_INLINE void read_row(const uint8_t* row, int64_t width, int64_t readable,
                                   const Empty& empty, const Word& word) {
  const int64_t whole = width / kPixelsPerWord, last = whole * kPixelsPerWord;
  int64_t w = 0;
  for (; w + kChunkWords <= whole; w += kChunkWords) {
    const uint8_t* pixels = row + w * kPixelsPerWord;
    if (readable > kBytesAhead) prefetch_chunk(pixels + kBytesAhead);
    if (!any_nonzero(pixels)) {
      empty(w);
      continue;
    }
    for (int64_t k = 0; k < kChunkWords; ++k)
      word(w + k, nonzero_bits(pixels + k * kPixelsPerWord));
  }
  for (; w < whole; ++w) word(w, nonzero_bits(row + w * kPixelsPerWord));
  if (last == width) return;
  const uint64_t valid = ~uint64_t{0} >> (kPixelsPerWord - (width - last));
  word(whole, last + kPixelsPerWord <= readable ? nonzero_bits(row + last) & valid
                                                : nonzero_bits(row + last, width - last));
}

// Packs adjacent rows; `readable` as above.
inline void pack_rows(const uint8_t* pixels, int64_t rows, int64_t width, int64_t readable,
                      uint64_t* bits) {
  const int64_t words = words_of(width);
  for (int64_t y = 0; y < rows; ++y, pixels += width, bits += words, readable -= width) {
    read_row(
        pixels, width, readable,
        [bits](int64_t w) {
          for (int64_t k = 0; k < kChunkWords; ++k) bits[w + k] = 0;
        },
        [bits](int64_t w, uint64_t word) { bits[w] = word; });
  }
}

}  // namespace
}  // namespace visops
