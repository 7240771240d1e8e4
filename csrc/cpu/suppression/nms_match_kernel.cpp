// NOTE [ Matching on the CPU ]
// Sixteen boxes at a time against the kept ones, best first, until each has one (NOTE [ Matching
// ]). Boxes are independent: a task has a part of them. Assumes what check_nms() and the front
// establish, and that every box is kept or overlaps a kept one.
#include "core/suppression/nms_match.h"

#include "cpu/suppression/nms_kept.h"

namespace visops {
namespace {

template <class Acc>
void match(const NmsMatchParams& p, int64_t begin, int64_t end) {
  const auto test = OverlapTest<Acc>::of(p.iou_threshold);
  const auto* kept = static_cast<const Box<Acc>*>(p.kept_boxes);
  while (begin < end) {
    alignas(64) Acc memory[KeptBoxes<Acc>::elements(kRun)];
    KeptBoxes<Acc> run(memory, kRun);
    int64_t* place[kRun];
    int count = 0;
    for (; begin < end && count < kRun; ++begin) {
      if (p.matched[begin] >= 0) continue;
      run.store(count, box_at<Acc>(p, begin));
      place[count++] = p.matched + begin;
    }
    int unmatched = count;
    for (int64_t k = 0; k < p.kept_count && unmatched > 0; ++k) {
      if (is_inert(kept[k]) || !test.may_meet_run(kept[k], run, 0)) continue;
      Acc iou[kRun];
      for_each_of_run(kept[k], run, 0, [&](int l, bool meets, Acc inter, Acc all) {
        iou[l] = meets ? inter / all : static_cast<Acc>(0);
      });
      for (int l = 0; l < count; ++l) {
        if (!(iou[l] > test.threshold) || *place[l] >= 0) continue;
        *place[l] = p.kept[k];
        --unmatched;
      }
    }
  }
}

void nms_match_kernel(const NmsMatchParams& p, int64_t begin, int64_t end) {
  if (computes_in_double(p.dtype)) {
    match<double>(p, begin, end);
  } else {
    match<float>(p, begin, end);
  }
}

const bool registered = nms_match_stub.set(kIsaSlot, nms_match_kernel);

}  // namespace
}  // namespace visops
