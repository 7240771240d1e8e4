// NOTE [ Fusion on the CPU ]
// A box is tested against the fused boxes of its label, sixteen at a time (NOTE [ Two tests of
// overlap ] in cpu/suppression/nms_kept.h); hardly any run of sixteen has one that it overlaps
// enough, and only there the best is looked for. Cuboids are tested one by one. Labels are
// independent; a task has those that begin in its part of `order`, so no sum depends on the number
// of threads. Arithmetic: NOTE [ Fusion ]. Assumes what check_box_fusion() and the front establish:
// indices are in range, equal numbers in `label` are adjacent, and within a label boxes that take
// no part come last.
#include "core/suppression/box_fusion.h"

#include "core/suppression/nms.h"
#include "cpu/suppression/nms_kept.h"

namespace visops {
namespace {

constexpr int64_t kTask = 512;     // boxes that are worth a task
constexpr int64_t kOnStack = 256;  // labels of so many boxes need no scratch for fused ones

// Boxes that others are compared with, one for each cluster: fused boxes, or the best ones.
struct PlaneBoxes : KeptBoxes<double> {
  using Shape = Box<double>;
  using KeptBoxes<double>::KeptBoxes;

  // The first of the boxes [0, count) that `box` overlaps most; -1 if it overlaps none by more than
  // the threshold.
  int64_t best_match(const OverlapTest<double>& test, const Shape& box, int64_t count) const {
    int64_t best = -1;
    double most = test.threshold;
    for (int64_t begin = 0; begin < count; begin += kRun) {
      if (!test.meets_run(box, *this, begin)) continue;
      for (int64_t i = begin; i < begin + kRun; ++i) {  // slots not stored overlap nothing
        const double overlap = overlap_of(this->box(i), box);
        if (!(overlap > most)) continue;
        most = overlap;
        best = i;
      }
    }
    return best;
  }
};

struct SpaceBoxes {
  using Shape = Cuboid;
  Cuboid* boxes;

  SpaceBoxes(double* memory, int64_t) : boxes(reinterpret_cast<Cuboid*>(memory)) {}
  static constexpr int64_t elements(int64_t size) {
    return size * static_cast<int64_t>(sizeof(Cuboid) / sizeof(double));
  }
  const Cuboid& box(int64_t i) const { return boxes[i]; }
  void store(int64_t i, const Cuboid& box) { boxes[i] = box; }

  int64_t best_match(const OverlapTest<double>& test, const Cuboid& box, int64_t count) const {
    int64_t best = -1;
    double most = test.threshold;
    for (int64_t i = 0; i < count; ++i) {
      const double overlap = overlap_of(boxes[i], box);
      if (!(overlap > most)) continue;
      most = overlap;
      best = i;
    }
    return best;
  }
};

// The memory of a label, or of all of them.
template <class Boxes>
struct FusionScratch {
  Cluster<typename Boxes::Shape>* clusters;
  double* fused;
  uint64_t* models;  // [boxes, words] as bits
  int64_t words;

  // A label of more than kOnStack boxes has room for Boxes of that many.
  static constexpr int64_t kFusedElements = 7;
  static_assert(Boxes::elements(kOnStack + 1) <= kFusedElements * (kOnStack + 1));

  FusionScratch part(int64_t begin) const {
    return {clusters + begin, fused + begin * kFusedElements, models + begin * words, words};
  }
};

template <class Boxes>
FusionScratch<Boxes> allocate_scratch(const BoxFusionParams& p, Workspace& workspace) {
  using OneCluster = Cluster<typename Boxes::Shape>;
  constexpr int64_t kElements = FusionScratch<Boxes>::kFusedElements;
  const int64_t words = model_words(p);
  const int64_t bytes = sizeof(OneCluster) + kElements * sizeof(double) + words * sizeof(uint64_t);
  char* memory = allocate<char>(workspace, p.count * bytes);
  FusionScratch<Boxes> scratch;
  scratch.clusters = take_array<OneCluster>(&memory, p.count);
  scratch.fused = take_array<double>(&memory, p.count * kElements);
  scratch.models = take_array<uint64_t>(&memory, p.count * words);
  scratch.words = words;
  return scratch;
}

template <class Boxes>
void fuse_label(const BoxFusionParams& p, int64_t begin, Boxes fused,
                const FusionScratch<Boxes>& scratch, int64_t boxes) {
  using Shape = typename Boxes::Shape;
  const OverlapTest<double> test(p.iou_threshold);
  int64_t used = 0;
  for (int64_t i = begin; i < begin + boxes; ++i) {
    const int64_t index = p.order[i];
    const double score = p.weighted[index];
    if (score < 0.0) break;
    const auto box = fusion_box<Shape>(p, index);
    const int64_t model = p.model[index];
    int64_t at = is_inert(box) ? -1 : fused.best_match(test, box, used);
    uint64_t* models = scratch.models + (at < 0 ? used : at) * scratch.words;
    if (at < 0) {
      at = used++;
      scratch.clusters[at] = new_cluster(box, score, p.weights[model]);
      fused.store(at, box);
      for (int64_t word = 0; word < scratch.words; ++word) models[word] = 0;
    } else {
      const double closeness = p.around_best ? overlap_of(fused.box(at), box) : 1.0;
      join(scratch.clusters + at, box, score, p.weights[model], closeness);
      if (!p.around_best) fused.store(at, fused_box(scratch.clusters[at]));
    }
    if (scratch.words > 0) models[model / 64] |= uint64_t{1} << (model % 64);
  }
  for (int64_t c = 0; c < used; ++c) {
    const uint64_t* models = scratch.models + c * scratch.words;
    store_cluster<Shape>(p, begin + c, scratch.clusters[c], fused.box(c), models);
  }
}

template <class Boxes>
void fuse_all(const BoxFusionParams& p, Workspace& workspace) {
  const auto all = allocate_scratch<Boxes>(p, workspace);
  for_each_segment(workspace, p.label, p.count, kTask, [&](int64_t begin, int64_t boxes) {
    const FusionScratch<Boxes> scratch = all.part(begin);
    if (boxes > kOnStack) {
      return fuse_label(p, begin, Boxes(scratch.fused, boxes), scratch, boxes);
    }
    alignas(64) double memory[Boxes::elements(kOnStack)];
    fuse_label(p, begin, Boxes(memory, boxes), scratch, boxes);
  });
}

void box_fusion_kernel(const BoxFusionParams& p, Workspace& workspace) {
  if (p.in_space) {
    fuse_all<SpaceBoxes>(p, workspace);
  } else {
    fuse_all<PlaneBoxes>(p, workspace);
  }
}

const bool registered = box_fusion_stub.set(kIsaSlot, box_fusion_kernel);

}  // namespace
}  // namespace visops
