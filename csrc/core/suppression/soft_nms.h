// Suppression by lowering scores: what fronts and kernels share.
//
// NOTE [ Soft suppression ]
// Within a segment, of all candidates whose score is not below min_score the one of the highest
// score is kept (of equal ones, that of the lowest number); then the scores of those that overlap
// it fall, and so on. (Bodla, Singh, Chellappa, Davis: "Soft-NMS -- Improving Object Detection With
// One Line of Code", 2017.) Scores only fall: what is below min_score never comes back, and
// kept scores fall too. A candidate's score is a product in the order in which boxes were kept.
#pragma once

#include <string_view>

#include "core/suppression/nms.h"

namespace visops {

enum class Decay { kLinear, kGaussian, kHard };

struct SoftNmsParams {
  // Without scores and filter. `order` is by number within a segment.
  NmsParams candidates;
  Decay decay;
  double sigma;      // > 0
  double min_score;  // >= 0
  bool in_double;    // boxes or scores are of a dtype that computes in double
  // [count] float or double: of each in `order`, and at the end those of what is kept. On the CPU,
  // none is below min_score, or NaN, to begin with.
  void* scores;
};

constexpr int kSoftNmsOut = -1;  // the score of what has fallen below min_score

// A score after a box was kept that overlaps the candidate by `iou`, which is more than
// `threshold`, or kSoftNmsOut.
template <class Acc>
VISOPS_FN Acc decayed(const SoftNmsParams& p, Acc score, Acc iou) {
  Acc factor = static_cast<Acc>(1) - iou;
  if (p.decay == Decay::kHard) return static_cast<Acc>(kSoftNmsOut);
  if (p.decay == Decay::kGaussian) {
    const auto squared = static_cast<double>(iou) * static_cast<double>(iou);
    factor = static_cast<Acc>(exp_of(-squared / p.sigma));
  }
  const Acc lower = score * factor;
  return static_cast<double>(lower) >= p.min_score ? lower : static_cast<Acc>(kSoftNmsOut);
}

// The overlap beyond which scores fall.
template <class Acc>
VISOPS_FN Acc decay_threshold(const SoftNmsParams& p) {
  const bool any = p.decay == Decay::kGaussian;
  return threshold_of(any ? 0.0 : p.candidates.iou_threshold, static_cast<Acc>(0));
}

extern KernelStub<SoftNmsParams> soft_nms_stub;

// Of a candidate: elements and 32-bit integers on the CPU (cpu/suppression/soft_nms_runs.h); a box
// on CUDA.
constexpr int64_t kSoftNmsElements = 7, kSoftNmsIntegers = 3;
VISOPS_FN int64_t soft_nms_scratch_bytes(const SoftNmsParams& p) {
  const int64_t element = p.in_double ? sizeof(double) : sizeof(float);
  const int64_t integer = sizeof(int32_t);
  return p.candidates.count * (kSoftNmsElements * element + kSoftNmsIntegers * integer);
}

Decay parse_decay(const char* op, std::string_view name);
void check_soft_nms(const char* op, const SoftNmsParams& p);

}  // namespace visops
