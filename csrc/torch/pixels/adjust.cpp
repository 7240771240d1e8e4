// The torch front of pixel operations: tensors -> AdjustParams.
#include "core/pixels/adjust.h"

#include "core/check.h"
#include "torch/register.h"
#include "torch/tensor.h"

namespace visops {
namespace {

constexpr const char* kOp = "adjust_pixels";

Tensor adjust_pixels(const Tensor& images, const std::vector<int64_t>& kinds,
                     const std::vector<double>& amounts) {
  require(images.dim() == 4, kOp, "images have shape ", shape_text(images),
          ", must be [B, C, H, W]");
  AdjustParams p = {};
  p.dtype = dtype_of(kOp, "images", images);
  p.batch = images.size(0);
  p.channels = images.size(1);
  p.height = images.size(2);
  p.width = images.size(3);
  const std::vector<PixelOperation> operations = adjust_operations(kOp, p.batch, kinds, amounts);
  p.operations = operations.data();
  check_adjust(kOp, p);
  const Tensor read = torch::stable::contiguous(images);
  const Tensor output =
      empty_tensor(kOp, "result", images, {p.batch, p.channels, p.height, p.width}, p.dtype);
  if (output.numel() == 0) return output;
  p.images = read.const_data_ptr();
  p.output = output.mutable_data_ptr();
  run(adjust_stub, kOp, p, images);
  return output;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) { m.impl("adjust_pixels", TORCH_BOX(&visops::adjust_pixels)); }
