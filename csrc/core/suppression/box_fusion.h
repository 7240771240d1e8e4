// Weighted boxes fusion: what the front and the kernels share.
//
// NOTE [ Fusion ]
// Solovyev, Wang and Gabruseva, "Weighted boxes fusion: Ensembling boxes from different object
// detection models" (Image and Vision Computing 107, 2021), as its authors' package does it.
// Boxes come label by label and, within a label, by falling weighted score: the score times the
// weight of the box's model. Each box in turn joins the cluster of its label whose fused box it
// overlaps most, if by more than the threshold, or begins a cluster. The fused box is the mean of
// the cluster's boxes, weighted by their weighted scores.
//
// Everything is float64, each step rounds once, and sums are in the order in which boxes join:
// equal bits on every device. A box that is_inert() meets nobody and stays alone.
#pragma once

#include <string>

#include "core/box.h"
#include "core/kernel_stub.h"

namespace visops {

// How a cluster's scores become one.
enum class Confidence : int { kAverage, kMaximum, kBoxAndModelAverage, kAbsentModelAwareAverage };

struct BoxFusionParams {
  const void* boxes;  // [N, 4] x1, y1, x2, y2
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

  double iou_threshold;  // [0, 1]
  Confidence confidence;
  bool allows_overflow;

  // Results by position in `order`: a label's clusters are at its first positions.
  void* fused;  // [N, 4] of `dtype`
  void* score;  // [N]
  DType score_dtype;
  uint8_t* is_cluster;  // [N] in: zeros; the kernel sets a cluster's to 1
};

// A growing cluster. Sums are in the order of joining.
struct Cluster {
  double x1, y1, x2, y2;  // sums of coordinates times share
  double share;           // sum of shares: weighted scores or, where all are 0, ones
  double score;           // sum of weighted scores
  double most;            // the largest of them
  double weight;          // sum of its boxes' weights
  int64_t boxes;
};

VISOPS_FN Box<double> fusion_box(const BoxFusionParams& p, int64_t box) {
  return load_box<double>(p.boxes, p.dtype, box * p.box_stride, p.coordinate_stride);
}

// Boxes join by falling score: if the first has a score of 0, all have.
VISOPS_FN void join(Cluster* cluster, const Box<double>& box, double score, double weight) {
  const double share = score > 0.0 ? score : (cluster->score > 0.0 ? 0.0 : 1.0);
  cluster->x1 += share * box.x1;
  cluster->y1 += share * box.y1;
  cluster->x2 += share * box.x2;
  cluster->y2 += share * box.y2;
  cluster->share += share;
  cluster->score += score;
  cluster->weight += weight;
  ++cluster->boxes;
}

VISOPS_FN Cluster new_cluster(const Box<double>& box, double score, double weight) {
  Cluster cluster = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, score, 0.0, 0};
  join(&cluster, box, score, weight);
  return cluster;
}

// For clusters of two and more boxes: a single box is its own fused box, unrounded.
VISOPS_FN Box<double> fused_box(const Cluster& cluster) {
  Box<double> box;
  box.x1 = cluster.x1 / cluster.share;
  box.y1 = cluster.y1 / cluster.share;
  box.x2 = cluster.x2 / cluster.share;
  box.y2 = cluster.y2 / cluster.share;
  box.area = (box.x2 - box.x1) * (box.y2 - box.y1);
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
VISOPS_FN double final_score(const BoxFusionParams& p, const Cluster& cluster,
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

// Stores a cluster at position `i` of the results.
VISOPS_FN void store_cluster(const BoxFusionParams& p, int64_t i, const Box<double>& fused,
                             double score) {
  store_rounded(p.fused, p.dtype, 4 * i, fused.x1);
  store_rounded(p.fused, p.dtype, 4 * i + 1, fused.y1);
  store_rounded(p.fused, p.dtype, 4 * i + 2, fused.x2);
  store_rounded(p.fused, p.dtype, 4 * i + 3, fused.y2);
  store_rounded(p.score, p.score_dtype, i, score);
  p.is_cluster[i] = 1;
}

extern ScheduledStub<BoxFusionParams> box_fusion_stub;

// Checks numbers' ranges and the `models` weights, and fills in the weights' sum and maximum.
void check_box_fusion(const char* op, BoxFusionParams* params, const double* weights,
                      double min_score);
Confidence parse_confidence(const char* op, const std::string& name);

}  // namespace visops
