// Suppression of host memory: candidates are listed and results are written in C++, around the CPU
// kernel.
#pragma once

#include <vector>

#include "torch/suppression/nms_call.h"

namespace visops {

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
