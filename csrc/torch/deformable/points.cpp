// The torch front of point samples: tensors -> PointsParams.
#include "core/deformable/points.h"

#include "core/check.h"
#include "torch/deformable/lists.h"
#include "torch/register.h"
#include "torch/tensor.h"

namespace visops {
namespace {

using Integers = std::vector<int64_t>;

// The dtype of samples: masks are sampled to float32.
DType sample_dtype(DType dtype) { return is_floating(dtype) ? dtype : DType::kFloat32; }

struct PointsCall {
  const char* op;
  PointsParams params = {};
  std::vector<Tensor> held = {};  // contiguous copies

  void set_options(const std::string& mode, const std::string& padding, bool align_corners);
  void set_input(const Tensor& input);
  void set_points(const char* reference_name, const Tensor& reference, const Tensor& points);
  void set_grad(const Tensor& grad);
};

void PointsCall::set_options(const std::string& mode, const std::string& padding,
                             bool align_corners) {
  params.mode = parse_point_mode(op, mode);
  params.padding = parse_point_padding(op, padding);
  params.align_corners = align_corners;
}

void PointsCall::set_input(const Tensor& input) {
  PointsParams& p = params;
  require(input.dim() == 4, op, "input has shape ", shape_text(input), ", must be [B, C, H, W]");
  const DType dtype = dtype_of(op, "input", input);
  require(is_floating(dtype) || dtype == DType::kUInt8 || dtype == DType::kBool, op,
          "input has dtype ", dtype_name(dtype), ", must be bool, uint8 or a floating type");
  p.dtype = dtype;
  p.batch = input.size(0);
  p.channels = input.size(1);
  p.height = input.size(2);
  p.width = input.size(3);
  p.input = input.const_data_ptr();
  p.batch_stride = input.stride(0);
  p.channel_stride = input.stride(1);
  p.row_stride = input.stride(2);
  p.column_stride = input.stride(3);
  check_points(op, p);
}

void PointsCall::set_points(const char* reference_name, const Tensor& reference,
                            const Tensor& points) {
  PointsParams& p = params;
  check_same_device(op, reference_name, reference, "points", points);
  require(points.dim() == 3 && points.size(0) == p.batch && points.size(2) == 2, op,
          "points has shape ", shape_text(points), ", must be [", p.batch, ", P, 2]");
  const DType dtype = dtype_of(op, "points", points);
  const bool is_double = p.dtype == DType::kFloat64;
  require(is_floating(dtype) && (dtype == DType::kFloat64) == is_double, op, "points has dtype ",
          dtype_name(dtype), ", must be ", is_double ? "float64" : "float16, bfloat16 or float32",
          " for ", reference_name, " of ", dtype_name(p.dtype));
  p.coordinates_dtype = dtype;
  p.points = points.size(1);
  held.push_back(torch::stable::contiguous(points));
  p.coordinates = held.back().const_data_ptr();
}

void PointsCall::set_grad(const Tensor& grad) {
  PointsParams& p = params;
  check_shape(op, "grad", grad, {p.batch, p.channels, p.points});
  held.push_back(torch::stable::contiguous(grad));
  p.grad = held.back().const_data_ptr();
}

Tensor point_sample(const Tensor& input, const Tensor& points, const std::string& mode,
                    const std::string& padding, bool align_corners) {
  PointsCall call = {"point_sample"};
  PointsParams& p = call.params;
  call.set_options(mode, padding, align_corners);
  call.set_input(input);
  call.set_points("input", input, points);
  const bool channels_last = prefers_channels_last(input);
  const ScalarType type = scalar_type_of(sample_dtype(p.dtype));
  // channels_last: channels are adjacent in the output too.
  p.output_channel_stride = channels_last ? 1 : p.points;
  p.output_point_stride = channels_last ? p.channels : 1;
  const Tensor output =
      empty_strided(call.op, "result", input, {p.batch, p.channels, p.points},
                    {p.channels * p.points, p.output_channel_stride, p.output_point_stride}, type);
  if (output.numel() == 0) return output;
  p.output = output.mutable_data_ptr();
  run(point_sample_stub, call.op, p, input);
  return output;
}

Tensor backward_input(const Tensor& grad, const Tensor& points, const Integers& input_size,
                      const std::string& mode, const std::string& padding, bool align_corners) {
  PointsCall call = {"point_sample_backward_input"};
  PointsParams& p = call.params;
  call.set_options(mode, padding, align_corners);
  require(input_size.size() == 4, call.op, "input_size is ", shape_text(input_size),
          ", must have four numbers");
  p.dtype = dtype_of(call.op, "grad", grad);
  require(is_floating(p.dtype), call.op, "grad has dtype ", dtype_name(p.dtype),
          ", must be a floating type");
  p.batch = input_size[0];
  p.channels = input_size[1];
  p.height = input_size[2];
  p.width = input_size[3];
  check_points(call.op, p);
  call.set_points("grad", grad, points);
  call.set_grad(grad);
  const DType dtype = p.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const int64_t count = p.batch * p.points, cells = map_cells(p.batch, p.height, p.width);
  check_lists(call.op, count, cells, grad);
  Tensor sums = empty_tensor(call.op, "gradient of input", grad,
                             {p.batch, p.channels, p.height, p.width}, dtype);
  if (sums.numel() > 0 && p.points == 0) {
    torch::stable::zero_(sums);
  } else if (sums.numel() > 0) {
    p.grad_input = sums.mutable_data_ptr();
    run_with_lists(point_sample_backward_input_stub, call.op, &p, count, cells, dtype, grad);
  }
  return dtype == p.dtype ? sums : torch::stable::to(sums, scalar_type_of(p.dtype));
}

Tensor backward_points(const Tensor& grad, const Tensor& input, const Tensor& points,
                       const std::string& mode, const std::string& padding, bool align_corners) {
  PointsCall call = {"point_sample_backward_points"};
  PointsParams& p = call.params;
  call.set_options(mode, padding, align_corners);
  require(p.mode == PointMode::kBilinear, call.op,
          "mode is 'nearest', must be 'bilinear': points have no gradient otherwise");
  call.set_input(input);
  call.set_points("input", input, points);
  check_same_device(call.op, "input", input, "grad", grad);
  const DType dtype = dtype_of(call.op, "grad", grad);
  require(dtype == sample_dtype(p.dtype), call.op, "grad has dtype ", dtype_name(dtype),
          ", must be ", dtype_name(sample_dtype(p.dtype)), " for input of ", dtype_name(p.dtype));
  call.set_grad(grad);
  const Tensor of_points = empty_contiguous(call.op, "gradient of points", points,
                                            {p.batch, p.points, 2}, points.scalar_type());
  if (of_points.numel() > 0) {
    p.grad_coordinates = of_points.mutable_data_ptr();
    run(point_sample_backward_points_stub, call.op, p, input);
  }
  return of_points;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("point_sample", VISOPS_BOX(&visops::point_sample));
  m.impl("point_sample_backward_input", VISOPS_BOX(&visops::backward_input));
  m.impl("point_sample_backward_points", VISOPS_BOX(&visops::backward_points));
}
