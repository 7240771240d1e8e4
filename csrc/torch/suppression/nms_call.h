// A call of a suppression operator, after its checks.
#pragma once

#include <optional>
#include <vector>

#include "core/suppression/nms.h"
#include "core/suppression/nms_pad.h"
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
  std::optional<Tensor> ids;  // shaped like scores: boxes with different ids never meet
  bool rotated;
  int64_t images = 0, per_image = 0, classes = 0;
  bool in_batch = false;  // results name the image
  bool by_class = false;  // ... and the class
  DType score_dtype = {};
  std::optional<double> score_threshold = {};  // only higher scores take part; a score_dtype number
  NmsParams params = {};                       // all but `filter`, candidates and results

  int64_t columns() const { return by_class ? 3 : (in_batch ? 2 : 1); }
  int64_t candidates() const { return images * classes * per_image; }
  std::vector<int64_t> result_shape(int64_t rows) const {
    return columns() > 1 ? std::vector<int64_t>{rows, columns()} : std::vector<int64_t>{rows};
  }

  // Writes a candidate as a row of the result; returns the place of the next row.
  int64_t* write_row(int64_t candidate, int64_t* out) const {
    const int64_t group = candidate / per_image;
    if (in_batch) *out++ = group / classes;
    if (by_class) *out++ = group % classes;
    *out++ = candidate - group * per_image;
    return out;
  }

  // Runs the kernel; `p` is complete.
  void run_kernel(const NmsParams& p) const {
    run(rotated ? nms_rotated_stub : nms_stub, op, p, boxes);
  }
};

// Throws if an argument is wrong. max_output: -1 for no limit.
NmsCall checked_nms_call(const char* op, const Tensor& boxes, const Tensor& scores,
                         const std::optional<Tensor>& ids, NmsForms forms, double iou_threshold,
                         int64_t max_output, std::optional<double> score_threshold);

// What nms_padded returns.
struct PaddedResult {
  Tensor indices, count;
};

PaddedResult empty_padded_result(const NmsCall& call);
NmsPadParams padding_of(const NmsCall& call, const PaddedResult& result);  // without candidates
void run_padding(const NmsCall& call, const NmsPadParams& p);

}  // namespace visops
