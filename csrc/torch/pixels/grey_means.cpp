// The torch front of grey means: tensors -> GreyMeansParams.
#include "core/pixels/colors/grey_means.h"

#include "core/check.h"
#include "torch/register.h"
#include "torch/tensor.h"

namespace visops {
namespace {

constexpr const char* kOp = "add_grey_means";

// The numbers of a contiguous float64 tensor of this shape.
const double* numbers_of(const char* name, const Tensor& pictures, const Tensor& tensor,
                         const std::vector<int64_t>& shape) {
  check_same_device(kOp, "pictures", pictures, name, tensor);
  require(tensor.scalar_type() == ScalarType::Double, kOp, name, " has dtype ",
          dtype_text(tensor.scalar_type()), ", must be float64");
  check_shape(kOp, name, tensor, shape);
  require(tensor.is_contiguous(), kOp, name, " must be contiguous");
  return static_cast<const double*>(tensor.const_data_ptr());
}

Tensor add_grey_means(const Tensor& pictures, const Tensor& colors, const Tensor& weights) {
  GreyMeansParams p = {};
  require(pictures.dim() == 4, kOp, "pictures have shape ", shape_text(pictures),
          ", must be [B, C, H, W]");
  require(pictures.scalar_type() == ScalarType::Byte, kOp, "pictures have dtype ",
          dtype_text(pictures.scalar_type()), ", must be uint8");
  require(colors.dim() == 4, kOp, "colors has shape ", shape_text(colors),
          ", must be [B, K, C, C + 1]");
  p.batch = pictures.size(0);
  p.channels = pictures.size(1);
  p.pixels = saturating_product(pictures.size(2), pictures.size(3));
  p.steps = colors.size(1);
  p.scale = mean_scale(p.pixels);
  const std::vector<int64_t> shape = {p.batch, p.steps, p.channels, p.channels + 1};
  p.colors = numbers_of("colors", pictures, colors, shape);
  p.weights = numbers_of("weights", pictures, weights, {p.batch, p.steps, p.channels});
  check_grey_means(kOp, p);
  const Tensor read = torch::stable::contiguous(pictures);
  const Tensor output = empty_tensor(kOp, "result", pictures, shape, DType::kFloat64);
  if (output.numel() == 0) return output;
  p.pictures = static_cast<const uint8_t*>(read.const_data_ptr());
  p.output = static_cast<double*>(output.mutable_data_ptr());
  run(grey_means_stub, kOp, p, pictures);
  return output;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) { m.impl("add_grey_means", VISOPS_BOX(&visops::add_grey_means)); }
