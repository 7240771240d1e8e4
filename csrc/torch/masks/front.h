// What the fronts of masks share.
#pragma once

#include "core/check.h"
#include "core/masks/packed.h"
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

// Packed masks as the fronts of masks take them: as a batch, and measured.

// Bits [..., H, words] as a batch, whose width counts words.
MaskBatch bits_batch(const char* op, const char* name, const Tensor& bits);

// Throws unless bits [..., words] are of masks that are `width` pixels wide.
void check_width(const char* op, int64_t width, const Tensor& bits);

// Pixels [..., H, W], bool or uint8, as a batch.
MaskBatch pixel_batch(const char* op, const char* name, const Tensor& masks);

// Masks as bits, or as pixels where kernels read them.
struct GivenMasks {
  MaskBatch batch;
  bool is_packed;

  const uint64_t* bits() const {
    return is_packed ? static_cast<const uint64_t*>(batch.masks.const_data_ptr()) : nullptr;
  }
  const uint8_t* pixels() const {
    return is_packed ? nullptr : static_cast<const uint8_t*>(batch.masks.const_data_ptr());
  }
  int64_t words() const { return is_packed ? batch.width : words_of(batch.width); }
};

// Packs pixels for CUDA's kernels, which compare bits.
GivenMasks given_masks(const char* op, const char* name, const Tensor& masks, bool is_packed);

struct Measured {
  Tensor areas, boxes;
};

Measured measure(const char* op, const Tensor& like, const GivenMasks& given);

// What kernels see of both, which must outlive it.
MeasuredMasks masks_of(const MaskBatch& batch, const Measured& found);

}  // namespace visops
