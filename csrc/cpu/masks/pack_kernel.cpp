// Masks to bits and back, on the CPU.
//
// NOTE [ Packing on the CPU ]
// A comparison makes 64 pixels a word. Back, each pixel is a bit shifted to its lowest place, which
// compilers do for many at a time. Work is split by rows, whose masks don't matter.
#include "core/masks/packed.h"
#include "cpu/items.h"
#include "cpu/masks/pack_rows.h"

namespace visops {
namespace {

void pack_range(const PackParams& p, int64_t begin, int64_t end) {
  pack_rows(p.masks + begin * p.width, end - begin, p.width, (p.rows - begin) * p.width,
            p.bits + begin * words_of(p.width));
}

void pack_kernel(const PackParams& p, Workspace& workspace) {
  for_items(workspace, p, p.rows, p.width, pack_range);
}

void unpack_range(const UnpackParams& p, int64_t begin, int64_t end) {
  const int64_t words = words_of(p.width);
  for (int64_t row = begin; row < end; ++row) {
    uint8_t* pixels = p.masks + row * p.width;
    for (int64_t w = 0; w < words; ++w) {
      const uint64_t word = p.bits[row * words + w];
      const int64_t first = w * kPixelsPerWord;
      const int64_t count = p.width - first < kPixelsPerWord ? p.width - first : kPixelsPerWord;
      for (int64_t i = 0; i < count; ++i) pixels[first + i] = static_cast<uint8_t>(word >> i & 1);
    }
  }
}

void unpack_kernel(const UnpackParams& p, Workspace& workspace) {
  for_items(workspace, p, p.rows, p.width, unpack_range);
}

const bool packs = pack_stub.set(kIsaSlot, pack_kernel);
const bool unpacks = unpack_stub.set(kIsaSlot, unpack_kernel);

}  // namespace
}  // namespace visops
