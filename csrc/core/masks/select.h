// Choosing among masks that overlap: suppression, and merging into a label map.
//
// NOTE [ Masks by score ]
// Both take masks one after another in a given order. Suppression keeps a mask unless one kept
// before, of the same group, overlaps it by more than a threshold. Merging draws a mask where
// nothing has been drawn, unless more than a share of its pixels has been. Both ratios are of
// counts, in float64: one that equals the threshold, such as 1 / 5 and 0.2, rounds to the same
// number, and does not exceed it. An empty mask is kept by the one and not drawn by the other.
// Masks that take no part do neither.
#pragma once

#include "core/masks/packed.h"
#include "core/numbers/element.h"

namespace visops {

// In the order of positions.
struct MaskOrder {
  const int64_t* masks;       // [count] indices; CUDA kernels skip those that are not
  const uint8_t* takes_part;  // [count] by position; null: all do
};

struct SuppressMasksParams {
  MeasuredMasks masks;
  int64_t height, words;
  MaskOrder order;
  const int64_t* groups;  // [count] by mask; null: one
  double iou_threshold;
  uint8_t* kept;  // [count] 0 or 1, by position
};

struct MergeMasksParams {
  MeasuredMasks masks;
  int64_t height, width, words;
  MaskOrder order;
  double overlap_threshold;
  int32_t* labels;  // [height, width], all 0 when the kernel starts
  int32_t* ids;     // [count] by mask: its label from 1 on, 0 if it was not drawn; all 0 at first
};

extern KernelStub<SuppressMasksParams> suppress_masks_stub;
extern KernelStub<MergeMasksParams> merge_masks_stub;

void check_order(const char* op, const MaskOrder& order, int64_t count);  // in host memory
void check_share(const char* op, const char* name, double share);         // in [0, 1]

// The mask at a position, or -1 if it takes no part.
VISOPS_FN int64_t mask_at(const MaskOrder& order, int64_t count, int64_t position) {
  if (order.takes_part != nullptr && order.takes_part[position] == 0) return -1;
  const int64_t mask = order.masks[position];
  return mask >= 0 && mask < count ? mask : -1;
}

// Whether the ratio of two counts is more than a threshold.
VISOPS_FN bool exceeds(int64_t part, int64_t all, double threshold) {
  return static_cast<double>(part) / static_cast<double>(all) > threshold;
}

// Whether masks i and j can overlap by more than the threshold at all, whatever their pixels: their
// ratio can't exceed that of their areas, nor that of the pixels in both boxes.
VISOPS_FN bool may_suppress(const SuppressMasksParams& p, int64_t i, int64_t j) {
  if (p.groups != nullptr && p.groups[i] != p.groups[j]) return false;
  const MaskBox &a = p.masks.boxes[i], &b = p.masks.boxes[j];
  const int64_t x1 = a.x1 > b.x1 ? a.x1 : b.x1, x2 = a.x2 < b.x2 ? a.x2 : b.x2;
  const int64_t y1 = a.y1 > b.y1 ? a.y1 : b.y1, y2 = a.y2 < b.y2 ? a.y2 : b.y2;
  if (x1 >= x2 || y1 >= y2) return false;
  const int64_t area = p.masks.areas[i], other = p.masks.areas[j];
  int64_t most = area < other ? area : other;
  if ((x2 - x1) * (y2 - y1) < most) most = (x2 - x1) * (y2 - y1);
  return exceeds(most, area + other - most, p.iou_threshold);
}

VISOPS_FN bool suppresses(const SuppressMasksParams& p, int64_t i, int64_t j, int64_t common) {
  const int64_t all = p.masks.areas[i] + p.masks.areas[j] - common;
  return common > 0 && exceeds(common, all, p.iou_threshold);
}

// The bits of word w of a row that are pixels: callers may have set others, which are not drawn.
VISOPS_FN uint64_t pixels_of_word(const MergeMasksParams& p, int64_t w) {
  const int64_t left = p.width - w * kPixelsPerWord;
  return left >= kPixelsPerWord ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
}

// Whether a mask of `area` pixels is drawn, `covered` of which have been drawn before.
VISOPS_FN bool is_drawn(const MergeMasksParams& p, int64_t area, int64_t covered) {
  return area > 0 && !exceeds(covered, area, p.overlap_threshold);
}

}  // namespace visops
