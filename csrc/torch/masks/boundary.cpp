// The torch front of masks' boundaries.
#include "core/masks/boundary.h"

#include "core/masks/components.h"
#include "torch/masks/front.h"
#include "torch/register.h"

namespace visops {
namespace {

Tensor mask_boundaries(const Tensor& bits, int64_t width, double dilation_ratio) {
  constexpr const char* op = "mask_boundaries";
  const MaskBatch batch = bits_batch(op, "bits", bits);
  check_width(op, width, bits);
  BoundaryParams p = {};
  p.distance = boundary_distance(op, batch.height, width, dilation_ratio);
  const Tensor result =
      make_result(op, bits, batch.sizes({batch.height, batch.width}), DType::kInt64);
  if (batch.is_empty()) return result;
  p.bits = static_cast<const uint64_t*>(batch.masks.const_data_ptr());
  p.count = batch.count;
  p.height = batch.height;
  p.words = batch.width;
  p.boundaries = static_cast<uint64_t*>(result.mutable_data_ptr());
  run(boundary_stub, op, p, bits);
  return result;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) { m.impl("mask_boundaries", VISOPS_BOX(&visops::mask_boundaries)); }
