// The torch front of stability scores.
#include "core/masks/packed.h"

#include <cmath>

#include "torch/masks/front.h"
#include "torch/register.h"

namespace visops {
namespace {

Tensor stability_score(const Tensor& logits, double mask_threshold, double threshold_offset) {
  constexpr const char* op = "stability_score";
  StabilityParams p = {};
  p.dtype = dtype_of(op, "logits", logits);
  require(is_floating(p.dtype), op, "logits has dtype ", dtype_name(p.dtype),
          ", must be a floating type");
  require(!std::isnan(mask_threshold), op, "mask_threshold is nan, must be a number");
  require(threshold_offset >= 0.0, op, "threshold_offset is ", threshold_offset, ", must be >= 0");
  const MaskBatch batch = mask_batch(op, "logits", logits);
  if (batch.is_empty()) return make_zeros(op, logits, batch.leading, DType::kFloat32);
  const Tensor scores = make_result(op, logits, batch.leading, DType::kFloat32);
  p.logits = batch.masks.const_data_ptr();
  p.count = batch.count;
  p.pixels = batch.height * batch.width;
  p.low = rounded_to(p.dtype, mask_threshold - threshold_offset);
  p.high = rounded_to(p.dtype, mask_threshold + threshold_offset);
  p.scores = static_cast<float*>(scores.mutable_data_ptr());
  run(stability_stub, op, p, logits);
  return scores;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) { m.impl("stability_score", VISOPS_BOX(&visops::stability_score)); }
