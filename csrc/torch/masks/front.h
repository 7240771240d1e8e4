// What the fronts of masks share.
#pragma once

#include "core/check.h"
#include "torch/tensor.h"

namespace visops {

// Masks [..., H, W] as a batch.
struct MaskBatch {
  Tensor masks;  // contiguous
  int64_t count, height, width;
  std::vector<int64_t> leading;  // sizes of the dimensions before H and W

  bool is_empty() const { return count == 0 || height == 0 || width == 0; }
  // `leading` and these sizes.
  std::vector<int64_t> sizes(const std::vector<int64_t>& last) const;
};

template <class Params>
void set_sizes(const MaskBatch& batch, Params* p) {
  p->count = batch.count;
  p->height = batch.height;
  p->width = batch.width;
}

MaskBatch mask_batch(const char* op, const char* name, const Tensor& masks);

// A tensor on the device of `like` with as many dimensions as it takes.
Tensor make_result(const char* op, const Tensor& like, const std::vector<int64_t>& sizes,
                   DType dtype);
Tensor make_zeros(const char* op, const Tensor& like, const std::vector<int64_t>& sizes,
                  DType dtype);

// Masks of bool or uint8 as bits [..., H, words].
Tensor pack_batch(const char* op, const MaskBatch& batch);

}  // namespace visops
