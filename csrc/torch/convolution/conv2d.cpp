// The torch front of the networks' convolution: tensors -> Conv2dParams.
#include "core/convolution/conv2d.h"

#include "core/check.h"
#include "torch/register.h"
#include "torch/tensor.h"

namespace visops {
namespace {

using Sizes = std::vector<int64_t>;

// What the three operators share. Sizes are the forward convolution's.
struct ConvCall {
  const char* op;
  Sizes stride, padding, dilation;
  int64_t groups;
  Sizes input, weight, output = {};

  void check();
  void check_sizes(const char* name, const Sizes& sizes) const;
  ConvSizes axis(int i) const;
  int64_t in_channels() const { return weight[1]; }
  int64_t out_channels() const { return weight[0] / groups; }
};

ConvSizes ConvCall::axis(int i) const {
  const bool four = padding.size() == 4;
  return conv_sizes({op, i == 0 ? "height" : "width", input[2 + i], weight[2 + i], stride[i],
                     dilation[i], padding[four ? 2 * i : i], padding[four ? 2 * i + 1 : i]});
}

void ConvCall::check() {
  require(stride.size() == 2, op, "stride has ", stride.size(), " numbers, must have 2");
  require(dilation.size() == 2, op, "dilation has ", dilation.size(), " numbers, must have 2");
  require(padding.size() == 2 || padding.size() == 4, op, "padding has ", padding.size(),
          " numbers, must have 2 (y, x) or 4 (top, bottom, left, right)");
  // Texts of shapes take longer than small convolutions: fail() makes them only when needed.
  if (input.size() != 4) {
    fail(op, "input has shape ", shape_text(input), ", must be [N, C, H, W]");
  }
  if (weight.size() != 4) {
    fail(op, "weight has shape ", shape_text(weight),
         ", must be [out channels, in channels / groups, height, width]");
  }
  check_sizes("input", input);
  check_sizes("weight", weight);
  require(groups >= 1, op, "groups is ", groups, ", must be >= 1");
  require(weight[0] % groups == 0, op, "weight has ", weight[0],
          " output channels, must be a multiple of groups, ", groups);
  if (saturating_product(weight[1], groups) != input[1]) {
    fail(op, "weight has shape ", shape_text(weight), ", its second size times groups (", groups,
         ") must be the input's channels, ", input[1]);
  }
  output = {input[0], weight[0], axis(0).output, axis(1).output};
}

// The gradients take the sizes of their result as arguments.
void ConvCall::check_sizes(const char* name, const Sizes& sizes) const {
  for (const int64_t size : sizes) {
    if (size < 0) fail(op, name, " has shape ", shape_text(sizes), ", sizes must be >= 0");
  }
}

Arithmetic common_kind(const char* op, const char* name, const Tensor& tensor,
                       const char* other_name, const Tensor& other) {
  const Arithmetic kind = arithmetic_of(op, name, tensor);
  require(kind != Arithmetic::kBool, op, name, " has dtype ", dtype_text(tensor.scalar_type()),
          ", must be a floating, complex or integer type");
  arithmetic_of(op, other_name, other);
  require(tensor.scalar_type() == other.scalar_type(), op, other_name, " has dtype ",
          dtype_text(other.scalar_type()), ", ", name, " has ", dtype_text(tensor.scalar_type()),
          "; they must be equal");
  check_same_device(op, name, tensor, other_name, other);
  return kind;
}

Sizes sizes_of(const Tensor& tensor) {
  Sizes sizes;
  for (int64_t d = 0; d < tensor.dim(); ++d) sizes.push_back(tensor.size(d));
  return sizes;
}

ConvMap map_of(const Tensor& t) {
  return {const_cast<void*>(t.const_data_ptr()), t.stride(0), t.stride(1), t.stride(2),
          t.stride(3)};
}

Tensor empty_map(const char* op, const char* what, const Tensor& like, const Sizes& sizes,
                 bool channels_last) {
  if (!channels_last) return empty_contiguous(op, what, like, sizes, like.scalar_type());
  const Tensor pixels = empty_contiguous(op, what, like, {sizes[0], sizes[2], sizes[3], sizes[1]},
                                         like.scalar_type());
  return call_for_tensor("aten::permute", "", pixels, Sizes{0, 3, 1, 2});
}

Conv2dParams params_of(const ConvCall& call, Arithmetic kind, const Tensor& weight) {
  Conv2dParams p = {};
  p.kind = kind;
  p.weight = weight.const_data_ptr();
  p.weight_group = call.out_channels() * weight.stride(0);
  p.weight_to = weight.stride(0);
  p.weight_from = weight.stride(1);
  p.weight_row = weight.stride(2);
  p.weight_column = weight.stride(3);
  p.batch = call.input[0];
  p.groups = call.groups;
  p.from_channels = call.in_channels();
  p.to_channels = call.out_channels();
  p.y = call.axis(0);
  p.x = call.axis(1);
  return p;
}

Tensor conv2d(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
              const Sizes& stride, const Sizes& padding, const Sizes& dilation, int64_t groups) {
  ConvCall call = {"conv2d", stride, padding, dilation, groups, sizes_of(input), sizes_of(weight)};
  call.check();
  const Arithmetic kind = common_kind(call.op, "input", input, "weight", weight);
  Conv2dParams p = params_of(call, kind, weight);
  if (bias.has_value()) {
    check_shape(call.op, "bias", *bias, {call.weight[0]});
    common_kind(call.op, "input", input, "bias", *bias);
    p.bias = bias->const_data_ptr();
    p.bias_stride = bias->stride(0);
  }
  const Tensor output =
      empty_map(call.op, "result", input, call.output, prefers_channels_last(input));
  p.from = map_of(input);
  p.to = map_of(output);
  if (output.numel() > 0) run(conv2d_stub, call.op, p, input);
  return output;
}

Tensor conv2d_backward_input(const Tensor& grad, const Tensor& weight, const Sizes& input_size,
                             const Sizes& stride, const Sizes& padding, const Sizes& dilation,
                             int64_t groups, bool channels_last) {
  ConvCall call = {"conv2d_backward_input", stride, padding, dilation, groups, input_size,
                   sizes_of(weight)};
  call.check();
  check_shape(call.op, "grad", grad, call.output);
  Conv2dParams p = params_of(call, common_kind(call.op, "grad", grad, "weight", weight), weight);
  p.transposed = true;
  std::swap(p.from_channels, p.to_channels);
  std::swap(p.weight_from, p.weight_to);
  const Tensor gradient = empty_map(call.op, "gradient", grad, input_size, channels_last);
  p.from = map_of(grad);
  p.to = map_of(gradient);
  if (gradient.numel() > 0) run(conv2d_stub, call.op, p, grad);
  return gradient;
}

Tensor conv2d_backward_weight(const Tensor& grad, const Tensor& input, const Sizes& weight_size,
                              const Sizes& stride, const Sizes& padding, const Sizes& dilation,
                              int64_t groups) {
  ConvCall call = {"conv2d_backward_weight", stride,     padding, dilation, groups,
                   sizes_of(input),          weight_size};
  call.check();
  check_shape(call.op, "grad", grad, call.output);
  Conv2dWeightParams p = {};
  p.kind = common_kind(call.op, "grad", grad, "input", input);
  const Tensor gradient =
      empty_contiguous(call.op, "gradient", grad, weight_size, grad.scalar_type());
  p.grad = map_of(grad);
  p.input = map_of(input);
  p.weight_grad = gradient.mutable_data_ptr();
  p.batch = call.input[0];
  p.groups = groups;
  p.in_channels = call.in_channels();
  p.out_channels = call.out_channels();
  p.y = call.axis(0);
  p.x = call.axis(1);
  if (gradient.numel() > 0) run(conv2d_backward_weight_stub, call.op, p, grad);
  return gradient;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("conv2d", VISOPS_BOX(&visops::conv2d));
  m.impl("conv2d_backward_input", VISOPS_BOX(&visops::conv2d_backward_input));
  m.impl("conv2d_backward_weight", VISOPS_BOX(&visops::conv2d_backward_weight));
}
