#include "torch/masks/front.h"

#include "core/masks/components.h"
#include "torch/allocate.h"

namespace visops {

std::vector<int64_t> MaskBatch::sizes(const std::vector<int64_t>& last) const {
  std::vector<int64_t> all = leading;
  all.insert(all.end(), last.begin(), last.end());
  return all;
}

MaskBatch mask_batch(const char* op, const char* name, const Tensor& masks) {
  const int64_t dims = masks.dim();
  require(dims >= 2, op, name, " has shape ", shape_text(masks), ", must be [..., H, W]");
  const int64_t height = masks.size(dims - 2), width = masks.size(dims - 1);
  check_mask_size(op, name, height, width);  // before a copy is made
  MaskBatch batch = {torch::stable::contiguous(masks), 1, height, width, {}};
  for (int64_t d = 0; d < dims - 2; ++d) {
    batch.leading.push_back(masks.size(d));
    batch.count *= masks.size(d);
  }
  return batch;
}

Tensor make_result(const char* op, const Tensor& like, const std::vector<int64_t>& sizes,
                   DType dtype) {
  return empty_contiguous(op, "result", like, sizes, scalar_type_of(dtype));
}

Tensor make_zeros(const char* op, const Tensor& like, const std::vector<int64_t>& sizes,
                  DType dtype) {
  Tensor zeros = make_result(op, like, sizes, dtype);
  return torch::stable::fill_(zeros, 0.0);
}

}  // namespace visops
