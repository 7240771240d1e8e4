// A call of the suppression operators after its checks, and the two ways to do it.
#pragma once

#include <optional>
#include <vector>

#include "core/suppression/nms.h"
#include "torch/tensor.h"

namespace visops {

// What an operator's arguments may be.
struct NmsForms {
  bool single;           // boxes [N, 4]
  bool batch;            // boxes [images, N, 4]
  bool groups = false;   // ids, or a dimension of classes in the scores of a batch
  bool rotated = false;  // boxes have 5 numbers; ids are optional
};

struct NmsCall {
  const char* op;
  Tensor boxes;               // [N, 4] or [images, N, 4]; 5 where rotated
  Tensor scores;              // [N], [images, N] or [images, N, classes]
  std::optional<Tensor> ids;  // of the shape of scores: boxes with different ones never meet
  int64_t images, per_image, classes;
  bool in_batch;     // results name the image
  bool by_class;     // ... and the class
  NmsParams params;  // all but the candidates' order, `kept` and scratch
  // On the host: scores below, and NaN, take no part. params.score_threshold itself takes none.
  std::optional<double> least_score = std::nullopt;

  int64_t columns() const { return by_class ? 3 : (in_batch ? 2 : 1); }
  int64_t candidates() const { return images * classes * per_image; }
  std::vector<int64_t> result_shape(int64_t rows) const {
    return columns() > 1 ? std::vector<int64_t>{rows, columns()} : std::vector<int64_t>{rows};
  }

  // A candidate as a row of the result; where the next one goes.
  int64_t* write_row(int64_t candidate, int64_t* out) const {
    const int64_t group = candidate / per_image;
    if (in_batch) *out++ = group / classes;
    if (by_class) *out++ = group % classes;
    *out++ = candidate - group * per_image;
    return out;
  }

  // Whether the work is done without a look at memory.
  bool on_device() const { return runs_cuda_kernels(boxes); }
};

// Throws where an argument is not what it must be. max_output: -1 for none.
NmsCall checked_nms_call(const char* op, const Tensor& boxes, const Tensor& scores,
                         const std::optional<Tensor>& ids, NmsForms forms, double iou_threshold,
                         int64_t max_output, std::optional<double> score_threshold);

struct PaddedResult {
  Tensor indices, count;
};

// Kept candidates, by image and falling score: [K], [K, 2] (image, box) or [K, 3] (image, class,
// box).
Tensor nms_on_host(const NmsCall& call);
PaddedResult nms_padded_on_host(const NmsCall& call);

// Without a look at device memory: torch's own sorts and selections around the kernels. Only a
// result's size is waited for, and not even that by the padded form.
Tensor nms_on_device(const NmsCall& call);
PaddedResult nms_padded_on_device(const NmsCall& call);

// On the device: candidates [K] as rows, if the call has such; and the scores of all candidates, a
// row a group, which is an image or a class of an image.
Tensor rows_of_candidates(const NmsCall& call, const Tensor& candidates);
Tensor scores_by_group(const NmsCall& call);

// On the device: `candidates`, which are all, group by group, each in the order in which they come.
// Groups have equal numbers in `segment`, and no others have.
struct Groups {
  Tensor order, segment;
};
Groups groups_by_ids(const NmsCall& call, const Tensor& candidates);

}  // namespace visops
