// Masks as bits, 64 pixels to a word, in which intersections are counted exactly.
#pragma once

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/element.h"

namespace visops {

struct MaskExtent {
  int64_t begin, end;  // words outside [begin, end) are 0
  int64_t area;        // pixels inside the mask
};

struct MaskBitsParams {
  const uint8_t* masks;  // [N, height, width] bool or uint8; pixels that are not 0 are inside
  int64_t height, width;
  int64_t mask_stride, row_stride, column_stride;  // elements

  int64_t count;         // N
  const int64_t* order;  // [N] masks in the order of the results
  uint64_t* bits;        // [N, mask_words()] in `order`
  MaskExtent* extent;    // [N] in `order`
};

VISOPS_FN int64_t mask_words(const MaskBitsParams& p) { return (p.height * p.width + 63) / 64; }

VISOPS_FN int64_t pixel_offset(const MaskBitsParams& p, int64_t pixel) {
  const int64_t row = pixel / p.width;
  return row * p.row_stride + (pixel - row * p.width) * p.column_stride;
}

// CPU kernels take a range of positions in `order`.
extern KernelStub<MaskBitsParams> mask_bits_stub;

}  // namespace visops
