// Fusion of boxes: what the front and the kernels share.
//
// NOTE [ Fusion ]
// Solovyev, Wang and Gabruseva, "Weighted boxes fusion: Ensembling boxes from different object
// detection models" (Image and Vision Computing 107, 2021), as its authors' package does it.
// Boxes come label by label and, within a label, by falling weighted score: the score times the
// weight of the box's model. Each box in turn joins the cluster of its label whose fused box it
// overlaps most, if by more than the threshold, or begins a cluster. The fused box is the mean of
// the cluster's boxes, weighted by their weighted scores.
//
// Non-maximum weighted (`around_best`; Zhou et al., "CAD: Scale invariant framework for real-time
// object detection", ICCV workshops 2017) compares boxes with the cluster's first and best box
// instead, which stays where it is, and weights a box by its overlap with that one as well.
//
// Everything is float64, each step rounds once, and sums are in the order in which boxes join:
// equal bits on every device. A box that is_inert() meets nobody and stays alone.
#pragma once

#include <string>

#include "core/box.h"
#include "core/dispatch/kernel_stub.h"

namespace visops {

// Boxes of three dimensions [x1, y1, z1, x2, y2, z2], and how much two of them overlap: as in
// core/box.h, in float64.

struct Cuboid {
  double x1, y1, z1, x2, y2, z2, volume;
};

VISOPS_FN double volume_of(const Cuboid& box) {
  return (box.x2 - box.x1) * (box.y2 - box.y1) * (box.z2 - box.z1);
}

// Loads six coordinates `stride` elements apart, from element i on.
VISOPS_FN Cuboid load_cuboid(const void* data, DType dtype, int64_t i, int64_t stride) {
  Cuboid box;
  box.x1 = load_coordinate<double>(data, dtype, i);
  box.y1 = load_coordinate<double>(data, dtype, i + stride);
  box.z1 = load_coordinate<double>(data, dtype, i + 2 * stride);
  box.x2 = load_coordinate<double>(data, dtype, i + 3 * stride);
  box.y2 = load_coordinate<double>(data, dtype, i + 4 * stride);
  box.z2 = load_coordinate<double>(data, dtype, i + 5 * stride);
  box.volume = volume_of(box);
  return box;
}

// Whether its volume is not a positive finite number, or it is inverted: it overlaps nothing.
VISOPS_FN bool is_inert(const Cuboid& box) {
  return !(box.x2 > box.x1 && box.y2 > box.y1 && box.z2 > box.z1 && box.volume > 0.0 &&
           box.volume <= 1.7976931348623157e+308);
}

// The intersection over union of cuboids; 0 if they don't meet or one of them is inert.
VISOPS_FN double overlap_of(const Cuboid& a, const Cuboid& b) {
  const double left = a.x1 < b.x1 ? b.x1 : a.x1, right = b.x2 < a.x2 ? b.x2 : a.x2;
  const double top = a.y1 < b.y1 ? b.y1 : a.y1, bottom = b.y2 < a.y2 ? b.y2 : a.y2;
  const double front = a.z1 < b.z1 ? b.z1 : a.z1, back = b.z2 < a.z2 ? b.z2 : a.z2;
  const double width = right - left, height = bottom - top, depth = back - front;
  if (!(width > 0.0 && height > 0.0 && depth > 0.0)) return 0.0;
  const double inter = width * height * depth;
  return inter / (a.volume + b.volume - inter);
}

// How a cluster's scores become one.
enum class Confidence : int { kAverage, kMaximum, kBoxAndModelAverage, kAbsentModelAwareAverage };

struct BoxFusionParams {
  const void* boxes;  // [N, 4] x1, y1, x2, y2; in space [N, 6] x1, y1, z1, x2, y2, z2
  DType dtype;
  int64_t box_stride, coordinate_stride;  // elements

  int64_t count;           // N
  const int64_t* order;    // [N] boxes, label by label, by falling weighted score
  const int64_t* label;    // [N] for each in `order`: equal numbers are adjacent
  const double* weighted;  // [N] weighted score of each box; negative: takes no part
  const int64_t* model;    // [N] model of each box
  const double* weights;   // [models]
  int64_t models;
  double weights_sum, weights_most;

  bool in_space;
  bool around_best;
  double iou_threshold;  // [0, 1]
  Confidence confidence;
  bool allows_overflow;

  // Results by position in `order`: a label's clusters are at its first positions.
  void* fused;  // [N, 4] or [N, 6] of `dtype`
  void* score;  // [N]
  DType score_dtype;
  uint8_t* is_cluster;  // [N] in: zeros; the kernel sets a cluster's to 1
};

// A growing cluster of Boxes in the plane or Cuboids. Sums are in the order of joining.
template <class Shape>
struct Cluster {
  Shape sum;      // of coordinates times share
  double share;   // sum of shares: weighted scores or, where all are 0, ones; times `closeness`
  double score;   // sum of weighted scores
  double most;    // the largest of them
  double weight;  // sum of its boxes' weights
  int64_t boxes;
};

VISOPS_FN void load_fusion_box(const BoxFusionParams& p, int64_t box, Box<double>* out) {
  *out = load_box<double>(p.boxes, p.dtype, box * p.box_stride, p.coordinate_stride);
}
VISOPS_FN void load_fusion_box(const BoxFusionParams& p, int64_t box, Cuboid* out) {
  *out = load_cuboid(p.boxes, p.dtype, box * p.box_stride, p.coordinate_stride);
}
template <class Shape>
VISOPS_FN Shape fusion_box(const BoxFusionParams& p, int64_t box) {
  Shape out;
  load_fusion_box(p, box, &out);
  return out;
}

VISOPS_FN void add_scaled(Box<double>* sum, double share, const Box<double>& box) {
  sum->x1 += share * box.x1;
  sum->y1 += share * box.y1;
  sum->x2 += share * box.x2;
  sum->y2 += share * box.y2;
}
VISOPS_FN void add_scaled(Cuboid* sum, double share, const Cuboid& box) {
  sum->x1 += share * box.x1;
  sum->y1 += share * box.y1;
  sum->z1 += share * box.z1;
  sum->x2 += share * box.x2;
  sum->y2 += share * box.y2;
  sum->z2 += share * box.z2;
}

// Boxes join by falling score: if the first has a score of 0, all have. `closeness` is 1, or the
// overlap with the cluster's first box where the fusion is around that.
template <class Shape>
VISOPS_FN void join(Cluster<Shape>* cluster, const Shape& box, double score, double weight,
                    double closeness) {
  const double counted = score > 0.0 ? score : (cluster->score > 0.0 ? 0.0 : 1.0);
  const double share = counted * closeness;
  add_scaled(&cluster->sum, share, box);
  cluster->share += share;
  cluster->score += score;
  cluster->weight += weight;
  ++cluster->boxes;
}

template <class Shape>
VISOPS_FN Cluster<Shape> new_cluster(const Shape& box, double score, double weight) {
  Cluster<Shape> cluster = {{}, 0.0, 0.0, score, 0.0, 0};
  join(&cluster, box, score, weight, 1.0);
  return cluster;
}

// For clusters of two and more boxes: a single box is its own fused box, unrounded.
VISOPS_FN Box<double> fused_box(const Cluster<Box<double>>& cluster) {
  Box<double> box;
  box.x1 = cluster.sum.x1 / cluster.share;
  box.y1 = cluster.sum.y1 / cluster.share;
  box.x2 = cluster.sum.x2 / cluster.share;
  box.y2 = cluster.sum.y2 / cluster.share;
  box.area = (box.x2 - box.x1) * (box.y2 - box.y1);
  return box;
}
VISOPS_FN Cuboid fused_box(const Cluster<Cuboid>& cluster) {
  Cuboid box;
  box.x1 = cluster.sum.x1 / cluster.share;
  box.y1 = cluster.sum.y1 / cluster.share;
  box.z1 = cluster.sum.z1 / cluster.share;
  box.x2 = cluster.sum.x2 / cluster.share;
  box.y2 = cluster.sum.y2 / cluster.share;
  box.z2 = cluster.sum.z2 / cluster.share;
  box.volume = volume_of(box);
  return box;
}

// Words of bits, one bit a model, that tell which models a cluster has boxes of; 0 where the
// confidence doesn't ask.
VISOPS_FN int64_t model_words(const BoxFusionParams& p) {
  const bool asks = p.confidence == Confidence::kBoxAndModelAverage ||
                    p.confidence == Confidence::kAbsentModelAwareAverage;
  return asks ? (p.models + 63) / 64 : 0;
}

VISOPS_FN double weight_of_models(const BoxFusionParams& p, const uint64_t* bits) {
  double sum = 0.0;
  for (int64_t model = 0; model < p.models; ++model) {
    if ((bits[model / 64] >> (model % 64) & 1) != 0) sum += p.weights[model];
  }
  return sum;
}

// The score of a finished cluster, whose models are `bits`.
template <class Shape>
VISOPS_FN double final_score(const BoxFusionParams& p, const Cluster<Shape>& cluster,
                             const uint64_t* bits) {
  if (!(cluster.score > 0.0)) return 0.0;  // all weights may be 0 too
  const auto boxes = static_cast<double>(cluster.boxes);
  const double average = cluster.score / boxes;
  switch (p.confidence) {
    case Confidence::kMaximum: return cluster.most / p.weights_most;
    case Confidence::kBoxAndModelAverage:
      return average * boxes / cluster.weight * weight_of_models(p, bits) / p.weights_sum;
    case Confidence::kAbsentModelAwareAverage: {
      const double absent = p.weights_sum - weight_of_models(p, bits);
      return average * boxes / (cluster.weight + absent);
    }
    case Confidence::kAverage: break;
  }
  const bool capped = !p.allows_overflow && cluster.boxes > p.models;
  return average * (capped ? static_cast<double>(p.models) : boxes) / p.weights_sum;
}

VISOPS_FN void store_fused(const BoxFusionParams& p, int64_t i, const Box<double>& fused) {
  store_rounded(p.fused, p.dtype, 4 * i, fused.x1);
  store_rounded(p.fused, p.dtype, 4 * i + 1, fused.y1);
  store_rounded(p.fused, p.dtype, 4 * i + 2, fused.x2);
  store_rounded(p.fused, p.dtype, 4 * i + 3, fused.y2);
}
VISOPS_FN void store_fused(const BoxFusionParams& p, int64_t i, const Cuboid& fused) {
  store_rounded(p.fused, p.dtype, 6 * i, fused.x1);
  store_rounded(p.fused, p.dtype, 6 * i + 1, fused.y1);
  store_rounded(p.fused, p.dtype, 6 * i + 2, fused.z1);
  store_rounded(p.fused, p.dtype, 6 * i + 3, fused.x2);
  store_rounded(p.fused, p.dtype, 6 * i + 4, fused.y2);
  store_rounded(p.fused, p.dtype, 6 * i + 5, fused.z2);
}

// Stores a cluster, whose models are `bits`, at position `i` of the results. Boxes are compared
// with `matched`.
template <class Shape>
VISOPS_FN void store_cluster(const BoxFusionParams& p, int64_t i, const Cluster<Shape>& cluster,
                             const Shape& matched, const uint64_t* bits) {
  store_fused(p, i, p.around_best && cluster.boxes > 1 ? fused_box(cluster) : matched);
  store_rounded(p.score, p.score_dtype, i, final_score(p, cluster, bits));
  p.is_cluster[i] = 1;
}

extern KernelStub<BoxFusionParams> box_fusion_stub;

// Checks numbers' ranges and the `models` weights, and fills in the weights' sum and maximum.
void check_box_fusion(const char* op, BoxFusionParams* params, const double* weights,
                      double min_score);
Confidence parse_confidence(const char* op, const std::string& name);

}  // namespace visops
