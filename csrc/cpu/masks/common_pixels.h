// Pixels that two masks have in common.
#pragma once

#include "core/masks/packed.h"
#include "cpu/simd/popcount.h"

namespace visops {
namespace {

// Counts the pixels that two masks [height, words] share, in the part that both boxes cover.
inline int64_t common_pixels(const uint64_t* first, const uint64_t* second, int64_t words,
                             const CommonWords& common) {
  const int64_t width = common.end - common.begin, rows = common.y2 - common.y1;
  if (width <= 0) return 0;
  const uint64_t* a = first + common.y1 * words;
  const uint64_t* b = second + common.y1 * words;
  // Words one by one take about four times as long.
  if (width * 4 > words) return count_common(a, b, rows * words);
  int64_t count = 0;
  for (int64_t y = 0; y < rows; ++y) {
    for (int64_t w = common.begin; w < common.end; ++w) {
      count += count_bits(a[y * words + w] & b[y * words + w]);
    }
  }
  return count;
}

}  // namespace
}  // namespace visops
