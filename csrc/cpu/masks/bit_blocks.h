// Masks as bits, in blocks of 64 rows by 64 columns that can be turned.
#pragma once

#include <cstdint>

#include "core/masks/packed.h"
#include "core/platform.h"
#include "cpu/simd/popcount.h"

namespace visops {
namespace {

constexpr int64_t kBlockRows = 64;

// Swaps bits i + kShift of one word with bits i of another.
template <int kShift>
VISOPS_ALWAYS_INLINE void swap_bits(uint64_t& low, uint64_t& high) {
  constexpr uint64_t kLow = ~uint64_t{0} / ((uint64_t{1} << kShift) + 1);
  const uint64_t swapped = ((low >> kShift) ^ high) & kLow;
  low ^= swapped << kShift;
  high ^= swapped;
}

// Transposes each 8 x 8 bits of eight words, in registers: vectors would have to be shuffled.
VISOPS_ALWAYS_INLINE void turn_eight(const uint64_t* from, int64_t stride, uint64_t* to) {
  uint64_t a = from[0], b = from[stride], c = from[2 * stride], d = from[3 * stride];
  uint64_t e = from[4 * stride], f = from[5 * stride], g = from[6 * stride], h = from[7 * stride];
  swap_bits<4>(a, e), swap_bits<4>(b, f), swap_bits<4>(c, g), swap_bits<4>(d, h);
  swap_bits<2>(a, c), swap_bits<2>(b, d), swap_bits<2>(e, g), swap_bits<2>(f, h);
  swap_bits<1>(a, b), swap_bits<1>(c, d), swap_bits<1>(e, f), swap_bits<1>(g, h);
  to[0] = a, to[1] = b, to[2] = c, to[3] = d, to[4] = e, to[5] = f, to[6] = g, to[7] = h;
}

// The same of larger squares, whose words are a vector apart.
template <int kStep>
VISOPS_ALWAYS_INLINE void turn_step(uint64_t* words) {
  for (int first = 0; first < 64; first += 2 * kStep) {
    for (int k = first; k < first + kStep; ++k) swap_bits<kStep>(words[k], words[k + kStep]);
  }
}

// Transposes 64 x 64 bits: bit i of from[k * stride] becomes bit k of to[i].
inline void turn_block(const uint64_t* from, int64_t stride, uint64_t* to) {
  for (int first = 0; first < 64; first += 8) turn_eight(from + first * stride, stride, to + first);
  turn_step<8>(to);
  turn_step<16>(to);
  turn_step<32>(to);
}

// One mask.
struct BitImage {
  const uint64_t* bits;  // [height, words]
  int64_t height, width, words;

  int64_t blocks() const { return (height + kBlockRows - 1) / kBlockRows; }
  int64_t rows_of(int64_t block) const {
    const int64_t rows = height - block * kBlockRows;
    return rows < kBlockRows ? rows : kBlockRows;
  }
  int64_t columns_of(int64_t word) const {
    const int64_t columns = width - word * kPixelsPerWord;
    return columns < kPixelsPerWord ? columns : kPixelsPerWord;
  }
  // The bits of a word that are columns.
  uint64_t valid(int64_t word) const { return ~uint64_t{0} >> (kPixelsPerWord - columns_of(word)); }
  const uint64_t* row(int64_t y) const { return bits + y * words; }
};

enum class BlockKind : uint8_t { kEmpty, kFull, kMixed };

// What a block has in the rows of each word, and how many pixels differ from the one above, in the
// block before too. `differs` is scratch for a word of each column.
inline int64_t find_kinds(const BitImage& image, int64_t block, uint64_t* differs,
                          BlockKind* kinds) {
  const int64_t words = image.words, rows = image.rows_of(block);
  const uint64_t* first = image.row(block * kBlockRows);
  uint64_t* VISOPS_RESTRICT any = differs;
  for (int64_t w = 0; w < words; ++w) any[w] = 0;
  for (int64_t k = 1; k < rows; ++k) {
    const uint64_t *row = first + k * words, *above = row - words;
    for (int64_t w = 0; w < words; ++w) any[w] |= row[w] ^ above[w];
  }
  int64_t changes = 0;
  for (int64_t w = 0; w < words; ++w) {
    const uint64_t valid = image.valid(w), top = first[w] & valid;
    if (block > 0) changes += count_bits(top ^ (first[w - words] & valid));
    const bool is_even = (any[w] & valid) == 0;
    kinds[w] = !is_even       ? BlockKind::kMixed
               : top == 0     ? BlockKind::kEmpty
               : top == valid ? BlockKind::kFull
                              : BlockKind::kMixed;
    if (is_even) continue;
    const uint64_t* at = first + w;
    for (int64_t k = 1; k < rows; ++k) {
      changes += count_bits((at[k * words] ^ at[(k - 1) * words]) & valid);
    }
  }
  return changes;
}

}  // namespace
}  // namespace visops
