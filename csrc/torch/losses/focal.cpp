// The torch front of the focal loss: tensors -> FocalParams.
#include "core/losses/focal.h"

#include "core/check.h"
#include "torch/register.h"
#include "torch/tensor.h"

namespace visops {
namespace {

constexpr const char* kOp = "sigmoid_focal_loss";

// Targets in the form that kernels read, which this holds.
struct Targets {
  Tensor logits, targets;
};

std::vector<int64_t> shape_of(const Tensor& tensor) {
  return {tensor.sizes().begin(), tensor.sizes().end()};
}

Targets read(const Tensor& inputs, const Tensor& targets, double alpha, double gamma,
             FocalParams& p) {
  check_same_device(kOp, "inputs", inputs, "targets", targets);
  p.dtype = dtype_of(kOp, "inputs", inputs);
  require(is_floating(p.dtype), kOp, "inputs has dtype ", dtype_name(p.dtype),
          ", must be a floating type");
  const DType dtype = dtype_of(kOp, "targets", targets);
  const std::vector<int64_t> shape = shape_of(inputs);
  std::vector<int64_t> of_labels = shape_of(targets);
  of_labels.push_back(shape.empty() ? 1 : shape.back());
  const bool are_labels = dtype == DType::kInt64 && of_labels == shape;
  require(are_labels || shape_of(targets) == shape, kOp, "targets has shape ", shape_text(targets),
          ", inputs has ", shape_text(inputs),
          "; must be equal, or int64 classes without the last dimension");
  require(are_labels || is_floating(dtype), kOp, "targets has dtype ", dtype_name(dtype),
          ", must be a floating type, or int64 classes without the last dimension");
  require(is_finite(alpha) && alpha <= 1.0, kOp, "alpha is ", alpha,
          ", must be from 0 to 1, or negative for no weights");
  require(is_finite(gamma) && gamma >= 0.0, kOp, "gamma is ", gamma, ", must be finite and >= 0");
  p.classes = are_labels ? shape.back() : 1;
  p.rows = p.classes > 0 ? inputs.numel() / p.classes : 0;
  p.present = alpha >= 0.0 ? alpha : 1.0;
  p.absent = alpha >= 0.0 ? 1.0 - alpha : 1.0;
  p.gamma = gamma;
  const Targets held = {contiguous_as(inputs, p.dtype),
                        contiguous_as(targets, are_labels ? DType::kInt64 : p.dtype)};
  p.logits = held.logits.const_data_ptr();
  const void* const data = held.targets.const_data_ptr();
  if (are_labels) {
    p.labels = static_cast<const int64_t*>(data);
  } else {
    p.targets = data;
  }
  return held;
}

Tensor result(const KernelStub<FocalParams>& stub, const Tensor& inputs, FocalParams& p) {
  Tensor output = empty_tensor(kOp, "result", inputs, shape_of(inputs), p.dtype);
  p.output = output.mutable_data_ptr();
  if (output.numel() > 0) run(stub, kOp, p, inputs);
  return output;
}

Tensor sigmoid_focal_loss(const Tensor& inputs, const Tensor& targets, double alpha, double gamma) {
  FocalParams p = {};
  const Targets held = read(inputs, targets, alpha, gamma, p);
  return result(focal_loss_stub, held.logits, p);
}

Tensor sigmoid_focal_loss_backward(const Tensor& grad, const Tensor& inputs, const Tensor& targets,
                                   double alpha, double gamma) {
  FocalParams p = {};
  const Targets held = read(inputs, targets, alpha, gamma, p);
  check_same_device(kOp, "inputs", inputs, "grad", grad);
  require(shape_of(grad) == shape_of(inputs), kOp, "grad has shape ", shape_text(grad),
          ", inputs has ", shape_text(inputs), "; must be equal");
  const Tensor own = contiguous_as(grad, p.dtype);
  p.grad = own.const_data_ptr();
  return result(focal_loss_backward_stub, held.logits, p);
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("sigmoid_focal_loss", VISOPS_BOX(&visops::sigmoid_focal_loss));
  m.impl("sigmoid_focal_loss_backward", VISOPS_BOX(&visops::sigmoid_focal_loss_backward));
}
