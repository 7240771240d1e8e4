// Products of a deformable convolution's rows, and their gradient, by torch's matrix products: NOTE
// [ Samples of a deformable convolution ] (core/deformable/conv2d.h). Only where
// runs_cuda_kernels().
#pragma once

#include <functional>

#include "core/deformable/conv2d.h"
#include "torch/tensor.h"

namespace visops {

// Fills `output` [N, O, H, W] with the rows of p times `weight` [O, C / groups, kh, kw], of p's
// type. `bias` is null where p.bias is.
void multiply_rows(const char* op, const DeformConvParams& p, const Tensor& input,
                   const Tensor& weight, const Tensor* bias, const Tensor& output);

// The sum over all output pixels of `grad` [N, O, H, W], of p's type, times the rows:
// [O, C / groups, kh, kw].
Tensor multiply_gradient(const char* op, const DeformConvParams& p, const Tensor& input,
                         const Tensor& grad, const std::vector<int64_t>& weight_size);

// use(p with a part of the rows' gradient) for all parts, in order: the product of `grad`
// [N, O, H, W], which has elements, and `weight` [O, C / groups, kh, kw], both of p's type.
void for_row_gradients(const char* op, const DeformConvParams& p, const Tensor& grad,
                       const Tensor& weight,
                       const std::function<void(const DeformConvParams&)>& use);

}  // namespace visops
