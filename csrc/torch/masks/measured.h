// Packed masks as the fronts of masks take them: as a batch, and measured.
#pragma once

#include "core/masks/packed.h"
#include "torch/masks/front.h"

namespace visops {

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
