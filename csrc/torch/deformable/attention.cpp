// The torch front of multi-scale deformable attention: tensors -> AttentionParams.
#include "core/deformable/attention.h"

#include <optional>

#include "core/check.h"
#include "torch/deformable/lists.h"
#include "torch/register.h"
#include "torch/tensor.h"

namespace visops {
namespace {

using MaybeTensor = std::optional<Tensor>;
using Integers = std::vector<int64_t>;

DType floating_dtype_of(const char* op, const char* name, const Tensor& tensor) {
  const DType dtype = dtype_of(op, name, tensor);
  require(is_floating(dtype), op, name, " has dtype ", dtype_name(dtype),
          ", must be a floating type");
  return dtype;
}

DType sum_dtype(DType dtype) {
  return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

struct AttentionCall {
  const char* op;
  AttentionParams params = {};
  std::vector<Tensor> held = {};  // contiguous copies

  void set_method(const std::string& name) { params.method = parse_attention_method(op, name); }
  void set_value(const Tensor& value);
  // Locations and weights; every size of the problem but the channels and positions.
  void set_samples(const char* reference_name, const Tensor& reference, const Tensor& locations,
                   const Tensor& weights);
  void set_levels(const Tensor& reference, const MaybeTensor& shapes, const Integers& sizes,
                  const Integers& points);
  void set_grad(const Tensor& grad);
  const void* contiguous_data(const Tensor& tensor);

 private:
  void read_shapes(const Tensor& reference, const Tensor& shapes);
};

const void* AttentionCall::contiguous_data(const Tensor& tensor) {
  held.push_back(torch::stable::contiguous(tensor));
  return held.back().const_data_ptr();
}

void AttentionCall::set_value(const Tensor& value) {
  require(value.dim() == 4, op, "value has shape ", shape_text(value), ", must be [B, S, h, d]");
  params.dtype = floating_dtype_of(op, "value", value);
  params.batch = value.size(0);
  params.positions = value.size(1);
  params.heads = value.size(2);
  params.channels = value.size(3);
  const bool has_adjacent_channels = params.channels <= 1 || value.stride(3) == 1;
  held.push_back(has_adjacent_channels ? value : torch::stable::contiguous(value));
  const Tensor& read = held.back();
  params.value = read.const_data_ptr();
  params.batch_stride = read.stride(0);
  params.position_stride = read.stride(1);
  params.head_stride = read.stride(2);
}

void AttentionCall::set_samples(const char* reference_name, const Tensor& reference,
                                const Tensor& locations, const Tensor& weights) {
  check_same_device(op, reference_name, reference, "sampling_locations", locations);
  check_same_device(op, reference_name, reference, "attention_weights", weights);
  AttentionParams& p = params;
  require(locations.dim() == 5 && locations.size(0) == p.batch && locations.size(2) == p.heads &&
              locations.size(4) == 2,
          op, "sampling_locations has shape ", shape_text(locations), ", must be [", p.batch,
          ", Q, ", p.heads, ", samples, 2]");
  p.queries = locations.size(1);
  p.samples = locations.size(3);
  check_shape(op, "attention_weights", weights, {p.batch, p.queries, p.heads, p.samples});
  const std::pair<const char*, const Tensor*> given[] = {{"sampling_locations", &locations},
                                                         {"attention_weights", &weights}};
  for (const auto& [name, tensor] : given) {
    const DType dtype = floating_dtype_of(op, name, *tensor);
    require((dtype == DType::kFloat64) == (p.dtype == DType::kFloat64), op, name, " has dtype ",
            dtype_name(dtype), ", must be ",
            p.dtype == DType::kFloat64 ? "float64" : "float16, bfloat16 or float32", " for ",
            reference_name, " of ", dtype_name(p.dtype));
  }
  p.locations_dtype = dtype_of(op, "sampling_locations", locations);
  p.weights_dtype = dtype_of(op, "attention_weights", weights);
  p.locations = contiguous_data(locations);
  p.weights = contiguous_data(weights);
}

void AttentionCall::set_levels(const Tensor& reference, const MaybeTensor& shapes,
                               const Integers& sizes, const Integers& points) {
  params.levels = static_cast<int64_t>(points.size());
  require(params.levels >= 1 && params.levels <= kMostLevels, op, "points has ", params.levels,
          " levels, must have 1 to ", kMostLevels);
  for (int64_t l = 0; l < params.levels; ++l) params.level[l].points = points[l];
  if (shapes.has_value()) {
    require(sizes.empty(), op, "sizes has ", sizes.size(),
            " numbers, must be empty where spatial_shapes is a tensor");
    read_shapes(reference, *shapes);
  } else {
    require(sizes.size() == 2 * points.size(), op, "spatial_shapes has ", sizes.size(),
            " numbers, must have 2 for each of ", params.levels, " levels of points");
    for (int64_t l = 0; l < params.levels; ++l) {
      params.level[l].height = sizes[2 * l];
      params.level[l].width = sizes[2 * l + 1];
    }
  }
  complete_attention(op, &params);
}

void AttentionCall::read_shapes(const Tensor& reference, const Tensor& shapes) {
  require(shapes.dim() == 2 && shapes.size(0) == params.levels && shapes.size(1) == 2, op,
          "spatial_shapes has shape ", shape_text(shapes), ", must be [", params.levels,
          ", 2]: a row for each level of points");
  const DType dtype = dtype_of(op, "spatial_shapes", shapes);
  require(dtype == DType::kInt64 || dtype == DType::kInt32, op, "spatial_shapes has dtype ",
          dtype_name(dtype), ", must be int64 or int32");
  if (shapes.is_cuda()) check_same_device(op, "value", reference, "spatial_shapes", shapes);
  const Tensor numbers =
      torch::stable::contiguous(torch::stable::to(shapes, scalar_type_of(DType::kInt64)));
  held.push_back(numbers);
  const auto* number = static_cast<const int64_t*>(numbers.const_data_ptr());
  const bool is_emulated = !reference.is_cuda() && runs_cuda_kernels(reference);
  if (shapes.is_cuda() || is_emulated) {
    params.device_shapes = number;
    return;
  }
  for (int64_t l = 0; l < params.levels; ++l) {
    params.level[l].height = number[2 * l];
    params.level[l].width = number[2 * l + 1];
  }
}

void AttentionCall::set_grad(const Tensor& grad) {
  const AttentionParams& p = params;
  check_shape(op, "grad", grad, {p.batch, p.queries, p.heads * p.channels});
  params.grad = contiguous_data(grad);
}

Tensor attention(const Tensor& value, const MaybeTensor& shapes, const Integers& sizes,
                 const Tensor& locations, const Tensor& weights, const Integers& points,
                 const std::string& method) {
  AttentionCall call = {"multi_scale_deformable_attention"};
  AttentionParams& p = call.params;
  call.set_method(method);
  call.set_value(value);
  call.set_samples("value", value, locations, weights);
  call.set_levels(value, shapes, sizes, points);
  const Tensor output =
      empty_tensor(call.op, "result", value, {p.batch, p.queries, p.heads * p.channels}, p.dtype);
  if (output.numel() == 0) return output;
  p.output = output.mutable_data_ptr();
  run(attention_stub, call.op, p, value);
  return output;
}

Tensor backward_value(const Tensor& grad, const MaybeTensor& shapes, const Integers& sizes,
                      const Tensor& locations, const Tensor& weights, const Integers& points,
                      const std::string& method, const Integers& value_size) {
  AttentionCall call = {"multi_scale_deformable_attention_backward_value"};
  AttentionParams& p = call.params;
  call.set_method(method);
  require(value_size.size() == 4, call.op, "value_size is ", shape_text(value_size),
          ", must have four numbers");
  p.dtype = floating_dtype_of(call.op, "grad", grad);
  p.batch = value_size[0];
  p.positions = value_size[1];
  p.heads = value_size[2];
  p.channels = value_size[3];
  call.set_samples("grad", grad, locations, weights);
  call.set_levels(grad, shapes, sizes, points);
  call.set_grad(grad);
  const DType dtype = sum_dtype(p.dtype);
  const int64_t count = p.batch * p.queries * p.heads * p.samples;
  const int64_t cells = saturating_product(p.batch * p.heads, most_cells(p));
  check_lists(call.op, count, cells, grad);
  Tensor sums = empty_tensor(call.op, "gradient of value", grad,
                             {p.batch, p.positions, p.heads, p.channels}, dtype);
  if (sums.numel() > 0 && locations.numel() == 0) {
    torch::stable::zero_(sums);
  } else if (sums.numel() > 0) {
    p.grad_value = sums.mutable_data_ptr();
    run_with_lists(attention_backward_value_stub, call.op, &p, count, cells, dtype, grad);
  }
  return dtype == p.dtype ? sums : torch::stable::to(sums, scalar_type_of(p.dtype));
}

std::tuple<Tensor, Tensor> backward_samples(const Tensor& grad, const Tensor& value,
                                            const MaybeTensor& shapes, const Integers& sizes,
                                            const Tensor& locations, const Tensor& weights,
                                            const Integers& points, const std::string& method) {
  AttentionCall call = {"multi_scale_deformable_attention_backward_samples"};
  AttentionParams& p = call.params;
  call.set_method(method);
  call.set_value(value);
  call.set_samples("value", value, locations, weights);
  call.set_levels(value, shapes, sizes, points);
  check_same_device(call.op, "value", value, "grad", grad);
  const DType dtype = dtype_of(call.op, "grad", grad);
  require(dtype == p.dtype, call.op, "grad has dtype ", dtype_name(dtype), ", value has ",
          dtype_name(p.dtype));
  call.set_grad(grad);
  Tensor of_locations =
      empty_contiguous(call.op, "gradient of sampling_locations", locations,
                       {p.batch, p.queries, p.heads, p.samples, 2}, locations.scalar_type());
  Tensor of_weights =
      empty_contiguous(call.op, "gradient of attention_weights", weights,
                       {p.batch, p.queries, p.heads, p.samples}, weights.scalar_type());
  if (of_weights.numel() > 0 && p.positions == 0) {  // no sample reads anything
    torch::stable::zero_(of_locations);
    torch::stable::zero_(of_weights);
  } else if (of_weights.numel() > 0) {
    p.grad_locations = of_locations.mutable_data_ptr();
    p.grad_weights = of_weights.mutable_data_ptr();
    run(attention_backward_samples_stub, call.op, p, value);
  }
  return {of_locations, of_weights};
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("multi_scale_deformable_attention", VISOPS_BOX(&visops::attention));
  m.impl("multi_scale_deformable_attention_backward_value", VISOPS_BOX(&visops::backward_value));
  m.impl("multi_scale_deformable_attention_backward_samples",
         VISOPS_BOX(&visops::backward_samples));
}
