// The torch front of the affine warp: arguments -> AffineParams, allocation, and the kernel.
#include "core/warp/affine.h"

#include "core/check.h"
#include "torch/register.h"
#include "torch/tensor.h"

namespace visops {
namespace {

constexpr const char* kOp = "affine";

Strides strides_of(const Tensor& t) { return {t.stride(0), t.stride(1), t.stride(2), t.stride(3)}; }

void check_rank(const char* op, const char* name, const Tensor& tensor) {
  require(tensor.dim() == 4, op, name, " has shape ", shape_text(tensor),
          ", must be [batch, channels, height, width]");
}

MatrixView matrix_view(const char* op, const Tensor& image, const Tensor& matrix) {
  check_same_device(op, "image", image, "matrix", matrix);
  const int64_t dim = matrix.dim();
  const bool shaped =
      (dim == 2 || dim == 3) && matrix.size(dim - 2) == 2 && matrix.size(dim - 1) == 3;
  require(shaped, op, "matrix has shape ", shape_text(matrix), ", must be [2, 3] or [batch, 2, 3]");
  require(dim == 2 || matrix.size(0) == image.size(0), op, "matrix has batch ", matrix.size(0),
          ", image has batch ", image.size(0));
  const DType dtype = dtype_of(op, "matrix", matrix);
  require(is_floating(dtype), op, "matrix has dtype ", dtype_name(dtype),
          ", must be a floating type");
  return {matrix.const_data_ptr(),
          dtype,
          dim == 2,
          dim == 3 ? matrix.stride(0) : 0,
          matrix.stride(dim - 2),
          matrix.stride(dim - 1)};
}

// What forward and backward share; `image`, `output` and their strides are still to be set.
AffineParams common_params(const char* op, const Tensor& image, const Tensor& matrix,
                           const std::string& mode, const std::string& padding_mode,
                           bool inverse_map, bool half_pixel) {
  AffineParams p = {};
  p.batch = image.size(0);
  p.channels = image.size(1);
  p.matrix = matrix_view(op, image, matrix);
  p.dtype = dtype_of(op, "image", image);
  p.mode = parse_interpolation(op, mode);
  p.padding = parse_padding(op, padding_mode);
  p.inverse_map = inverse_map;
  p.half_pixel = half_pixel;
  p.fill_count = 1;
  return p;
}

void set_image(AffineParams& p, const Tensor& image) {
  p.image = image.const_data_ptr();
  p.image_stride = strides_of(image);
  p.height = image.size(2);
  p.width = image.size(3);
}

void set_output(AffineParams& p, const void* data, const Tensor& output) {
  p.output = const_cast<void*>(data);
  p.output_stride = strides_of(output);
  p.output_height = output.size(2);
  p.output_width = output.size(3);
}

void check_problem(const char* op, const AffineParams& p, const Tensor& image,
                   const std::vector<double>& fill) {
  AffineParams described = p;
  described.fill_count = static_cast<int64_t>(fill.size());
  check_affine(op, described);
  check_fill(op, p.dtype, fill.data(), described.fill_count);
  if (!image.is_cuda()) check_matrices(op, p);
}

void warp(const char* op, const AffineParams& p, const Tensor& image,
          const std::vector<double>& fill) {
  for_each_fill_group(p, element_size(p.dtype), fill.data(), static_cast<int64_t>(fill.size()),
                      [&](const AffineParams& group) { run(affine_stub, op, group, image); });
}

Tensor affine(const Tensor& image, const Tensor& matrix, const std::vector<int64_t>& size,
              const std::string& mode, const std::string& padding_mode,
              const std::vector<double>& fill, bool inverse_map, bool half_pixel) {
  check_rank(kOp, "image", image);
  require(size.size() == 2, kOp, "size has ", size.size(), " values, must be (height, width)");
  AffineParams p = common_params(kOp, image, matrix, mode, padding_mode, inverse_map, half_pixel);
  set_image(p, image);
  p.output_height = size[0];
  p.output_width = size[1];
  check_problem(kOp, p, image, fill);
  const Tensor output = empty_tensor(kOp, "output", image, {p.batch, p.channels, size[0], size[1]},
                                     p.dtype, prefers_channels_last(image));
  if (output.numel() == 0) return output;
  set_output(p, output.mutable_data_ptr(), output);
  warp(kOp, p, image, fill);
  return output;
}

void affine_out(const Tensor& image, const Tensor& matrix, const std::string& mode,
                const std::string& padding_mode, const std::vector<double>& fill, bool inverse_map,
                bool half_pixel, const Tensor& out) {
  check_rank(kOp, "image", image);
  check_rank(kOp, "out", out);
  check_same_device(kOp, "image", image, "out", out);
  AffineParams p = common_params(kOp, image, matrix, mode, padding_mode, inverse_map, half_pixel);
  require(out.size(0) == p.batch && out.size(1) == p.channels, kOp, "out has shape ",
          shape_text(out), ", must begin with [", p.batch, ", ", p.channels, "]");
  require(out.scalar_type() == image.scalar_type(), kOp, "out has dtype ",
          dtype_name(dtype_of(kOp, "out", out)), ", image has ", dtype_name(p.dtype));
  set_image(p, image);
  p.output_height = out.size(2);
  p.output_width = out.size(3);
  check_problem(kOp, p, image, fill);
  if (out.numel() == 0) return;
  check_writable(kOp, out);
  check_no_overlap(kOp, "image", image, out, "a warp");
  set_output(p, out.mutable_data_ptr(), out);
  warp(kOp, p, image, fill);
}

Tensor affine_backward_image(const Tensor& grad, const Tensor& matrix,
                             const std::vector<int64_t>& image_size, const std::string& mode,
                             const std::string& padding_mode, bool inverse_map, bool half_pixel) {
  constexpr const char* op = "affine_backward_image";
  check_rank(op, "grad", grad);
  require(image_size.size() == 2, op, "image_size has ", image_size.size(),
          " values, must be (height, width)");
  AffineBackwardImageParams p = {};
  p.forward = common_params(op, grad, matrix, mode, padding_mode, inverse_map, half_pixel);
  AffineParams& forward = p.forward;
  require(is_floating(forward.dtype), op, "grad has dtype ", dtype_name(forward.dtype),
          ", must be a floating type");
  forward.height = image_size[0];
  forward.width = image_size[1];
  set_output(forward, grad.const_data_ptr(), grad);
  check_problem(op, forward, grad, {0.0});

  // Half-precision gradients are summed in float32 and rounded once.
  const DType sum_dtype = forward.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const Tensor sums = empty_tensor(op, "gradient of image", grad,
                                   {forward.batch, forward.channels, forward.height, forward.width},
                                   sum_dtype, prefers_channels_last(grad));
  p.grad_image = sums.mutable_data_ptr();
  p.grad_image_stride = strides_of(sums);
  // Empty tensors have no memory; kernels compute addresses in it.
  if (grad.numel() == 0 || sums.numel() == 0) {
    torch::stable::fill_(sums, 0.0);
  } else {
    run(affine_image_gradient_stub, op, p, grad);
  }
  return sum_dtype == forward.dtype ? sums : torch::stable::to(sums, scalar_type_of(forward.dtype));
}

Tensor affine_backward_matrix(const Tensor& grad, const Tensor& image, const Tensor& matrix,
                              const std::string& mode, const std::string& padding_mode,
                              const std::vector<double>& fill, bool inverse_map, bool half_pixel) {
  constexpr const char* op = "affine_backward_matrix";
  check_rank(op, "image", image);
  check_rank(op, "grad", grad);
  check_same_device(op, "image", image, "grad", grad);
  AffineBackwardMatrixParams p = {};
  p.forward = common_params(op, image, matrix, mode, padding_mode, inverse_map, half_pixel);
  AffineParams& forward = p.forward;
  require(is_floating(forward.dtype), op, "image has dtype ", dtype_name(forward.dtype),
          ", must be a floating type");
  require(grad.scalar_type() == image.scalar_type(), op, "grad has dtype ",
          dtype_name(dtype_of(op, "grad", grad)), ", image has ", dtype_name(forward.dtype));
  require(grad.size(0) == forward.batch && grad.size(1) == forward.channels, op, "grad has shape ",
          shape_text(grad), ", must begin with [", forward.batch, ", ", forward.channels, "]");
  set_image(forward, image);
  set_output(forward, grad.const_data_ptr(), grad);
  check_problem(op, forward, image, fill);

  const bool shared = matrix.dim() == 2;
  p.matrices = shared ? 1 : forward.batch;
  const std::vector<int64_t> grad_sizes =
      shared ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{forward.batch, 2, 3};
  const Tensor grad_matrix =
      empty_tensor(op, "gradient of matrix", image, grad_sizes, DType::kFloat64);
  p.grad_matrix = static_cast<double*>(grad_matrix.mutable_data_ptr());
  require(static_cast<int64_t>(fill.size()) <= kMaxFill || fill.size() == 1, op, "fill has ",
          fill.size(), " values, at most ", kMaxFill,
          " different ones are supported where the matrix needs a gradient");
  for (size_t i = 0; i < fill.size(); ++i) forward.fill[i] = fill[i];
  forward.fill_count = static_cast<int64_t>(fill.size());
  if (grad.numel() == 0) {  // it has no memory; kernels compute addresses in it
    torch::stable::fill_(grad_matrix, 0.0);
  } else {
    run(affine_backward_matrix_stub, op, p, image);
  }
  return torch::stable::to(grad_matrix, matrix.scalar_type());
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("affine", VISOPS_BOX(&visops::affine));
  m.impl("affine_out", VISOPS_BOX(&visops::affine_out));
  m.impl("affine_backward_image", VISOPS_BOX(&visops::affine_backward_image));
  m.impl("affine_backward_matrix", VISOPS_BOX(&visops::affine_backward_matrix));
}
