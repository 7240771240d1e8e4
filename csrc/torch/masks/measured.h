// Packed masks as the fronts of masks take them: as a batch, and measured.
#pragma once

#include "core/masks/packed.h"
#include "torch/masks/front.h"

namespace visops {

// Bits [..., H, words] as a batch, whose width counts words.
MaskBatch bits_batch(const char* op, const char* name, const Tensor& bits);

// Throws unless bits [..., words] are of masks that are `width` pixels wide.
void check_width(const char* op, int64_t width, const Tensor& bits);

struct Measured {
  Tensor areas, boxes;
};

Measured measure(const char* op, const Tensor& like, const MaskBatch& batch);

// What kernels see of both, which must outlive it.
MeasuredMasks masks_of(const MaskBatch& batch, const Measured& found);

}  // namespace visops
