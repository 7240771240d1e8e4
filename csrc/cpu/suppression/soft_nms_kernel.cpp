// NOTE [ Soft suppression on the CPU ]
// As its definition reads (NOTE [ Soft suppression ]): the best candidate is kept, and the scores
// of those that it overlaps fall. Runs of neighbours (NOTE [ Runs ] in cpu/suppression/box_runs.h)
// leave most candidates untouched by most steps.
//
// Segments are independent; a task has those that begin in its part of `order`. Assumes what
// check_nms(), check_soft_nms() and the fronts establish; numbers rise within a segment.
#include "core/suppression/nms.h"
#include "cpu/suppression/box_runs.h"
#include "cpu/suppression/nms_kept.h"

namespace visops {
namespace {

constexpr int64_t kTask = 32;      // candidates that are worth a task
constexpr int64_t kOnStack = 384;  // segments of so many candidates need no scratch

template <class Acc>
void suppress_segment(const SoftNmsParams& p, int64_t begin, int64_t count, Acc* elements,
                      int32_t* integers) {
  const NmsParams& c = p.candidates;
  const int64_t* order = c.order + begin;
  Acc* scores = static_cast<Acc*>(p.scores) + begin;
  // The usual dtype by itself saves a table of jumps for each coordinate.
  const auto box_at = [&](int64_t i) {
    return c.dtype == DType::kFloat32 ? load_box<Acc>(c.boxes, DType::kFloat32,
                                                      box_offset(c, order[i]), c.coordinate_stride)
                                      : candidate_box<Acc>(c, order[i]);
  };
  SoftRuns<Acc> runs(count, box_at, scores, elements, integers);
  const OverlapTest<Acc> test(decay_threshold<Acc>(p));
  SegmentOutput output(c, begin, count);
  for (int64_t i; output.left > 0 && (i = runs.best()) >= 0;) {
    const int32_t position = runs.position(i);
    output.keep(position);
    scores[position] = runs.score(i);
    runs.take(i);
    runs.lower(p, test, runs.box(i));
  }
}

template <class Acc>
void soft_nms_as(const SoftNmsParams& p, Workspace& workspace) {
  using Runs = SoftRuns<Acc>;
  // For each candidate; enough for segments of more than kOnStack.
  constexpr int64_t kElements = 12, kIntegers = 3;
  static_assert(Runs::elements(kOnStack + 1) <= kElements * (kOnStack + 1));
  static_assert(Runs::integers(kOnStack + 1) <= kIntegers * (kOnStack + 1));
  const NmsParams& c = p.candidates;
  Acc* all_elements = nullptr;
  int32_t* all_integers = nullptr;
  if (c.count > kOnStack) {
    constexpr int64_t bytes = kElements * sizeof(Acc) + kIntegers * sizeof(int32_t);
    char* memory = allocate<char>(workspace, c.count * bytes);
    all_elements = take_array<Acc>(&memory, c.count * kElements);
    all_integers = take_array<int32_t>(&memory, c.count * kIntegers);
  }
  for_each_segment(workspace, c.segment, c.count, kTask, [&](int64_t begin, int64_t count) {
    if (count > kOnStack) {
      return suppress_segment(p, begin, count, all_elements + begin * kElements,
                              all_integers + begin * kIntegers);
    }
    alignas(64) Acc elements[Runs::elements(kOnStack)];
    int32_t integers[Runs::integers(kOnStack)];
    suppress_segment(p, begin, count, elements, integers);
  });
}

void soft_nms_kernel(const SoftNmsParams& p, Workspace& workspace) {
  if (p.in_double) {
    soft_nms_as<double>(p, workspace);
  } else {
    soft_nms_as<float>(p, workspace);
  }
}

const bool registered = soft_nms_stub.set(kIsaSlot, soft_nms_kernel);

}  // namespace
}  // namespace visops
