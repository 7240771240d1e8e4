// The torch front of convolve2d's gradients: tensors -> parameters.
#include "core/convolution/convolve2d_gradient.h"

#include "core/check.h"
#include "torch/allocate.h"
#include "torch/convolution/convolve2d.h"
#include "torch/register.h"

namespace visops {
namespace {

Tensor convolve2d_fold(const Tensor& grad, const std::vector<int64_t>& start,
                       const std::vector<int64_t>& size, const std::string& boundary) {
  constexpr const char* kOp = "convolve2d_fold";
  require(grad.dim() >= 2, kOp, "grad has shape ", shape_text(grad),
          ", must have two dimensions or more");
  ConvolveFoldParams p = {};
  p.kind = convolve_arithmetic(kOp, "grad", grad);
  p.boundary = parse_boundary(kOp, boundary);
  const auto [start_y, start_x] = checked_pair(kOp, "start", start);
  const auto [height, width] = checked_pair(kOp, "size", size);
  check_extent(kOp, {start_y, start_x}, "size", {height, width});
  p.start_y = start_y;
  p.start_x = start_x;
  p.height = grad.size(-2);
  p.width = grad.size(-1);
  p.input_height = height;
  p.input_width = width;
  std::vector<int64_t> shape(grad.sizes().begin(), grad.sizes().end() - 2);
  p.count = 1;
  for (const int64_t n : shape) p.count = saturating_product(p.count, n);
  shape.insert(shape.end(), {height, width});
  const Tensor result = empty_contiguous(kOp, "result", grad, shape, grad.scalar_type());
  if (result.numel() == 0) return result;
  const Tensor plain = torch::stable::contiguous(grad);
  p.grad = plain.const_data_ptr();
  p.result = result.mutable_data_ptr();
  run(convolve2d_fold_stub, kOp, p, result);
  return result;
}

Tensor convolve2d_backward_kernel(const Tensor& grad, const Tensor& input,
                                  const std::vector<int64_t>& kernel_size,
                                  const std::vector<int64_t>& start, const std::string& boundary,
                                  const std::optional<Tensor>& fill, bool flips, bool sums_batch) {
  constexpr const char* kOp = "convolve2d_backward_kernel";
  const ConvolveOperands operands = convolve_operands(kOp, "grad", grad, "input", input);
  ConvolveTapsParams p = {};
  p.kind = convolve_arithmetic(kOp, "grad", grad);
  require(!is_integer(p.kind), kOp, "grad has dtype ", dtype_text(grad.scalar_type()),
          ", must be a floating or complex type");
  p.boundary = parse_boundary(kOp, boundary);
  const auto [start_y, start_x] = checked_pair(kOp, "start", start);
  const auto [height, width] = checked_pair(kOp, "kernel_size", kernel_size);
  check_extent(kOp, {start_y, start_x}, "kernel_size", {height, width});
  p.grad_plane = plane_of(operands.first);
  p.input_plane = plane_of(operands.second);
  const ConvolvePlane kernel = {height, width, width, 1};
  check_planes(kOp, shape_text(input), p.input_plane, shape_text(kernel_size), kernel, p.boundary);
  set_fill(kOp, input, fill, p.boundary, p.fill);
  p.batch = operands.batch;
  p.start_y = flips ? start_y - (height - 1) : start_y;
  p.start_x = flips ? start_x - (width - 1) : start_x;
  p.flips = flips;
  p.kernel_height = height;
  p.kernel_width = width;
  p.sums_batch = sums_batch;
  set_chunks(kOp, &p);
  std::vector<int64_t> shape = sums_batch ? std::vector<int64_t>() : operands.leading;
  shape.insert(shape.end(), {height, width});
  const Tensor result = empty_contiguous(kOp, "result", grad, shape, grad.scalar_type());
  if (result.numel() == 0) return result;
  p.grad = operands.first.const_data_ptr();
  p.input = operands.second.const_data_ptr();
  p.result = result.mutable_data_ptr();
  run(convolve2d_taps_stub, kOp, p, result);
  return result;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("convolve2d_fold", VISOPS_BOX(&visops::convolve2d_fold));
  m.impl("convolve2d_backward_kernel", VISOPS_BOX(&visops::convolve2d_backward_kernel));
}
