// Fusion of boxes on CUDA.
//
// NOTE [ Fusion on CUDA ]
// Strategy: a block has a label. Its boxes go one after another, as each depends on the clusters
// that the ones before it formed. The block tests a box against all fused boxes of the label at
// once and finds the best by comparing (overlap, position), whose maximum does not depend on the
// order of comparisons. One thread then adds the box to its cluster. Time is that of the longest
// label, with two barriers for each box.
//
// Split: blocks stride over positions of `order` and skip those where no label begins.
//
// Rounding: NOTE [ Fusion ], without contraction (-fmad=false).
//
// Assumes what check_box_fusion() and the front establish: indices are in range, equal numbers in
// `label` are adjacent, within a label boxes that take no part come last, and is_cluster is zeros.
// Boxes need not be finite.

#include "core/suppression/box_fusion.h"

#include "core/suppression/nms.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kThreads = 128;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr unsigned kWholeWarp = 0xffffffffu;

// Boxes that others are compared with, one for each cluster: fused boxes, or the best ones.
struct PlaneBoxes {
  using Shape = Box<double>;
  double *x1, *y1, *x2, *y2, *area;

  static constexpr int64_t kNumbers = 5;
  PlaneBoxes(double* memory, int64_t count)
      : x1(memory), y1(x1 + count), x2(y1 + count), y2(x2 + count), area(y2 + count) {}

  __device__ Shape box(int64_t i) const { return {x1[i], y1[i], x2[i], y2[i], area[i]}; }
  __device__ void store(int64_t i, const Shape& box) const {
    x1[i] = box.x1;
    y1[i] = box.y1;
    x2[i] = box.x2;
    y2[i] = box.y2;
    area[i] = box.area;
  }
};

struct SpaceBoxes {
  using Shape = Cuboid;
  double *x1, *y1, *z1, *x2, *y2, *z2, *volume;

  static constexpr int64_t kNumbers = 7;
  SpaceBoxes(double* memory, int64_t count)
      : x1(memory),
        y1(x1 + count),
        z1(y1 + count),
        x2(z1 + count),
        y2(x2 + count),
        z2(y2 + count),
        volume(z2 + count) {}

  __device__ Shape box(int64_t i) const {
    return {x1[i], y1[i], z1[i], x2[i], y2[i], z2[i], volume[i]};
  }
  __device__ void store(int64_t i, const Shape& box) const {
    x1[i] = box.x1;
    y1[i] = box.y1;
    z1[i] = box.z1;
    x2[i] = box.x2;
    y2[i] = box.y2;
    z2[i] = box.z2;
    volume[i] = box.volume;
  }
};

// Clusters of all labels, by position.
template <class Boxes>
struct FusionScratch {
  using OneCluster = Cluster<typename Boxes::Shape>;
  OneCluster* clusters;
  Boxes boxes;
  uint64_t* models;  // [count, words] as bits
  int64_t words;
};

template <class Boxes>
FusionScratch<Boxes> allocate_scratch(const BoxFusionParams& p, Workspace& workspace) {
  using OneCluster = typename FusionScratch<Boxes>::OneCluster;
  const int64_t words = model_words(p);
  const int64_t each =
      sizeof(OneCluster) + Boxes::kNumbers * sizeof(double) + words * sizeof(uint64_t);
  char* memory = allocate<char>(workspace, p.count * each);
  auto* clusters = take_array<OneCluster>(&memory, p.count);
  const Boxes boxes(take_array<double>(&memory, p.count * Boxes::kNumbers), p.count);
  return {clusters, boxes, take_array<uint64_t>(&memory, p.count * words), words};
}

struct Match {
  double overlap;
  int64_t at;  // position of the cluster; -1: none

  // The larger overlap, then the earlier cluster. Without a cluster, `overlap` is the threshold,
  // which every match exceeds.
  __device__ Match better(const Match& other) const {
    const bool other_wins = other.overlap > overlap || (other.overlap == overlap && other.at < at);
    return other_wins ? other : *this;
  }
};

// The best match of all threads, returned to all of them.
__device__ Match best_of_block(Match match, Match* of_warp) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const Match other = {__shfl_xor_sync(kWholeWarp, match.overlap, step),
                         __shfl_xor_sync(kWholeWarp, match.at, step)};
    match = match.better(other);
  }
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = match;
  __syncthreads();
  match = of_warp[0];
  for (int w = 1; w < kWarps; ++w) match = match.better(of_warp[w]);
  return match;
}

// Adds a box to the cluster at `at`, or begins it.
template <class Boxes>
__device__ void add(const BoxFusionParams& p, const FusionScratch<Boxes>& scratch, int64_t at,
                    bool is_new, int64_t index, const typename Boxes::Shape& box) {
  const int64_t model = p.model[index];
  uint64_t* models = scratch.models + at * scratch.words;
  if (is_new) {
    scratch.clusters[at] = new_cluster(box, p.weighted[index], p.weights[model]);
    scratch.boxes.store(at, box);
    for (int64_t word = 0; word < scratch.words; ++word) models[word] = 0;
  } else {
    auto cluster = scratch.clusters[at];
    const double closeness = p.around_best ? overlap_of(scratch.boxes.box(at), box) : 1.0;
    join(&cluster, box, p.weighted[index], p.weights[model], closeness);
    scratch.clusters[at] = cluster;
    if (!p.around_best) scratch.boxes.store(at, fused_box(cluster));
  }
  if (scratch.words > 0) models[model / 64] |= uint64_t{1} << (model % 64);
}

template <class Boxes>
__device__ void fuse_label(const BoxFusionParams& p, const FusionScratch<Boxes>& scratch,
                           int64_t begin, Match* of_warp) {
  using Shape = typename Boxes::Shape;
  const int64_t label = p.label[begin];
  int64_t used = 0;
  for (int64_t i = begin; i < p.count && p.label[i] == label; ++i) {
    const int64_t index = p.order[i];
    if (p.weighted[index] < 0.0) break;
    const auto box = fusion_box<Shape>(p, index);
    Match match = {p.iou_threshold, -1};
    if (!is_inert(box)) {
      for (int64_t c = begin + threadIdx.x; c < begin + used; c += kThreads) {
        const double overlap = overlap_of(scratch.boxes.box(c), box);
        if (overlap > match.overlap) match = {overlap, c};
      }
    }
    match = best_of_block(match, of_warp);
    const bool is_new = match.at < 0;
    if (threadIdx.x == 0) add(p, scratch, is_new ? begin + used : match.at, is_new, index, box);
    used += is_new ? 1 : 0;
    __syncthreads();
  }
  for (int64_t c = begin + threadIdx.x; c < begin + used; c += kThreads) {
    const uint64_t* models = scratch.models + c * scratch.words;
    store_cluster<Shape>(p, c, scratch.clusters[c], scratch.boxes.box(c), models);
  }
}

template <class Boxes>
__global__ void __launch_bounds__(kThreads)
    box_fusion(const __grid_constant__ BoxFusionParams p, const FusionScratch<Boxes> scratch) {
  __shared__ Match of_warp[kWarps];
  for (int64_t i = blockIdx.x; i < p.count; i += gridDim.x) {
    if (i == 0 || p.label[i] != p.label[i - 1]) fuse_label(p, scratch, i, of_warp);
  }
}

template <class Boxes>
void fuse_all(const BoxFusionParams& p, Workspace& workspace) {
  launch(box_fusion<Boxes>, grid_for(p.count), dim3(kThreads), 0, workspace.stream(), p,
         allocate_scratch<Boxes>(p, workspace));
}

void box_fusion_cuda(const BoxFusionParams& p, Workspace& workspace) {
  if (p.in_space) {
    fuse_all<SpaceBoxes>(p, workspace);
  } else {
    fuse_all<PlaneBoxes>(p, workspace);
  }
}

const bool registered = box_fusion_stub.set(kCudaSlot, box_fusion_cuda);

}  // namespace
}  // namespace visops
