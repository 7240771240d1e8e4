// Overlaps of all pairs of masks, and what they need of each mask, on the CPU.
//
// NOTE [ Overlaps of masks on the CPU ]
// Strategy: words outside of both masks' boxes are left out. If they are most of a row, rows are
// counted one by one; else whole rows are, which are adjacent (NOTE [ Counting bits ]). A pair is a
// sum of integers and one division in float64. Masks that come as pixels are read once: NOTE
// [ Reading masks ], NOTE [ Parts of masks ]. The pairs of a set with itself are counted once.
//
// Split: by masks; by the first masks of pairs.
#include "core/dispatch/threads.h"
#include "core/dispatch/workspace.h"
#include "core/masks/packed.h"
#include "cpu/masks/partition.h"

namespace visops {
namespace {

void measure_bits(const MeasureParams& p, int64_t i, MaskExtent& extent) {
  const uint64_t* row = p.bits + i * p.height * p.words;
  for (int64_t y = 0; y < p.height; ++y, row += p.words) {
    uint64_t any = 0;
    for (int64_t w = 0; w < p.words; ++w) any |= row[w];
    if (any == 0) continue;
    for (int64_t w = 0; w < p.words; ++w) extent.add(y, w, row[w]);
  }
}

void measure_pixels(const MeasureParams& p, int64_t i, MaskExtent& extent) {
  const int64_t size = p.height * p.width;
  read_mask(p.pixels + i * size, p.height, p.width, (p.count - i) * size,
            [&](int64_t y, int64_t w, uint64_t word) { extent.add(y, w, word); });
}

void measure_kernel(const MeasureParams& p, Workspace& workspace) {
  const int64_t tasks = mask_tasks(p.count, p.height, p.words * kPixelsPerWord, workspace);
  uint64_t* columns = allocate<uint64_t>(workspace, tasks * p.words);
  for_each_task(p.count, tasks, workspace, [&](int64_t task, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      MaskExtent extent(columns + task * p.words, p.words);
      p.pixels != nullptr ? measure_pixels(p, i, extent) : measure_bits(p, i, extent);
      p.areas[i] = extent.area;
      p.boxes[i] = extent.box();
    }
  });
}

// Packs masks that come as pixels. Returns their parts; null: masks are whole.
const MaskPart* packed_parts(const MaskIouParams& p, MeasuredMasks* masks, Workspace& workspace) {
  if (masks->pixels == nullptr) return nullptr;
  const MaskParts found = pack_parts(masks->pixels, masks->count, p.height, p.width, workspace);
  masks->areas = found.areas;
  masks->boxes = found.boxes;
  return found.parts;
}

void mask_iou_kernel(const MaskIouParams& given, Workspace& workspace) {
  MaskIouParams p = given;
  const MaskPart* first = packed_parts(p, &p.first, workspace);
  const MaskPart* second = first;
  if (p.is_one) {
    p.second = p.first;
  } else {
    second = packed_parts(p, &p.second, workspace);
  }
  const int64_t size = p.height * p.words, count = p.second.count;
  const bool is_symmetric = p.is_one && p.kind == MaskOverlap::kIou && p.crowd == nullptr;
  const auto overlap = [&](int64_t i, int64_t j) {
    const MaskPart one = first != nullptr ? first[i] : whole_mask(p.first.bits + i * size, p.words);
    const MaskPart other =
        second != nullptr ? second[j] : whole_mask(p.second.bits + j * size, p.words);
    const CommonWords common = common_words(p.first.boxes[i], p.second.boxes[j]);
    return overlap_of(p, i, j, common_pixels(one, other, p.words, common));
  };
  parallel_for(workspace, p.first.count, grain_of(count * size / 4),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   for (int64_t j = is_symmetric ? i : 0; j < count; ++j) {
                     const float found = overlap(i, j);
                     p.overlaps[i * count + j] = found;
                     if (is_symmetric) p.overlaps[j * count + i] = found;
                   }
                 }
               });
}

const bool measures = measure_stub.set(kIsaSlot, measure_kernel);
const bool overlaps = mask_iou_stub.set(kIsaSlot, mask_iou_kernel);

}  // namespace
}  // namespace visops
