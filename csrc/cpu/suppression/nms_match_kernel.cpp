// NOTE [ Matching on the CPU ]
// Tests sixteen boxes at a time against the kept ones, best first, until each has found its own
// (NOTE [ Matching ]). Boxes are independent: a task has a part of them. Assumes what check_nms()
// and the front establish, and that every box is kept or overlaps a kept one.
#include "core/suppression/nms.h"

#include "core/dispatch/workspace.h"
#include "cpu/suppression/nms_kept.h"

namespace visops {
namespace {

constexpr int64_t kTask = 32;  // boxes that are worth a task

template <class Acc>
void match_boxes(const NmsMatchParams& p, const Box<Acc>* kept, int64_t begin, int64_t end) {
  const auto test = OverlapTest<Acc>::of(p.iou_threshold);
  while (begin < end) {
    alignas(64) Acc memory[KeptBoxes<Acc>::elements(kRun)];
    KeptBoxes<Acc> run(memory, kRun);
    int64_t* position[kRun];
    int count = 0;
    for (; begin < end && count < kRun; ++begin) {
      if (p.matched[begin] >= 0) continue;
      run.store(count, box_at<Acc>(p, begin));
      position[count++] = p.matched + begin;
    }
    int unmatched = count;
    for (int64_t k = 0; k < p.kept_count && unmatched > 0; ++k) {
      if (is_inert(kept[k]) || !test.may_meet_run(kept[k], run, 0)) continue;
      Acc iou[kRun];
      for_each_of_run(kept[k], run, 0, [&](int l, bool meets, Acc inter, Acc all) {
        iou[l] = meets ? inter / all : static_cast<Acc>(0);
      });
      for (int l = 0; l < count; ++l) {
        if (!(iou[l] > test.threshold) || *position[l] >= 0) continue;
        *position[l] = p.kept[k];
        --unmatched;
      }
    }
  }
}

template <class Acc>
void nms_match_as(const NmsMatchParams& p, Workspace& workspace) {
  auto* kept = allocate<Box<Acc>>(workspace, p.kept_count);
  for (int64_t k = 0; k < p.kept_count; ++k) kept[k] = box_at<Acc>(p, p.kept[k]);
  const auto part = [&](int64_t begin, int64_t end) { match_boxes(p, kept, begin, end); };
  if (p.count <= kTask) return part(0, p.count);
  parallel_for(workspace, p.count, kTask, part);
}

void nms_match_kernel(const NmsMatchParams& p, Workspace& workspace) {
  if (computes_in_double(p.dtype)) {
    nms_match_as<double>(p, workspace);
  } else {
    nms_match_as<float>(p, workspace);
  }
}

const bool registered = nms_match_stub.set(kIsaSlot, nms_match_kernel);

}  // namespace
}  // namespace visops
