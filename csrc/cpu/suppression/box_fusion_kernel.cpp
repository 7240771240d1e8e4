// NOTE [ Fusion on the CPU ]
// A box is tested against the fused boxes of its label, sixteen at a time (NOTE [ Two tests of
// overlap ] in cpu/suppression/nms_kept.h): hardly any run has one that overlaps it enough, and
// only there the best is looked for. Labels are independent; a task has those that begin in its
// part of `order`, so that no sum depends on the number of threads. Arithmetic: NOTE [ Fusion ].
// Assumes what check_box_fusion() and the front establish: indices are in range, equal numbers in
// `label` lie together, and within a label boxes that take no part come last.
#include "core/suppression/box_fusion.h"
#include "cpu/suppression/nms_kept.h"
#include "cpu/suppression/segments.h"

namespace visops {
namespace {

constexpr int64_t kOnStack = 256;  // boxes of a label whose fused boxes need no scratch

struct FusionScratch {
  Cluster* clusters;
  double* fused;
  uint64_t* models;  // [boxes, words] as bits
  int64_t words;

  FusionScratch(const BoxFusionParams& p, int64_t begin) : words(model_words(p)) {
    char* at = static_cast<char*>(p.scratch);
    clusters = reinterpret_cast<Cluster*>(at) + begin;
    at += p.count * static_cast<int64_t>(sizeof(Cluster));
    fused = reinterpret_cast<double*>(at) + begin * kFusedElements;
    at += p.count * kFusedElements * static_cast<int64_t>(sizeof(double));
    models = reinterpret_cast<uint64_t*>(at) + begin * words;
  }

  // A label of more than kOnStack boxes has room for KeptBoxes of that many.
  static constexpr int64_t kFusedElements = 6;
  static_assert(KeptBoxes<double>::elements(kOnStack + 1) <= kFusedElements * (kOnStack + 1));
};

// Of the fused boxes [0, count), the first that overlaps `box` most; -1: none does by more than the
// threshold.
int64_t best_match(const OverlapTest<double>& test, const Box<double>& box,
                   const KeptBoxes<double>& fused, int64_t count) {
  int64_t best = -1;
  double most = test.threshold;
  for (int64_t begin = 0; begin < count; begin += kRun) {
    if (!test.meets_run(box, fused, begin)) continue;
    for (int64_t i = begin; i < begin + kRun; ++i) {  // what was not stored overlaps nothing
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

void box_fusion_kernel(const BoxFusionParams& p, int64_t begin, int64_t end) {
  for_each_segment(p.label, p.count, begin, end, [&](int64_t first, int64_t boxes) {
    const FusionScratch scratch(p, first);
    if (boxes <= kOnStack) {
      alignas(64) double memory[KeptBoxes<double>::elements(kOnStack)];
      fuse_label(p, first, KeptBoxes<double>(memory, boxes), scratch, boxes);
    } else {
      fuse_label(p, first, KeptBoxes<double>(scratch.fused, boxes), scratch, boxes);
    }
  });
}

const bool registered = box_fusion_stub.set(kIsaSlot, box_fusion_kernel);

}  // namespace
}  // namespace visops
