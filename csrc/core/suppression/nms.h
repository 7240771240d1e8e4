// Greedy non-maximum suppression: what fronts and kernels share.
//
// NOTE [ Greedy suppression ]
// Candidates come segment by segment and, within a segment, best first. A segment is an image, or a
// class of an image: boxes of different segments never meet. A candidate is kept unless a kept box
// of its segment overlaps it by more than the threshold (NOTE [ Overlap ] in core/box.h).
// Testing against kept boxes only is the definition. It also lets max_output stop early and makes
// pruning possible: kept boxes can't be dense.
#pragma once

#include <cstdint>
#include <vector>

#include "core/box.h"
#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/element.h"

namespace visops {

// Candidates with a score of `threshold` or less take no part.
struct ScoreFilter {
  const void* scores;  // [candidates] contiguous; null: all take part
  DType dtype;
  double threshold;
};

struct NmsParams {
  const void* boxes;  // [images, per_image, 4] x1, y1, x2, y2; or 5: x, y, width, height, angle
  DType dtype;
  int64_t image_stride, box_stride, coordinate_stride;  // elements
  int64_t per_image;                                    // boxes of an image
  int64_t classes;                                      // sharing each image's boxes

  // A candidate is a number (image * classes + class) * per_image + box.
  int64_t count;
  const int64_t* order;  // [count] candidates, segment by segment, best first
  // [count] for each in `order`: equal numbers are adjacent. CUDA only: null if images are the
  // segments, and numbers in `order` begin with 0 in each.
  const int64_t* segment;
  double iou_threshold;  // [0, 1]
  int64_t max_output;    // most to keep of a segment; negative: no limit. CUDA: see nms_limit_stub
  ScoreFilter filter;    // CUDA only: on the CPU the front leaves such candidates out

  // CUDA only, without `segment`: positions in `order`, from 0 on in each image, by these codes.
  const int64_t* by_place;  // [count] or null
  int32_t* codes;           // [count] result by position. If set, the kernel computes this only

  uint8_t* kept;  // [count] result: 1 or 0 for each in `order`
};

// First element of a candidate's box.
VISOPS_FN int64_t box_offset(const NmsParams& p, int64_t candidate) {
  if (candidate < p.per_image) return candidate * p.box_stride;  // no slow divisions
  const int64_t group = candidate / p.per_image;
  return group / p.classes * p.image_stride + (candidate - group * p.per_image) * p.box_stride;
}

template <class Acc>
VISOPS_FN Box<Acc> candidate_box(const NmsParams& p, int64_t candidate) {
  return load_box<Acc>(p.boxes, p.dtype, box_offset(p, candidate), p.coordinate_stride);
}

VISOPS_FN RotatedBox rotated_candidate_box(const NmsParams& p, int64_t candidate) {
  return load_rotated_box(p.boxes, p.dtype, box_offset(p, candidate), p.coordinate_stride);
}

extern KernelStub<NmsParams> nms_stub, nms_rotated_stub;

// The dtype, and iou_threshold within [0, 1].
void check_nms(const char* op, const NmsParams& p);

// At most so many kept candidates of an image, on CUDA: what fronts and kernels share.

// Candidates come image by image, best first.
struct NmsLimitParams {
  int64_t count, images;
  int64_t in_image;      // candidates of each image
  const int64_t* image;  // [count] or each candidate's; it rises. Null: images have `in_image` each
  int64_t most;          // to keep of an image
  const int64_t* slot;   // [count] whose flag is each candidate's; null: its own
  uint8_t* kept;         // [count] flags, of which the kernel clears those beyond `most`
};

inline KernelStub<NmsLimitParams> nms_limit_stub{"nms_limit"};

// Which kept box each box belongs to: what fronts and kernels share.
//
// NOTE [ Matching ]
// After suppression, every box that was dropped overlaps a kept one; it belongs to the best of
// them by score. Other dropped boxes have no say, so boxes are matched independently.

struct NmsMatchParams {
  const void* boxes;  // [count, 4] x1, y1, x2, y2
  DType dtype;
  int64_t box_stride, coordinate_stride;  // elements
  int64_t count;
  double iou_threshold;  // [0, 1]
  const int64_t* kept;   // [kept_count] indices of kept boxes, by falling score
  int64_t kept_count;
  int64_t* matched;  // [count] in: a kept box's own index, -1 for others, which the kernel replaces
};

template <class Acc>
VISOPS_FN Box<Acc> box_at(const NmsMatchParams& p, int64_t i) {
  return load_box<Acc>(p.boxes, p.dtype, i * p.box_stride, p.coordinate_stride);
}

inline KernelStub<NmsMatchParams> nms_match_stub{"nms_match"};

// The result of suppression at a fixed size: what fronts and kernels share.

struct NmsPadParams {
  int64_t images, per_image;  // boxes of an image
  // Candidates, image by image, best first: image * per_image + box. An image has those from
  // begin[image] up to begin[image + 1]; a null `begin` stands for all boxes.
  const int64_t* candidates;
  bool within_images;    // CUDA only: they are numbered from 0 on in each image
  const uint8_t* kept;   // a flag for each candidate
  const int64_t* begin;  // [images + 1]

  int64_t most;      // boxes of an image in the result
  int64_t* indices;  // [images, most] result: kept boxes, then -1
  int64_t* count;    // [images] result: of kept boxes
};

VISOPS_FN int64_t first_candidate(const NmsPadParams& p, int64_t image) {
  return p.begin == nullptr ? image * p.per_image : p.begin[image];
}

inline KernelStub<NmsPadParams> nms_pad_stub{"nms_pad"};

// The order of candidates on CUDA, where there are few: what fronts and kernels share.

struct NmsRankParams {
  const void* scores;  // [images, classes, per_image], contiguous
  DType dtype;
  const int64_t* ids;  // [images, per_image], contiguous; or null
  int64_t images, per_image, classes;

  // Results, by position. Without ids and classes, as NmsParams without segments.
  int64_t* order;
  // Else as NmsParams with them, and the candidates image by image, best first, with each one's
  // position in `order`.
  int64_t* segment;
  int64_t* listed;
  int64_t* slot;

  VISOPS_DEVICE int64_t in_image() const { return classes * per_image; }
  VISOPS_DEVICE bool has_groups() const { return ids != nullptr || classes > 1; }
};

inline KernelStub<NmsRankParams> nms_rank_stub{"nms_rank"};

// The kept candidates as rows of a result, on CUDA: what fronts and kernels share.

// Candidates are split into chunks. The kernel first counts the kept ones of each, and writes rows
// when it has `rows`.
struct NmsRowsParams {
  int64_t count, per_image, classes;
  const int64_t* candidates;  // [count] in the order of the result, numbered as in NmsParams
  bool within_images;         // ... from 0 on in each image, one image after another
  const uint8_t* kept;        // flags
  const int64_t* slot;        // whose flag is each candidate's; null: its own
  bool names_image, names_class;
  int64_t chunk;    // candidates of a chunk
  int64_t* counts;  // [chunks]
  int64_t* rows;    // [kept, image? class? box]
};

inline KernelStub<NmsRowsParams> nms_rows_stub{"nms_rows"};

// Several arrays in one piece of scratch.

// Takes an array off the front of *memory. Arrays of wider elements go first: nothing is padded.
template <class T>
VISOPS_FN T* take_array(char** memory, int64_t count) {
  T* array = reinterpret_cast<T*>(*memory);
  *memory += count * static_cast<int64_t>(sizeof(T));
  return array;
}

// Masks as bits, 64 pixels to a word, in which intersections are counted exactly.

struct MaskExtent {
  int64_t begin, end;  // words outside [begin, end) are 0
  int64_t area;        // pixels inside the mask
};

struct MaskBitsParams {
  const uint8_t* masks;  // [N, height, width] bool or uint8; pixels that are not 0 are inside
  int64_t height, width;
  int64_t mask_stride, row_stride, column_stride;  // elements

  int64_t count;         // N
  const int64_t* order;  // [N] masks in the order of the results
  uint64_t* bits;        // [N, mask_words()] in `order`
  MaskExtent* extent;    // [N] in `order`
};

VISOPS_FN int64_t mask_words(const MaskBitsParams& p) { return (p.height * p.width + 63) / 64; }

VISOPS_FN int64_t pixel_offset(const MaskBitsParams& p, int64_t pixel) {
  const int64_t row = pixel / p.width;
  return row * p.row_stride + (pixel - row * p.width) * p.column_stride;
}

// CPU kernels take a range of positions in `order`.
extern KernelStub<MaskBitsParams> mask_bits_stub;

// Stable sorting by falling score, on the host.
//
// NOTE [ Order of scores ]
// As torch.sort(descending=True, stable=True): NaN before everything, -0 equal to +0, equal scores
// by index. A float's bits become an unsigned key that rises as the score falls. Key and index
// share a word, so all words differ and any sort is stable.

VISOPS_FN uint32_t falling_key(float score) {
  if (score != score) return 0;
  const uint32_t bits = bit_cast<uint32_t>(score + 0.0f);  // -0 becomes +0
  return bits >> 31 != 0 ? bits : ~(bits | 0x80000000u);
}

VISOPS_FN uint64_t falling_key(double score) {
  if (score != score) return 0;
  const uint64_t bits = bit_cast<uint64_t>(score + 0.0);
  return bits >> 63 != 0 ? bits : ~(bits | (uint64_t{1} << 63));
}

// Sorts float32 scores' keys: falling_key() in the upper 32 bits, the index below. Only the keys
// need sorting where `indices_rise` already.
void sort_keys(std::vector<uint64_t>* keys, bool indices_rise);

// The same for float64 scores.
struct WideKey {
  uint64_t key;
  uint32_t index;
};
void sort_keys(std::vector<WideKey>* keys, bool indices_rise);

}  // namespace visops
