// Masks as bits, in blocks of 64 rows by 64 columns that can be turned.
#pragma once

#include <cstdint>

#include "core/masks/packed.h"
#include "core/platform.h"
#include "cpu/simd/popcount.h"

namespace visops {
namespace {

constexpr int64_t kBlockRows = 64;

// Swaps bits i + kStep of words k with bits i of words k + kStep.
template <int kStep>
VISOPS_ALWAYS_INLINE void turn_step(uint64_t* words) {
  constexpr uint64_t kLow = ~uint64_t{0} / ((uint64_t{1} << kStep) + 1);
  for (int first = 0; first < 64; first += 2 * kStep) {
    for (int k = first; k < first + kStep; ++k) {
      const uint64_t swapped = ((words[k] >> kStep) ^ words[k + kStep]) & kLow;
      words[k] ^= swapped << kStep;
      words[k + kStep] ^= swapped;
    }
  }
}

// Transposes 64 x 64 bits: bit i of word k becomes bit k of word i.
inline void turn_block(uint64_t* words) {
  turn_step<32>(words);
  turn_step<16>(words);
  turn_step<8>(words);
  turn_step<4>(words);
  turn_step<2>(words);
  turn_step<1>(words);
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
