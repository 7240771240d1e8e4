// Overlaps of all pairs of masks, and what they need of each mask, on the CPU.
//
// NOTE [ Overlaps of masks on the CPU ]
// Strategy: words outside of both masks' boxes are left out. If they are most of a row, rows are
// counted one by one; else whole rows are, which are adjacent (NOTE [ Counting bits ]). A pair is a
// sum of integers and one division in float64.
//
// Split: by masks; by the first masks of pairs.
#include "core/masks/packed.h"
#include "cpu/masks/common_pixels.h"
#include "cpu/simd/bits.h"

namespace visops {
namespace {

// The position of the highest bit of a word that is not 0.
int highest_bit(uint64_t word) {
#if defined(__GNUC__)
  return 63 - __builtin_clzll(word);
#else
  int position = 0;
  for (; word > 1; word >>= 1) ++position;
  return position;
#endif
}

void measure_kernel(const MeasureParams& p, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const uint64_t* bits = p.bits + i * p.height * p.words;
    int64_t y1 = p.height, y2 = 0;
    for (int64_t y = 0; y < p.height; ++y) {
      uint64_t any = 0;
      for (int64_t w = 0; w < p.words; ++w) any |= bits[y * p.words + w];
      if (any == 0) continue;
      if (y1 == p.height) y1 = y;
      y2 = y + 1;
    }
    if (y2 == 0) {
      p.areas[i] = 0;
      p.boxes[i] = {0, 0, 0, 0};
      continue;
    }
    int64_t x1 = p.words * kPixelsPerWord, x2 = 0;
    for (int64_t w = 0; w < p.words; ++w) {
      uint64_t column = 0;
      for (int64_t y = y1; y < y2; ++y) column |= bits[y * p.words + w];
      if (column == 0) continue;
      if (x2 == 0) x1 = w * kPixelsPerWord + lowest_bit(column);
      x2 = w * kPixelsPerWord + highest_bit(column) + 1;
    }
    const uint64_t* first = bits + y1 * p.words;
    p.areas[i] = count_common(first, first, (y2 - y1) * p.words);
    p.boxes[i] = {x1, y1, x2, y2};
  }
}

void mask_iou_kernel(const MaskIouParams& p, int64_t begin, int64_t end) {
  const int64_t size = p.height * p.words;
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t j = 0; j < p.second.count; ++j) {
      const int64_t common =
          common_pixels(p.first.bits + i * size, p.second.bits + j * size, p.words,
                        common_words(p.first.boxes[i], p.second.boxes[j]));
      p.overlaps[i * p.second.count + j] = overlap_of(p, i, j, common);
    }
  }
}

const bool measures = measure_stub.set(kIsaSlot, measure_kernel);
const bool overlaps = mask_iou_stub.set(kIsaSlot, mask_iou_kernel);

}  // namespace
}  // namespace visops
