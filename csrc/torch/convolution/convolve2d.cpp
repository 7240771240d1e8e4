// The torch front of convolution: tensors -> ConvolveParams.
#include "core/convolution/convolve2d.h"

#include <optional>

#include "core/check.h"
#include "torch/allocate.h"
#include "torch/arithmetic.h"
#include "torch/convolution/convolve2d.h"
#include "torch/register.h"

namespace visops {
namespace {

constexpr const char* kOp = "convolve2d";

struct Call {
  ConvolveOperands operands;
  std::vector<int64_t> shape;  // of the output
  ConvolveParams params = {};
};

// Reads the kernel from its last element, which meets the input that much earlier.
void flip(ConvolveParams& p) {
  ConvolvePlane& k = p.kernel_plane;
  const int64_t last = (k.height - 1) * k.row_stride + (k.width - 1) * k.column_stride;
  p.kernel = static_cast<const char*>(p.kernel) + last * element_size(p.kind);
  k.row_stride = -k.row_stride;
  k.column_stride = -k.column_stride;
  p.start_y -= k.height - 1;
  p.start_x -= k.width - 1;
}

// Everything before the output is allocated; copies only operands with too many dimensions.
Call checked_call(const Tensor& input, const Tensor& kernel, const std::vector<int64_t>& start,
                  const std::vector<int64_t>& size, const std::string& boundary,
                  const std::optional<Tensor>& fill, bool flips) {
  Call call = {convolve_operands(kOp, "input", input, "kernel", kernel), {}};
  ConvolveParams& p = call.params;
  p.boundary = parse_boundary(kOp, boundary);
  p.kind = convolve_arithmetic(kOp, "input", input);
  const auto [start_y, start_x] = checked_pair(kOp, "start", start);
  const auto [height, width] = checked_pair(kOp, "size", size);
  check_extent(kOp, {start_y, start_x}, "size", {height, width});
  p.input_plane = plane_of(call.operands.first);
  p.kernel_plane = plane_of(call.operands.second);
  check_planes(kOp, shape_text(input), p.input_plane, shape_text(kernel), p.kernel_plane,
               p.boundary);
  set_fill(kOp, input, fill, p.boundary, p.fill);
  call.shape = call.operands.leading;
  call.shape.insert(call.shape.end(), {height, width});
  p.batch = call.operands.batch;
  p.input = call.operands.first.const_data_ptr();
  p.kernel = call.operands.second.const_data_ptr();
  p.start_y = start_y;
  p.start_x = start_x;
  p.output_height = height;
  p.output_width = width;
  if (flips) flip(p);
  check_kernel_size(kOp, p);
  return call;
}

void run_call(Call& call, const Tensor& output) {
  if (output.numel() == 0) return;
  call.params.output = output.mutable_data_ptr();
  run(convolve2d_stub, kOp, call.params, output);
}

Tensor convolve2d(const Tensor& input, const Tensor& kernel, const std::vector<int64_t>& start,
                  const std::vector<int64_t>& size, const std::string& boundary,
                  const std::optional<Tensor>& fill, bool flips) {
  Call call = checked_call(input, kernel, start, size, boundary, fill, flips);
  const Tensor output = empty_contiguous(kOp, "output", input, call.shape, input.scalar_type());
  run_call(call, output);
  return output;
}

void convolve2d_out(const Tensor& input, const Tensor& kernel, const std::vector<int64_t>& start,
                    const std::vector<int64_t>& size, const std::string& boundary,
                    const std::optional<Tensor>& fill, bool flips, const Tensor& out) {
  Call call = checked_call(input, kernel, start, size, boundary, fill, flips);
  check_same_device(kOp, "input", input, "out", out);
  require(out.scalar_type() == input.scalar_type(), kOp, "out has dtype ",
          dtype_text(out.scalar_type()), ", input has ", dtype_text(input.scalar_type()));
  require(out.sizes().equals(call.shape), kOp, "out has shape ", shape_text(out), ", must be ",
          shape_text(call.shape));
  require(out.is_contiguous(), kOp, "out has shape ", shape_text(out), " and strides ",
          shape_text(out.strides()), ", must be contiguous");
  check_no_overlap(kOp, "input", input, out, "a convolution");
  check_no_overlap(kOp, "kernel", kernel, out, "a convolution");
  run_call(call, out);
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("convolve2d", VISOPS_BOX(&visops::convolve2d));
  m.impl("convolve2d_out", VISOPS_BOX(&visops::convolve2d_out));
}
