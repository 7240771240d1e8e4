// NOTE [ Matrix suppression on the CPU ]
// By falling score, an object meets all better ones of its group once: their compensations are
// known by then. Boxes are met sixteen at a time, and divided only if one of the sixteen overlaps.
// Masks are met by counting the bits that they share, where both have any. Groups are independent;
// a task has those that begin in its part of `order`. Arithmetic: NOTE [ Matrix suppression ] and
// NOTE [ Overlap ]. Assumes what check_matrix_nms() and the front establish: indices are in range,
// equal numbers in `segment` are adjacent, and within a group objects that take no part come last.
#include "core/dispatch/threads.h"
#include "core/suppression/matrix_nms.h"

#include "cpu/suppression/nms_kept.h"

namespace visops {
namespace {

constexpr int64_t kOnStack = 256;    // groups of so many boxes need no scratch
constexpr int64_t kObjectCost = 64;  // elements' worth of work, without the words of its mask

template <class Overlap, class Score>
struct Met {
  Overlap most;  // overlap
  Score loss;
};

// What better boxes do to a box, in sixteen lanes.
template <class Overlap, class Score, DecayFunction decay>
class BoxesMet {
 public:
  BoxesMet() {
    for (int l = 0; l < kRun; ++l) {
      most_[l] = 0;
      loss_[l] = no_loss<Score>(decay);
    }
  }

  VISOPS_ALWAYS_INLINE void meet_run(const Box<Overlap>& box, const KeptBoxes<Overlap>& better,
                                     const Score* compensations, int64_t i) {
    const Overlap zero = static_cast<Overlap>(0);
    const Overlap *x1 = better.x1 + i, *y1 = better.y1 + i, *x2 = better.x2 + i;
    const Overlap *y2 = better.y2 + i, *area = better.area + i;
    Overlap inter[kRun];
    int any = 0;
    for (int l = 0; l < kRun; ++l) {
      const Overlap left = x1[l] < box.x1 ? box.x1 : x1[l], right = box.x2 < x2[l] ? box.x2 : x2[l];
      const Overlap top = y1[l] < box.y1 ? box.y1 : y1[l], bottom = box.y2 < y2[l] ? box.y2 : y2[l];
      const Overlap width = right - left, height = bottom - top;
      const bool meets = (width > zero) & (height > zero);
      inter[l] = meets ? width * height : zero;
      any |= meets;
    }
    if (any == 0) return;
    for (int l = 0; l < kRun; ++l) {
      const Overlap ratio = inter[l] / (area[l] + box.area - inter[l]);
      const Overlap iou = inter[l] > zero ? ratio : zero;  // not 0 / 0
      most_[l] = iou > most_[l] ? iou : most_[l];
      const Score loss = loss_of(decay, static_cast<Score>(iou), compensations[i + l]);
      const Score counted = iou > zero ? loss : no_loss<Score>(decay);
      loss_[l] = counted > loss_[l] ? counted : loss_[l];
    }
  }

  Met<Overlap, Score> all() const {
    Met<Overlap, Score> met = {most_[0], loss_[0]};
    for (int l = 1; l < kRun; ++l) {
      met.most = most_[l] > met.most ? most_[l] : met.most;
      met.loss = loss_[l] > met.loss ? loss_[l] : met.loss;
    }
    return met;
  }

 private:
  Overlap most_[kRun];
  Score loss_[kRun];
};

template <class Overlap, class Score, DecayFunction decay>
struct BoxGroup {
  const MatrixNmsParams& p;
  int64_t begin;
  KeptBoxes<Overlap> better;
  Score* compensations;

  Met<Overlap, Score> meet(int64_t i) {
    const int64_t offset = p.order[begin + i] * p.box_stride;
    const auto box = load_box<Overlap>(p.boxes, p.dtype, offset, p.coordinate_stride);
    if (is_inert(box)) return {static_cast<Overlap>(0), no_loss<Score>(decay)};
    BoxesMet<Overlap, Score, decay> met;
    for (int64_t b = 0; b < i; b += kRun) met.meet_run(box, better, compensations, b);
    better.store(i, box);
    return met.all();
  }
};

// Counts bits by byte, which vectors can do; a byte's count can't overflow in sixteen steps.
int64_t common_bits(const uint64_t* a, const uint64_t* b, int64_t words) {
  constexpr int kWordsAtOnce = 8, kSteps = 16;
  constexpr uint64_t k55 = 0x5555555555555555, k33 = 0x3333333333333333;
  constexpr uint64_t k0f = 0x0f0f0f0f0f0f0f0f, k00ff = 0x00ff00ff00ff00ff;
  const auto in_bytes = [](uint64_t v) {
    v -= v >> 1 & k55;
    v = (v & k33) + (v >> 2 & k33);
    return (v + (v >> 4)) & k0f;
  };
  const auto sum_of_bytes = [](uint64_t v) {
    v = (v & k00ff) + (v >> 8 & k00ff);
    v += v >> 16;
    return static_cast<int64_t>((v + (v >> 32)) & 0xffff);
  };
  int64_t total = 0, i = 0;
  while (i + kWordsAtOnce <= words) {
    uint64_t counts[kWordsAtOnce] = {};
    const int64_t steps = (words - i) / kWordsAtOnce < kSteps ? (words - i) / kWordsAtOnce : kSteps;
    for (int64_t s = 0; s < steps; ++s, i += kWordsAtOnce) {
      for (int l = 0; l < kWordsAtOnce; ++l) counts[l] += in_bytes(a[i + l] & b[i + l]);
    }
    for (int l = 0; l < kWordsAtOnce; ++l) total += sum_of_bytes(counts[l]);
  }
  for (; i < words; ++i) total += sum_of_bytes(in_bytes(a[i] & b[i]));
  return total;
}

template <DecayFunction decay>
struct MaskGroup {
  const MatrixNmsParams& p;
  int64_t begin;
  double* compensations;

  Met<double, double> meet(int64_t i) {
    Met<double, double> met = {0.0, no_loss<double>(decay)};
    const MaskExtent& mask = p.extent[begin + i];
    const uint64_t* bits = p.bits + (begin + i) * p.words;
    for (int64_t b = 0; b < i; ++b) {
      const MaskExtent& better = p.extent[begin + b];
      const int64_t first = mask.begin > better.begin ? mask.begin : better.begin;
      const int64_t end = mask.end < better.end ? mask.end : better.end;
      if (first >= end) continue;
      const uint64_t* other = p.bits + (begin + b) * p.words;
      const int64_t common = common_bits(bits + first, other + first, end - first);
      const double iou = overlap_of(mask, better, common);
      if (!(iou > 0.0)) continue;
      met.most = iou > met.most ? iou : met.most;
      const double loss = loss_of(decay, iou, compensations[b]);
      met.loss = loss > met.loss ? loss : met.loss;
    }
    return met;
  }
};

template <class Score, DecayFunction decay, class Group>
void lower_scores(const MatrixNmsParams& p, int64_t begin, int64_t count, Group group) {
  int64_t i = 0;
  for (; i < count; ++i) {
    const Score score = score_at<Score>(p, begin + i);
    if (!(score >= static_cast<Score>(0))) break;
    const auto met = group.meet(i);
    group.compensations[i] = compensation(decay, static_cast<Score>(met.most));
    store_score(p, begin + i, decayed(p, score, met.loss));
  }
  for (; i < count; ++i) store_score(p, begin + i, -1.0);
}

// Eight doubles for each box of a large group: its five numbers, its compensation, and both arrays
// are kRun elements longer than the group.
constexpr int64_t kBoxDoubles = 8;
static_assert(6 * (kOnStack + 1 + kRun) <= kBoxDoubles * (kOnStack + 1));

template <class Overlap, class Score, DecayFunction decay>
void lower_boxes(const MatrixNmsParams& p, int64_t begin, int64_t count, double* memory) {
  alignas(64) Overlap boxes_on_stack[KeptBoxes<Overlap>::elements(kOnStack)];
  alignas(64) Score compensations_on_stack[kOnStack + kRun];
  Overlap* boxes = boxes_on_stack;
  Score* compensations = compensations_on_stack;
  if (count > kOnStack) {
    compensations = reinterpret_cast<Score*>(memory);
    boxes = reinterpret_cast<Overlap*>(memory + count + kRun);
  }
  for (int64_t i = 0; i < count + kRun; ++i) compensations[i] = 0;
  lower_scores<Score, decay>(
      p, begin, count,
      BoxGroup<Overlap, Score, decay>{p, begin, KeptBoxes<Overlap>(boxes, count), compensations});
}

template <DecayFunction decay>
void matrix_nms_as(const MatrixNmsParams& p, Workspace& workspace) {
  const int64_t grain = grain_of(kObjectCost + p.words);
  const auto for_each_group = [&](const auto& lower) {
    for_each_segment(workspace, p.segment, p.count, grain, lower);
  };
  if (p.boxes == nullptr) {
    auto* compensations = allocate<double>(workspace, p.count);
    return for_each_group([&](int64_t begin, int64_t count) {
      lower_scores<double, decay>(p, begin, count,
                                  MaskGroup<decay>{p, begin, compensations + begin});
    });
  }
  double* memory = nullptr;
  if (p.count > kOnStack) memory = allocate<double>(workspace, p.count * kBoxDoubles);
  for_each_group([&](int64_t begin, int64_t count) {
    double* own = count > kOnStack ? memory + begin * kBoxDoubles : nullptr;
    if (overlaps_in_double(p)) {
      lower_boxes<double, double, decay>(p, begin, count, own);
    } else if (scores_in_double(p)) {
      lower_boxes<float, double, decay>(p, begin, count, own);
    } else {
      lower_boxes<float, float, decay>(p, begin, count, own);
    }
  });
}

void matrix_nms_kernel(const MatrixNmsParams& p, Workspace& workspace) {
  if (p.decay == DecayFunction::kLinear) {
    matrix_nms_as<DecayFunction::kLinear>(p, workspace);
  } else {
    matrix_nms_as<DecayFunction::kGaussian>(p, workspace);
  }
}

const bool registered = matrix_nms_stub.set(kIsaSlot, matrix_nms_kernel);

}  // namespace
}  // namespace visops
