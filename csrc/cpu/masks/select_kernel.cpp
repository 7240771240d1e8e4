// Suppression and merging of masks, on the CPU.
//
// NOTE [ Masks by score on the CPU ]
// Suppression: once a mask is kept, the later ones that it may suppress are compared with it, by
// words of the rows and columns that both boxes cover; boxes and areas rule most of them out. So a
// mask is compared only with kept ones, and only until one suppresses it. Merging: a bit for each
// pixel tells whether it has been drawn, so that a mask's covered pixels are counted by words, and
// only new ones are drawn.
//
// Split: suppression by later masks, one kept mask after another; merging not at all, since a mask
// depends on all before it and takes some microseconds. All sums are of integers.
#include "core/dispatch/workspace.h"
#include "core/masks/select.h"
#include "cpu/masks/partition.h"
#include "cpu/simd/bits.h"

namespace visops {
namespace {

constexpr int64_t kLaterMasks = 32;  // fewer cost more to hand out than to rule out

MaskPart mask_of(const MeasuredMasks& masks, int64_t size, int64_t words, int64_t i) {
  return whole_mask(masks.bits + i * size, words);
}

void suppress_masks_kernel(const SuppressMasksParams& p, Workspace& workspace) {
  const int64_t count = p.masks.count, size = p.height * p.words;
  for (int64_t at = 0; at < count; ++at) p.kept[at] = mask_at(p.order, count, at) >= 0 ? 1 : 0;
  for (int64_t at = 0; at < count; ++at) {
    if (p.kept[at] == 0) continue;
    const int64_t i = p.order.masks[at];
    parallel_for(workspace, count - at - 1, kLaterMasks, [&](int64_t begin, int64_t end) {
      for (int64_t later = at + 1 + begin; later < at + 1 + end; ++later) {
        if (p.kept[later] == 0) continue;
        const int64_t j = p.order.masks[later];
        if (!may_suppress(p, i, j)) continue;
        const int64_t common =
            common_pixels(mask_of(p.masks, size, p.words, i), mask_of(p.masks, size, p.words, j),
                          p.words, common_words(p.masks.boxes[i], p.masks.boxes[j]));
        if (suppresses(p, i, j, common)) p.kept[later] = 0;
      }
    });
  }
}

// Draws pixels of a row: those of `fresh`, 64 from `pixels` on.
void draw_word(uint64_t fresh, int32_t label, int32_t* pixels) {
  if (fresh == ~uint64_t{0}) {
    for (int64_t i = 0; i < kPixelsPerWord; ++i) pixels[i] = label;
    return;
  }
  for (; fresh != 0; fresh &= fresh - 1) pixels[lowest_bit(fresh)] = label;
}

void merge_masks_kernel(const MergeMasksParams& p, Workspace& workspace) {
  const int64_t count = p.masks.count, size = p.height * p.words;
  uint64_t* drawn = allocate<uint64_t>(workspace, size);
  for (int64_t w = 0; w < size; ++w) drawn[w] = 0;
  int32_t label = 0;
  for (int64_t at = 0; at < count; ++at) {
    const int64_t i = mask_at(p.order, count, at);
    if (i < 0) continue;
    const MaskBox& box = p.masks.boxes[i];
    const MaskPart mask = mask_of(p.masks, size, p.words, i);
    const CommonWords part = common_words(box, box);
    if (!is_drawn(p, p.masks.areas[i],
                  common_pixels(mask, whole_mask(drawn, p.words), p.words, part)))
      continue;
    p.ids[i] = ++label;
    for (int64_t y = part.y1; y < part.y2; ++y) {
      for (int64_t w = part.begin; w < part.end; ++w) {
        const uint64_t fresh =
            mask.bits[y * p.words + w] & ~drawn[y * p.words + w] & pixels_of_word(p, w);
        if (fresh == 0) continue;
        drawn[y * p.words + w] |= fresh;
        draw_word(fresh, label, p.labels + y * p.width + w * kPixelsPerWord);
      }
    }
  }
}

const bool suppresses_masks = suppress_masks_stub.set(kIsaSlot, suppress_masks_kernel);
const bool merges = merge_masks_stub.set(kIsaSlot, merge_masks_kernel);

}  // namespace
}  // namespace visops
