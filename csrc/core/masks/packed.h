// Masks as bits: what fronts and kernels share.
//
// NOTE [ Packed masks ]
// A row of W pixels is ceil(W / 64) words; bit i of word w is pixel 64 w + i. Bits beyond the last
// pixel of a row are 0.
#pragma once

#include <string>

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/element.h"

namespace visops {

constexpr int64_t kPixelsPerWord = 64;

VISOPS_FN int64_t words_of(int64_t width) {
  return width / kPixelsPerWord + (width % kPixelsPerWord > 0 ? 1 : 0);
}

// Rows of all masks, one after another.
struct PackParams {
  const uint8_t* masks;  // [rows, width] pixels that are not 0 are inside
  int64_t rows, width;
  uint64_t* bits;  // [rows, words]
};

struct UnpackParams {
  const uint64_t* bits;  // [rows, words]
  int64_t rows, width;
  uint8_t* masks;  // [rows, width] 0 or 1
};

// Where pixels of a mask are: rows [y1, y2) and columns [x1, x2); zeros without pixels.
struct MaskBox {
  int64_t x1, y1, x2, y2;
};

// Masks are bits, or pixels: kernels read those once and store no bits.
struct MeasureParams {
  const uint64_t* bits;   // [count, height, words]
  const uint8_t* pixels;  // [count, height, width] instead; those that are not 0 are inside
  int64_t count, height, width, words;
  int64_t* areas;  // [count] pixels
  MaskBox* boxes;  // [count]
};

enum class MaskOverlap : int { kIou, kIoa };

// Masks, measured.
struct MeasuredMasks {
  const uint64_t* bits;  // [count, height, words]
  const int64_t* areas;
  const MaskBox* boxes;
  int64_t count;
  const uint8_t* pixels;  // [count, height, width] instead of all but count: as in MeasureParams
};

struct MaskIouParams {
  MeasuredMasks first, second;  // pixels: in mask_iou alone
  bool is_one;                  // both are the same masks
  int64_t height, width, words;
  MaskOverlap kind;
  const uint8_t* crowd;  // [second.count] not 0: the overlap is kIoa; null: none
  float* overlaps;       // [first.count, second.count]
};

// Words of the rows that two masks have in common.
struct CommonWords {
  int64_t y1, y2, begin, end;
};

VISOPS_FN CommonWords common_words(const MaskBox& a, const MaskBox& b) {
  const int64_t x1 = a.x1 > b.x1 ? a.x1 : b.x1, x2 = a.x2 < b.x2 ? a.x2 : b.x2;
  CommonWords common;
  common.y1 = a.y1 > b.y1 ? a.y1 : b.y1;
  common.y2 = a.y2 < b.y2 ? a.y2 : b.y2;
  common.begin = x1 / kPixelsPerWord;
  common.end = x1 < x2 && common.y1 < common.y2 ? words_of(x2) : common.begin;
  return common;
}

// The overlap of masks i and j, of which `common` pixels are in both; 0 where nothing is.
VISOPS_FN float overlap_of(const MaskIouParams& p, int64_t i, int64_t j, int64_t common) {
  if (common == 0) return 0.0f;
  const bool of_first = p.kind == MaskOverlap::kIoa || (p.crowd != nullptr && p.crowd[j] != 0);
  const int64_t all = p.first.areas[i] + (of_first ? 0 : p.second.areas[j] - common);
  return static_cast<float>(static_cast<double>(common) / static_cast<double>(all));
}

// CPU kernels of the first two take ranges of rows.
extern KernelStub<PackParams> pack_stub;
extern KernelStub<UnpackParams> unpack_stub;
extern KernelStub<MeasureParams> measure_stub;
extern KernelStub<MaskIouParams> mask_iou_stub;

MaskOverlap parse_mask_overlap(const char* op, const std::string& name);

// How stable masks are: what fronts and kernels share.
//
// NOTE [ Stability ]
// The intersection over union of a mask's two versions, those above a higher and above a lower
// threshold. One contains the other, so it is the ratio of their pixels. Thresholds are rounded to
// the dtype of the numbers, as torch does in comparisons; NaN is above none. 0 where no pixel is
// above the lower one.

struct StabilityParams {
  const void* logits;  // [count, pixels], contiguous
  DType dtype;
  int64_t count, pixels;
  double low, high;  // rounded to dtype
  float* scores;     // [count]
};

// CPU kernels take ranges of masks.
inline KernelStub<StabilityParams> stability_stub{"stability_score"};

VISOPS_FN float stability_of(int64_t above_high, int64_t above_low) {
  if (above_low == 0) return 0.0f;
  return static_cast<float>(static_cast<double>(above_high) / static_cast<double>(above_low));
}

}  // namespace visops
