// NOTE [ Masks to bits on the CPU ]
// Adjacent pixels are packed eight at a time, within a 64-bit word; others one by one. Work is
// split by masks. Assumes that the front checked shapes and that `order` holds indices of masks.
#include <cstring>

#include "core/suppression/nms.h"
#include "cpu/items.h"

namespace visops {
namespace {

// Bit i tells whether byte i of eight is not 0 (on little-endian machines).
uint64_t pack_eight(const uint8_t* pixels) {
  uint64_t bytes;
  memcpy(&bytes, pixels, sizeof(bytes));
  constexpr uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
  const uint64_t inside = (((bytes & kLow) + kLow) | bytes) >> 7 & 0x0101010101010101;
  return (inside * 0x0102040810204080) >> 56;  // byte i's bit moves to 56 + i
}

uint64_t pack_adjacent(const uint8_t* pixels, int64_t count) {
  uint64_t word = 0;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) word |= pack_eight(pixels + i) << i;
  for (; i < count; ++i) word |= static_cast<uint64_t>(pixels[i] != 0) << i;
  return word;
}

uint64_t pack_strided(const MaskBitsParams& p, const uint8_t* mask, int64_t first, int64_t count) {
  uint64_t word = 0;
  for (int64_t i = 0; i < count; ++i) {
    word |= static_cast<uint64_t>(mask[pixel_offset(p, first + i)] != 0) << i;
  }
  return word;
}

int64_t bits_of(uint64_t word) {
  int64_t bits = 0;
  for (; word != 0; word &= word - 1) ++bits;
  return bits;
}

void mask_bits_range(const MaskBitsParams& p, int64_t begin, int64_t end) {
  const int64_t pixels = p.height * p.width, words = mask_words(p);
  const bool adjacent = p.column_stride == 1 && (p.height <= 1 || p.row_stride == p.width);
  for (int64_t i = begin; i < end; ++i) {
    const uint8_t* mask = p.masks + p.order[i] * p.mask_stride;
    uint64_t* bits = p.bits + i * words;
    MaskExtent extent = {words, 0, 0};
    for (int64_t w = 0; w < words; ++w) {
      const int64_t first = w * 64, count = pixels - first < 64 ? pixels - first : 64;
      bits[w] = adjacent ? pack_adjacent(mask + first, count) : pack_strided(p, mask, first, count);
      if (bits[w] == 0) continue;
      extent.begin = w < extent.begin ? w : extent.begin;
      extent.end = w + 1;
      extent.area += bits[w] == ~uint64_t{0} ? 64 : bits_of(bits[w]);
    }
    p.extent[i] = extent;
  }
}

void mask_bits_kernel(const MaskBitsParams& p, Workspace& workspace) {
  for_items(workspace, p, p.count, p.height * p.width, mask_bits_range);
}

const bool registered = mask_bits_stub.set(kIsaSlot, mask_bits_kernel);

}  // namespace
}  // namespace visops
