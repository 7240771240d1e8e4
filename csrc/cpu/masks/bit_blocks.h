// Masks as bits, in blocks of 64 rows by 64 columns that can be turned.
#pragma once

#include <cstdint>

#include "core/masks/packed.h"
#include "core/platform.h"
#include "cpu/simd/popcount.h"
#include "cpu/simd/transpose_bits.h"

namespace visops {
namespace {

constexpr int64_t kBlockRows = 64;

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
