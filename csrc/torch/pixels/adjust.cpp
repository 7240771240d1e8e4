// The torch front of pixel operations: tensors -> AdjustParams.
#include "core/pixels/adjust.h"

#include "torch/register.h"
#include "torch/tensor.h"

namespace visops {
namespace {

constexpr const char* kOp = "adjust_pixels";

Tensor adjust_pixels(const Tensor& images, const std::vector<int64_t>& kinds,
                     const std::vector<double>& amounts, const std::vector<double>& more) {
  AdjustParams p = {};
  read_images(kOp, images, p);
  const std::vector<PixelOperation> operations =
      adjust_operations(kOp, p.batch, kinds, amounts, more);
  p.operations = operations.data();
  check_adjust(kOp, p);
  return run_on_images(adjust_stub, kOp, images, p);
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) { m.impl("adjust_pixels", VISOPS_BOX(&visops::adjust_pixels)); }
