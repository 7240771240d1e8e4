// The torch front of deformable convolution: tensors -> DeformConvParams.
#include "core/deformable/conv2d.h"

#include <optional>

#include "core/check.h"
#include "torch/deformable/lists.h"
#include "torch/deformable/rows.h"
#include "torch/register.h"
#include "torch/tensor.h"

namespace visops {
namespace {

using MaybeTensor = std::optional<Tensor>;
using Sizes = std::vector<int64_t>;

Sizes sizes_of(const Tensor& tensor) {
  Sizes sizes;
  for (int64_t d = 0; d < tensor.dim(); ++d) sizes.push_back(tensor.size(d));
  return sizes;
}

Tensor permuted(const Tensor& tensor, const Sizes& order) {
  return call_for_tensor("aten::permute", "", tensor, order);
}

// What the five operators share. Sizes are the forward convolution's.
struct DeformConvCall {
  const char* op;
  Sizes input_size, weight_size;
  Sizes stride, padding, dilation;
  DeformConvParams params = {};
  std::vector<Tensor> held = {};  // copies that kernels read

  void set_sizes();
  void set_dtype(const char* name, const Tensor& reference);
  void set_input(const Tensor& input);
  void set_weight(const char* reference_name, const Tensor& reference, const Tensor& weight);
  void set_offset(const char* reference_name, const Tensor& reference, const Tensor& offset,
                  const MaybeTensor& mask);
  void check_grad(const char* reference_name, const Tensor& reference, const Tensor& grad) const;
  void set_grad(const Tensor& grad);
  void require_dtype(const char* name, const Tensor& tensor, const char* reference_name) const;
  ScalarType sum_type() const;
  // As the type of sums, contiguous.
  const void* sum_data(const Tensor& tensor);

 private:
  const void* positions(const char* name, const char* reference_name, const Tensor& tensor);
};

void DeformConvCall::set_sizes() {
  const std::pair<const char*, const Sizes*> pairs[] = {
      {"stride", &stride}, {"padding", &padding}, {"dilation", &dilation}};
  for (const auto& [name, numbers] : pairs) {
    require(numbers->size() == 2, op, name, " has ", numbers->size(), " numbers, must have 2");
  }
  require(input_size.size() == 4, op, "input has shape ", shape_text(input_size),
          ", must be [N, C, H, W]");
  require(weight_size.size() == 4, op, "weight has shape ", shape_text(weight_size),
          ", must be [out channels, in channels / groups, height, width]");
  for (const int64_t size : input_size) {
    require(size >= 0, op, "input has shape ", shape_text(input_size), ", sizes must be >= 0");
  }
  for (const int64_t size : weight_size) {
    require(size >= 1, op, "weight has shape ", shape_text(weight_size), ", sizes must be >= 1");
  }
  DeformConvParams& p = params;
  p.batch = input_size[0];
  p.channels = input_size[1];
  p.out_channels = weight_size[0];
  require(p.channels >= 1 && p.channels % weight_size[1] == 0, op, "weight has shape ",
          shape_text(weight_size), ", its second size must divide the input's channels, ",
          p.channels);
  p.groups = p.channels / weight_size[1];
  require(p.out_channels % p.groups == 0, op, "weight has ", p.out_channels,
          " output channels, must be a multiple of groups, ", p.groups);
  const auto axis = [&](const char* name, int i) {
    return deform_axis(
        op, name, {input_size[2 + i], weight_size[2 + i], 0, stride[i], padding[i], dilation[i]});
  };
  p.y = axis("height", 0);
  p.x = axis("width", 1);
}

void DeformConvCall::set_dtype(const char* name, const Tensor& reference) {
  params.dtype = dtype_of(op, name, reference);
  require(is_floating(params.dtype), op, name, " has dtype ", dtype_name(params.dtype),
          ", must be a floating type");
}

void DeformConvCall::require_dtype(const char* name, const Tensor& tensor,
                                   const char* reference_name) const {
  const DType dtype = dtype_of(op, name, tensor);
  require(dtype == params.dtype, op, name, " has dtype ", dtype_name(dtype), ", ", reference_name,
          " has ", dtype_name(params.dtype), "; they must be equal");
}

ScalarType DeformConvCall::sum_type() const { return scalar_type_of(sum_dtype(params.dtype)); }

const void* DeformConvCall::sum_data(const Tensor& tensor) {
  held.push_back(torch::stable::contiguous(torch::stable::to(tensor, sum_type())));
  return held.back().const_data_ptr();
}

void DeformConvCall::set_input(const Tensor& input) {
  DeformConvParams& p = params;
  // CPU kernels read vectors of adjacent channels. CUDA kernels read any strides, and whole sectors
  // of adjacent channels unless those of a group are few.
  constexpr int64_t kFewChannels = 16;
  const bool takes_any = runs_cuda_kernels(input) && p.group_channels() < kFewChannels;
  const bool is_read_in_place = takes_any || p.channels == 1 || input.stride(1) == 1;
  held.push_back(
      is_read_in_place
          ? input
          : permuted(torch::stable::contiguous(permuted(input, {0, 2, 3, 1})), {0, 3, 1, 2}));
  const Tensor& read = held.back();
  p.input = read.const_data_ptr();
  p.input_batch = read.stride(0);
  p.input_channel = read.stride(1);
  p.input_row = read.stride(2);
  p.input_column = read.stride(3);
}

void DeformConvCall::set_weight(const char* reference_name, const Tensor& reference,
                                const Tensor& weight) {
  require_dtype("weight", weight, reference_name);
  check_same_device(op, reference_name, reference, "weight", weight);
  held.push_back(torch::stable::contiguous(weight));
  params.weight = held.back().const_data_ptr();
}

const void* DeformConvCall::positions(const char* name, const char* reference_name,
                                      const Tensor& tensor) {
  const DType dtype = dtype_of(op, name, tensor);
  const bool is_double = params.dtype == DType::kFloat64;
  require(is_floating(dtype) && (dtype == DType::kFloat64) == is_double, op, name, " has dtype ",
          dtype_name(dtype), ", must be ", is_double ? "float64" : "float16, bfloat16 or float32",
          " for ", reference_name, " of ", dtype_name(params.dtype));
  return sum_data(tensor);
}

void DeformConvCall::set_offset(const char* reference_name, const Tensor& reference,
                                const Tensor& offset, const MaybeTensor& mask) {
  DeformConvParams& p = params;
  check_same_device(op, reference_name, reference, "offset", offset);
  const int64_t each = 2 * p.taps();
  require(offset.dim() == 4 && offset.size(0) == p.batch && offset.size(1) >= each &&
              offset.size(1) % each == 0 && offset.size(2) == p.y.output &&
              offset.size(3) == p.x.output,
          op, "offset has shape ", shape_text(offset), ", must be [", p.batch,
          ", 2 * offset groups * ", p.taps(), ", ", p.y.output, ", ", p.x.output, "]");
  p.offset_groups = offset.size(1) / each;
  require(p.channels % p.offset_groups == 0, op, "offset has shape ", shape_text(offset), " for ",
          p.offset_groups, " offset groups, which must divide the input's channels, ", p.channels);
  p.offset = positions("offset", reference_name, offset);
  if (!mask.has_value()) return;
  check_same_device(op, reference_name, reference, "mask", *mask);
  check_shape(op, "mask", *mask, {p.batch, p.offset_groups * p.taps(), p.y.output, p.x.output});
  p.mask = positions("mask", reference_name, *mask);
}

void DeformConvCall::check_grad(const char* reference_name, const Tensor& reference,
                                const Tensor& grad) const {
  const DeformConvParams& p = params;
  require_dtype("grad", grad, reference_name);
  check_same_device(op, reference_name, reference, "grad", grad);
  check_shape(op, "grad", grad, {p.batch, p.out_channels, p.y.output, p.x.output});
}

void DeformConvCall::set_grad(const Tensor& grad) {
  params.grad = sum_data(permuted(grad, {0, 2, 3, 1}));
}

Tensor deform_conv2d(const Tensor& input, const Tensor& offset, const Tensor& weight,
                     const MaybeTensor& bias, const Sizes& stride, const Sizes& padding,
                     const Sizes& dilation, const MaybeTensor& mask) {
  DeformConvCall call = {"deform_conv2d", sizes_of(input), sizes_of(weight),
                         stride,          padding,         dilation};
  DeformConvParams& p = call.params;
  call.set_sizes();
  call.set_dtype("input", input);
  call.set_input(input);
  call.set_weight("input", input, weight);
  call.set_offset("input", input, offset, mask);
  if (bias.has_value()) {
    check_shape(call.op, "bias", *bias, {p.out_channels});
    call.require_dtype("bias", *bias, "input");
    check_same_device(call.op, "input", input, "bias", *bias);
    call.held.push_back(torch::stable::contiguous(*bias));
    p.bias = call.held.back().const_data_ptr();
  }
  const bool is_channels_last = prefers_channels_last(input);
  const Tensor output =
      empty_tensor(call.op, "result", input, {p.batch, p.out_channels, p.y.output, p.x.output},
                   p.dtype, is_channels_last);
  if (output.numel() == 0) return output;
  p.output = output.mutable_data_ptr();
  p.output_batch = p.out_channels * p.pixels();
  p.output_channel = is_channels_last ? 1 : p.pixels();
  p.output_pixel = is_channels_last ? p.out_channels : 1;
  if (runs_cuda_kernels(input)) {
    multiply_rows(call.op, p, input, weight, bias.has_value() ? &*bias : nullptr, output);
  } else {
    run(deform_conv2d_stub, call.op, p, input);
  }
  return output;
}

// The gradients of input, offset and mask, or some of them.
class SampleGradients {
 public:
  SampleGradients(DeformConvCall* call, const Tensor& grad) : call_(*call), grad_(grad) {}

  void want_input() {
    DeformConvParams& p = call_.params;
    check_lists(call_.op, p.samples(), cells(), grad_);
    of_input_ = empty_contiguous(call_.op, "gradient", grad_,
                                 {p.batch, p.y.input, p.x.input, p.channels}, call_.sum_type());
    if (of_input_->numel() > 0) p.grad_input = of_input_->mutable_data_ptr();
  }

  void want_offset(const Tensor& offset, const MaybeTensor& mask) {
    DeformConvParams& p = call_.params;
    const ScalarType type = call_.sum_type();
    of_offset_ = empty_contiguous(call_.op, "gradient of offset", offset, sizes_of(offset), type);
    of_mask_ = empty_contiguous(call_.op, "gradient of mask", offset,
                                mask.has_value() ? sizes_of(*mask) : Sizes{0}, type);
    if (of_offset_->numel() == 0) return;
    p.grad_offset = of_offset_->mutable_data_ptr();
    p.grad_mask = mask.has_value() ? of_mask_->mutable_data_ptr() : nullptr;
  }

  void compute(const Tensor& weight) {
    DeformConvParams& p = call_.params;
    if (grad_.numel() == 0) {
      if (of_input_.has_value()) torch::stable::zero_(*of_input_);
    } else if (runs_cuda_kernels(grad_)) {
      std::vector<Tensor> lists;
      if (p.grad_input != nullptr) {
        lists = make_lists(deform_conv2d_backward_input_stub, call_.op, &p, p.samples(), cells(),
                           sum_dtype(p.dtype), grad_);
      }
      for_row_gradients(call_.op, p, grad_, weight,
                        [&](const DeformConvParams& part) { run_wanted(part); });
    } else {
      call_.set_grad(grad_);
      run_wanted(p);
    }
  }

  Tensor of_input(bool channels_last) const {
    const Tensor gradient =
        permuted(torch::stable::to(*of_input_, grad_.scalar_type()), {0, 3, 1, 2});
    if (channels_last) return gradient;
    // By way of one dimension, so that strides of dimensions of size 1 are the usual ones, too.
    return torch::stable::reshape(flat(torch::stable::contiguous(gradient)), call_.input_size);
  }

  Tensor of_offset(const Tensor& offset) const {
    return torch::stable::to(*of_offset_, offset.scalar_type());
  }
  Tensor of_mask(const Tensor& offset, const MaybeTensor& mask) const {
    return torch::stable::to(*of_mask_, (mask.has_value() ? *mask : offset).scalar_type());
  }

 private:
  int64_t cells() const {
    const DeformConvParams& p = call_.params;
    return map_cells(p.batch * p.offset_groups, p.y.input, p.x.input);
  }

  void run_wanted(const DeformConvParams& p) const {
    if (p.grad_input != nullptr) run(deform_conv2d_backward_input_stub, call_.op, p, grad_);
    if (p.grad_offset != nullptr) run(deform_conv2d_backward_offset_stub, call_.op, p, grad_);
  }

  DeformConvCall& call_;
  const Tensor& grad_;
  MaybeTensor of_input_, of_offset_, of_mask_;
};

Tensor backward_input(const Tensor& grad, const Tensor& offset, const Tensor& weight,
                      const Sizes& input_size, const Sizes& stride, const Sizes& padding,
                      const Sizes& dilation, const MaybeTensor& mask, bool channels_last) {
  DeformConvCall call = {
      "deform_conv2d_backward_input", input_size, sizes_of(weight), stride, padding, dilation};
  call.set_sizes();
  call.set_dtype("grad", grad);
  call.set_weight("grad", grad, weight);
  call.set_offset("grad", grad, offset, mask);
  call.check_grad("grad", grad, grad);
  SampleGradients gradients(&call, grad);
  gradients.want_input();
  gradients.compute(weight);
  return gradients.of_input(channels_last);
}

// A call with what the gradient of the offset is computed from.
DeformConvCall offset_call(const char* op, const Tensor& grad, const Tensor& input,
                           const Tensor& offset, const Tensor& weight, const Sizes& stride,
                           const Sizes& padding, const Sizes& dilation, const MaybeTensor& mask) {
  DeformConvCall call = {op, sizes_of(input), sizes_of(weight), stride, padding, dilation};
  call.set_sizes();
  call.set_dtype("input", input);
  call.set_input(input);
  call.set_weight("input", input, weight);
  call.set_offset("input", input, offset, mask);
  call.check_grad("input", input, grad);
  return call;
}

std::tuple<Tensor, Tensor> backward_offset(const Tensor& grad, const Tensor& input,
                                           const Tensor& offset, const Tensor& weight,
                                           const Sizes& stride, const Sizes& padding,
                                           const Sizes& dilation, const MaybeTensor& mask) {
  DeformConvCall call = offset_call("deform_conv2d_backward_offset", grad, input, offset, weight,
                                    stride, padding, dilation, mask);
  SampleGradients gradients(&call, grad);
  gradients.want_offset(offset, mask);
  gradients.compute(weight);
  return {gradients.of_offset(offset), gradients.of_mask(offset, mask)};
}

// Both of the above, from one gradient of the rows.
std::tuple<Tensor, Tensor, Tensor> backward_samples(const Tensor& grad, const Tensor& input,
                                                    const Tensor& offset, const Tensor& weight,
                                                    const Sizes& stride, const Sizes& padding,
                                                    const Sizes& dilation, const MaybeTensor& mask,
                                                    bool channels_last) {
  DeformConvCall call = offset_call("deform_conv2d_backward_samples", grad, input, offset, weight,
                                    stride, padding, dilation, mask);
  SampleGradients gradients(&call, grad);
  gradients.want_input();
  gradients.want_offset(offset, mask);
  gradients.compute(weight);
  return {gradients.of_input(channels_last), gradients.of_offset(offset),
          gradients.of_mask(offset, mask)};
}

Tensor backward_weight(const Tensor& grad, const Tensor& input, const Tensor& offset,
                       const Sizes& weight_size, const Sizes& stride, const Sizes& padding,
                       const Sizes& dilation, const MaybeTensor& mask) {
  DeformConvCall call = {
      "deform_conv2d_backward_weight", sizes_of(input), weight_size, stride, padding, dilation};
  DeformConvParams& p = call.params;
  call.set_sizes();
  call.set_dtype("input", input);
  call.set_input(input);
  call.set_offset("input", input, offset, mask);
  call.check_grad("input", input, grad);
  if (runs_cuda_kernels(input)) {
    return multiply_gradient(call.op, p, input, torch::stable::contiguous(grad), weight_size);
  }
  call.set_grad(grad);
  const Tensor gradient =
      empty_contiguous(call.op, "gradient", grad, weight_size, grad.scalar_type());
  p.grad_weight = gradient.mutable_data_ptr();
  run(deform_conv2d_backward_weight_stub, call.op, p, input);
  return gradient;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("deform_conv2d", VISOPS_BOX(&visops::deform_conv2d));
  m.impl("deform_conv2d_backward_input", VISOPS_BOX(&visops::backward_input));
  m.impl("deform_conv2d_backward_offset", VISOPS_BOX(&visops::backward_offset));
  m.impl("deform_conv2d_backward_samples", VISOPS_BOX(&visops::backward_samples));
  m.impl("deform_conv2d_backward_weight", VISOPS_BOX(&visops::backward_weight));
}
