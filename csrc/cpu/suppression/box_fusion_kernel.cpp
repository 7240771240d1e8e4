// NOTE [ Fusion on the CPU ]
// A box is tested against the fused boxes of its label, sixteen at a time (NOTE [ Two tests of
// overlap ] in cpu/suppression/nms_kept.h); hardly any run of sixteen has one that it overlaps
// enough, and only there the best is looked for. Labels are independent; a task has those that
// begin in its part of `order`, so no sum depends on the number of threads. Arithmetic: NOTE
// [ Fusion ]. Assumes what check_box_fusion() and the front establish: indices are in range, equal
// numbers in `label` are adjacent, and within a label boxes that take no part come last.
#include "core/suppression/box_fusion.h"

#include "core/suppression/scratch.h"
#include "cpu/suppression/nms_kept.h"
#include "cpu/suppression/segments.h"

namespace visops {
namespace {

constexpr int64_t kTask = 512;     // boxes that are worth a task
constexpr int64_t kOnStack = 256;  // labels of so many boxes need no scratch for fused ones

// The memory of a label, or of all of them.
struct FusionScratch {
  Cluster* clusters;
  double* fused;
  uint64_t* models;  // [boxes, words] as bits
  int64_t words;

  // A label of more than kOnStack boxes has room for KeptBoxes of that many.
  static constexpr int64_t kFusedElements = 6;
  static_assert(KeptBoxes<double>::elements(kOnStack + 1) <= kFusedElements * (kOnStack + 1));

  FusionScratch part(int64_t begin) const {
    return {clusters + begin, fused + begin * kFusedElements, models + begin * words, words};
  }
};

FusionScratch allocate_scratch(const BoxFusionParams& p, Workspace& workspace) {
  constexpr int64_t kElements = FusionScratch::kFusedElements;
  const int64_t words = model_words(p);
  const int64_t bytes = sizeof(Cluster) + kElements * sizeof(double) + words * sizeof(uint64_t);
  char* memory = allocate<char>(workspace, p.count * bytes);
  FusionScratch scratch;
  scratch.clusters = take_array<Cluster>(&memory, p.count);
  scratch.fused = take_array<double>(&memory, p.count * kElements);
  scratch.models = take_array<uint64_t>(&memory, p.count * words);
  scratch.words = words;
  return scratch;
}

// The first of the fused boxes [0, count) that `box` overlaps most; -1 if it overlaps none by more
// than the threshold.
int64_t best_match(const OverlapTest<double>& test, const Box<double>& box,
                   const KeptBoxes<double>& fused, int64_t count) {
  int64_t best = -1;
  double most = test.threshold;
  for (int64_t begin = 0; begin < count; begin += kRun) {
    if (!test.meets_run(box, fused, begin)) continue;
    for (int64_t i = begin; i < begin + kRun; ++i) {  // slots not stored overlap nothing
      const double overlap = overlap_of(fused.box(i), box);
      if (!(overlap > most)) continue;
      most = overlap;
      best = i;
    }
  }
  return best;
}

void fuse_label(const BoxFusionParams& p, int64_t begin, KeptBoxes<double> fused,
                const FusionScratch& scratch, int64_t boxes) {
  const OverlapTest<double> test(p.iou_threshold);
  int64_t used = 0;
  for (int64_t i = begin; i < begin + boxes; ++i) {
    const int64_t index = p.order[i];
    const double score = p.weighted[index];
    if (score < 0.0) break;
    const Box<double> box = fusion_box(p, index);
    const int64_t model = p.model[index];
    int64_t at = is_inert(box) ? -1 : best_match(test, box, fused, used);
    uint64_t* models = scratch.models + (at < 0 ? used : at) * scratch.words;
    if (at < 0) {
      at = used++;
      scratch.clusters[at] = new_cluster(box, score, p.weights[model]);
      fused.store(at, box);
      for (int64_t word = 0; word < scratch.words; ++word) models[word] = 0;
    } else {
      join(scratch.clusters + at, box, score, p.weights[model]);
      fused.store(at, fused_box(scratch.clusters[at]));
    }
    if (scratch.words > 0) models[model / 64] |= uint64_t{1} << (model % 64);
  }
  for (int64_t c = 0; c < used; ++c) {
    const double score = final_score(p, scratch.clusters[c], scratch.models + c * scratch.words);
    store_cluster(p, begin + c, fused.box(c), score);
  }
}

void box_fusion_kernel(const BoxFusionParams& p, Workspace& workspace) {
  const FusionScratch all = allocate_scratch(p, workspace);
  for_each_segment(workspace, p.label, p.count, kTask, [&](int64_t begin, int64_t boxes) {
    const FusionScratch scratch = all.part(begin);
    if (boxes > kOnStack) {
      return fuse_label(p, begin, KeptBoxes<double>(scratch.fused, boxes), scratch, boxes);
    }
    alignas(64) double memory[KeptBoxes<double>::elements(kOnStack)];
    fuse_label(p, begin, KeptBoxes<double>(memory, boxes), scratch, boxes);
  });
}

const bool registered = box_fusion_stub.set(kIsaSlot, box_fusion_kernel);

}  // namespace
}  // namespace visops
