// NOTE [ Soft suppression on the CPU ]
// As its definition reads (NOTE [ Soft suppression ]): the best candidate is kept, the scores of
// those that overlap it fall. Runs of neighbours (NOTE [ Runs ] in cpu/suppression/box_runs.h)
// leave most candidates untouched by most steps.
//
// Segments are independent; a task has those that begin in its part of `order`. Assumes what
// check_nms(), check_soft_nms() and the fronts establish; numbers rise within a segment.
#include "cpu/suppression/nms_segments.h"
#include "cpu/suppression/soft_nms_runs.h"

namespace visops {
namespace {

constexpr int64_t kOnStack = 384;  // candidates of a segment

template <class Acc>
void suppress(const SoftNmsParams& p, int64_t begin, int64_t count, Acc* memory,
              int32_t* integers) {
  const int64_t* order = p.candidates.order + begin;
  Acc* scores = static_cast<Acc*>(p.scores) + begin;
  const auto box_at = [&](int64_t i) { return candidate_box<Acc>(p.candidates, order[i]); };
  SoftRuns<Acc> runs(count, box_at, scores, memory, integers);
  const OverlapTest<Acc> test(decay_threshold<Acc>(p));
  SegmentOutput output(p.candidates, begin, count);
  for (int64_t i; output.left > 0 && (i = runs.best()) >= 0;) {
    const int32_t position = runs.position(i);
    output.keep(position);
    scores[position] = runs.score(i);
    runs.take(i);
    runs.lower(p, test, runs.box(i));
  }
}

template <class Acc>
void suppress(const SoftNmsParams& p, int64_t begin, int64_t count) {
  if (count <= kOnStack) {
    alignas(64) Acc memory[SoftRuns<Acc>::elements(kOnStack)];
    int32_t integers[SoftRuns<Acc>::integers(kOnStack)];
    return suppress(p, begin, count, memory, integers);
  }
  constexpr int64_t kElements = kSoftNmsElements, kIntegers = kSoftNmsIntegers;
  static_assert(SoftRuns<Acc>::elements(kOnStack + 1) <= kElements * (kOnStack + 1));
  static_assert(SoftRuns<Acc>::integers(kOnStack + 1) <= kIntegers * (kOnStack + 1));
  auto* elements = static_cast<Acc*>(p.candidates.scratch);
  auto* integers = reinterpret_cast<int32_t*>(elements + p.candidates.count * kElements);
  suppress(p, begin, count, elements + begin * kElements, integers + begin * kIntegers);
}

void soft_nms_kernel(const SoftNmsParams& p, int64_t begin, int64_t end) {
  const NmsParams& c = p.candidates;
  for_each_segment(c.segment, c.count, begin, end, [&](int64_t first, int64_t count) {
    if (p.in_double) {
      suppress<double>(p, first, count);
    } else {
      suppress<float>(p, first, count);
    }
  });
}

const bool registered = soft_nms_stub.set(kIsaSlot, soft_nms_kernel);

}  // namespace
}  // namespace visops
