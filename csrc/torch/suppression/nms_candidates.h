// Candidates of host memory, in an order and by group.
#pragma once

#include <vector>

#include "torch/suppression/nms.h"

namespace visops {

// Candidates of all images.
struct Candidates {
  std::vector<int64_t> listed;       // image by image
  std::vector<int64_t> image_begin;  // [images + 1] in `listed`
  std::vector<int64_t> order;        // group by group; empty where that is `listed`
  std::vector<int64_t> segment;      // of each in `order`
  std::vector<int64_t> place;        // in `order`, of each in `listed`; empty as above

  void give_to(NmsParams* p) const {
    p->count = static_cast<int64_t>(listed.size());
    p->order = order.empty() ? listed.data() : order.data();
    p->segment = segment.data();
  }
};

// Within a group: best first, or by number.
enum class CandidateOrder { kByScore, kByNumber };

// Without those whose score is not above the threshold. Throws where an image has too many.
Candidates list_candidates(const NmsCall& call, CandidateOrder order);

// Where the values of (image, class, box) lie, in elements.
struct ValueStrides {
  int64_t image, box, in_class;

  ValueStrides(const NmsCall& call, const Tensor& tensor) {
    const int64_t dim = call.in_batch ? 1 : 0;
    image = call.in_batch ? tensor.stride(0) : 0;
    box = tensor.stride(dim);
    in_class = tensor.dim() > dim + 1 ? tensor.stride(dim + 1) : 0;
  }
};

}  // namespace visops
