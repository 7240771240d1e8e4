// Matrix suppression: what the front and the kernels share.
//
// NOTE [ Matrix suppression ]
// Wang, Zhang, Kong, Li and Shen, "SOLOv2: Dynamic and Fast Instance Segmentation" (NeurIPS 2020).
// Objects come group by group and, within a group, by falling score. With iou_ij the overlap of two
// objects of a group,
//
//   comp_i  = max of iou_hi over all better objects h
//   decay_j = min of f(iou_ij) / f(comp_i) over all better objects i, at most 1
//   f(iou)  = exp(-sigma iou^2), or 1 - iou
//
// and an object's new score is its score times its decay. The first object of a group has comp = 0:
// it decays the objects that it overlaps by f(iou) / f(0), and others by 1. So pairs that don't
// overlap need no look. An object that equals a better one has comp = 1; where f(1) = 0, it decays
// nobody.
//
// Kernels don't look for the smallest ratio but for the largest `loss`. An exponential is
// monotonic, so the loss is iou_ij^2 - comp_i^2, and the exponential of the largest is taken once.
// For the other f the loss is (iou_ij - 1) / (1 - comp_i), the ratio with its sign turned. The
// order of comparisons can't change a maximum: results are equal on every device.
//
// Overlaps are computed in Overlap: float for floating boxes of up to 32 bits, else double. The
// rest is computed in Score: double if Overlap or the scores are, else float.
#pragma once

#include <string>

#include "core/box.h"
#include "core/dispatch/kernel_stub.h"
#include "core/numbers/elementary.h"
#include "core/suppression/nms.h"

namespace visops {

enum class DecayFunction : int { kGaussian, kLinear };

struct MatrixNmsParams {
  const void* boxes;  // [N, 4] x1, y1, x2, y2; null: masks
  DType dtype;
  int64_t box_stride, coordinate_stride;  // elements
  const uint64_t* bits;                   // [N, words] masks in `order` (nms.h)
  const MaskExtent* extent;               // [N] in `order`
  int64_t words;

  int64_t count;           // N
  const int64_t* order;    // [N] objects, group by group, by falling score
  const int64_t* segment;  // [N] group of each in `order`: equal numbers are adjacent
  const void* scores;      // [N] by object; negative: takes no part
  DType score_dtype;
  DecayFunction decay;
  double sigma;

  void* new_scores;  // [N] by object, of score_dtype; -1 for those that take no part
};

VISOPS_FN bool overlaps_in_double(const MatrixNmsParams& p) {
  return p.boxes == nullptr || computes_in_double(p.dtype);
}
VISOPS_FN bool scores_in_double(const MatrixNmsParams& p) {
  return overlaps_in_double(p) || p.score_dtype == DType::kFloat64;
}

// The loss of an object that no better one overlaps.
template <class Score>
VISOPS_FN Score no_loss(DecayFunction decay) {
  return decay == DecayFunction::kLinear ? static_cast<Score>(-1) : static_cast<Score>(0);
}

// All that loss_of() needs of an object with the largest overlap `comp`.
template <class Score>
VISOPS_FN Score compensation(DecayFunction decay, Score comp) {
  return decay == DecayFunction::kLinear ? static_cast<Score>(1) - comp : comp * comp;
}

// The loss from a better object that overlaps by `iou`.
template <class Score>
VISOPS_FN Score loss_of(DecayFunction decay, Score iou, Score compensated) {
  if (decay == DecayFunction::kGaussian) return iou * iou - compensated;
  const Score one = static_cast<Score>(1);
  return compensated > static_cast<Score>(0) ? (iou - one) / compensated : -one;
}

template <class Score>
VISOPS_FN Score decayed(const MatrixNmsParams& p, Score score, Score loss) {
  const Score zero = static_cast<Score>(0);
  if (p.decay == DecayFunction::kLinear) return score * (zero - loss);  // 0, not -0
  return score * static_cast<Score>(exp_of(-p.sigma * static_cast<double>(loss)));
}

VISOPS_FN double overlap_of(const MaskExtent& a, const MaskExtent& b, int64_t intersection) {
  if (intersection == 0) return 0.0;
  return static_cast<double>(intersection) / static_cast<double>(a.area + b.area - intersection);
}

template <class Score>
VISOPS_FN Score score_at(const MatrixNmsParams& p, int64_t i) {
  return load_coordinate<Score>(p.scores, p.score_dtype, p.order[i]);
}

VISOPS_FN void store_score(const MatrixNmsParams& p, int64_t i, double score) {
  store_rounded(p.new_scores, p.score_dtype, p.order[i], score);
}

extern KernelStub<MatrixNmsParams> matrix_nms_stub;

// Dtypes, and numbers within their ranges.
void check_matrix_nms(const char* op, const MatrixNmsParams& p, double min_score);
DecayFunction parse_decay_function(const char* op, const std::string& name);

}  // namespace visops
