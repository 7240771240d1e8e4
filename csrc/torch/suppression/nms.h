// Greedy suppression of a call, for the operators that build on it.
#pragma once

#include <optional>
#include <vector>

#include "core/suppression/nms.h"
#include "torch/tensor.h"

namespace visops {

// A call of a suppression operator, after its checks.

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

// The kept candidates, by image and falling score: [K], [K, 2] (image, box) or [K, 3] (image,
// class, box).
Tensor kept_rows(const NmsCall& call);

// Suppression of device memory. Few candidates are put in order by a kernel, many by torch's own
// sorts and selections. It waits for sizes only, and nms_padded not even for those: NOTE [ Fronts
// on the device ] in torch/operators.h.

Tensor nms_on_device(const NmsCall& call);
PaddedResult nms_padded_on_device(const NmsCall& call);

// What soft suppression shares.

// Candidates [K] as rows of the result.
Tensor rows_of_candidates(const NmsCall& call, const Tensor& candidates);

// The scores of all candidates, one row for each image or class of an image.
Tensor scores_by_group(const NmsCall& call);

// Candidates, group by group. Equal numbers in `segment` are a group.
struct Groups {
  Tensor order, segment;
  Tensor slot;  // of each in the list that the groups were made of
};

// Groups of equal ids within an image; each keeps the order of `candidates`.
Groups groups_by_ids(const NmsCall& call, const Tensor& candidates);

// Suppression of host memory: candidates are listed and results are written in C++, around the CPU
// kernel.

Tensor nms_on_host(const NmsCall& call);
PaddedResult nms_padded_on_host(const NmsCall& call);

// What soft suppression shares.

// The candidates of all images that take part.
struct Candidates {
  std::vector<int64_t> listed;       // image by image
  std::vector<int64_t> image_begin;  // [images + 1] in `listed`
  std::vector<int64_t> order;        // group by group; empty if that is `listed`
  std::vector<int64_t> segment;      // group of each in `order`
  std::vector<int64_t> slot;         // in `order`, of each in `listed`; empty as above

  void set_in(NmsParams* p) const {
    p->count = static_cast<int64_t>(listed.size());
    p->order = order.empty() ? listed.data() : order.data();
    p->segment = segment.data();
  }
};

// Within a group best first, without scores that are not above the call's threshold. Both throw if
// an image has too many candidates.
Candidates list_by_score(const NmsCall& call);

// Within a group by number, without NaN and scores below min_score.
Candidates list_by_number(const NmsCall& call, double min_score);

// Where a tensor's values of (image, class, box) lie, in elements.
struct ValueStrides {
  int64_t image, box, in_class;

  ValueStrides(const NmsCall& call, const Tensor& tensor) {
    const int64_t dim = call.in_batch ? 1 : 0;
    image = call.in_batch ? tensor.stride(0) : 0;
    box = tensor.stride(dim);
    in_class = tensor.dim() > dim + 1 ? tensor.stride(dim + 1) : 0;
  }

  // Where a candidate's value lies.
  int64_t of(const NmsCall& call, int64_t candidate) const {
    if (candidate < call.per_image) return candidate * box;  // no slow divisions
    const int64_t group = candidate / call.per_image;
    return group / call.classes * image + (candidate - group * call.per_image) * box +
           group % call.classes * in_class;
  }
};

}  // namespace visops
