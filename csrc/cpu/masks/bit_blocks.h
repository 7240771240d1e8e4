// Masks as bits, in blocks of 64 rows by 64 columns that can be turned.
#pragma once

#include <cstdint>

#include "core/masks/packed.h"
#include "core/platform.h"

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

// Scratch for the kinds of a mask's blocks.
struct BlockKinds {
  uint64_t* some;    // [words] bits that are set in some rows of a block
  uint64_t* all;     // [words] in all
  BlockKind* kinds;  // [blocks, words]

  static int64_t bytes(const BitImage& image) {
    return image.words * (2 * static_cast<int64_t>(sizeof(uint64_t)) + image.blocks());
  }
  static BlockKinds at(char* memory, const BitImage& image) {
    BlockKinds found;
    found.some = reinterpret_cast<uint64_t*>(memory);
    found.all = found.some + image.words;
    found.kinds = reinterpret_cast<BlockKind*>(found.all + image.words);
    return found;
  }

  void find(const BitImage& image) const {
    for (int64_t b = 0; b < image.blocks(); ++b) find_in_rows(image, b);
  }

 private:
  void find_in_rows(const BitImage& image, int64_t block) const {
    const uint64_t* row = image.row(block * kBlockRows);
    uint64_t* VISOPS_RESTRICT any = some;
    uint64_t* VISOPS_RESTRICT every = all;
    for (int64_t w = 0; w < image.words; ++w) any[w] = every[w] = row[w];
    for (int64_t k = 1; k < image.rows_of(block); ++k) {
      row += image.words;
      for (int64_t w = 0; w < image.words; ++w) {
        any[w] |= row[w];
        every[w] &= row[w];
      }
    }
    for (int64_t w = 0; w < image.words; ++w) {
      const uint64_t valid = image.valid(w);
      kinds[block * image.words + w] = (any[w] & valid) == 0         ? BlockKind::kEmpty
                                       : (every[w] & valid) == valid ? BlockKind::kFull
                                                                     : BlockKind::kMixed;
    }
  }
};

}  // namespace
}  // namespace visops
