// Suppression by lowering scores: what fronts and kernels share.
//
// NOTE [ Soft suppression ]
// Within a segment, the candidate with the highest score is kept (of equal ones, the lowest
// number), and the scores of the candidates that it overlaps fall; this repeats until no score is
// min_score or more. (Bodla, Singh, Chellappa, Davis: "Soft-NMS -- Improving Object Detection With
// One Line of Code", 2017.) Scores only fall: what drops below min_score never comes back. A
// candidate's score is a product in the order in which boxes were kept.
#pragma once

#include <string_view>

#include "core/suppression/nms.h"

namespace visops {

enum class Decay { kLinear, kGaussian, kHard };

struct SoftNmsParams {
  NmsParams candidates;  // no filter; `order` is by number within a segment
  Decay decay;
  double sigma;      // > 0
  double min_score;  // >= 0
  bool in_double;    // boxes or scores have a dtype that is computed in double
  // [count] float or double, for each in `order`; the kernel lowers them. On the CPU, none is NaN
  // or below min_score to begin with.
  void* scores;

  // CUDA only.
  bool by_code;    // `order` is by these codes within a segment, not by number
  int32_t* codes;  // [count] result for candidates by number: alike for boxes near each other. If
                   // set, the kernel computes this only, from the boxes only
};

constexpr int kSoftNmsOut = -1;  // instead of a score below min_score

// The score, or kSoftNmsOut, once a kept box overlaps the candidate by `iou`, which is more than
// decay_threshold(). Without jumps, so that compilers can vectorize it.
template <Decay decay, class Acc>
VISOPS_FN Acc decayed_by(const SoftNmsParams& p, Acc score, Acc iou) {
  Acc factor = static_cast<Acc>(1) - iou;
  if (decay == Decay::kHard) return static_cast<Acc>(kSoftNmsOut);
  if (decay == Decay::kGaussian) {
    const auto squared = static_cast<double>(iou) * static_cast<double>(iou);
    const double power = -squared / p.sigma, least = -746.0;  // exp(least) is 0
    factor = static_cast<Acc>(exp_in_range(power > least ? power : least));
  }
  const Acc lower = score * factor;
  return static_cast<double>(lower) >= p.min_score ? lower : static_cast<Acc>(kSoftNmsOut);
}

template <class Acc>
VISOPS_FN Acc decayed(const SoftNmsParams& p, Acc score, Acc iou) {
  switch (p.decay) {
    case Decay::kLinear: return decayed_by<Decay::kLinear>(p, score, iou);
    case Decay::kGaussian: return decayed_by<Decay::kGaussian>(p, score, iou);
    case Decay::kHard: break;
  }
  return decayed_by<Decay::kHard>(p, score, iou);
}

// The overlap beyond which scores fall.
template <class Acc>
VISOPS_FN Acc decay_threshold(const SoftNmsParams& p) {
  const bool any = p.decay == Decay::kGaussian;
  return threshold_of(any ? 0.0 : p.candidates.iou_threshold, static_cast<Acc>(0));
}

// Rotated boxes are always computed in double.
extern KernelStub<SoftNmsParams> soft_nms_stub, soft_nms_rotated_stub;

Decay parse_decay(const char* op, std::string_view name);
void check_soft_nms(const char* op, const SoftNmsParams& p);

}  // namespace visops
