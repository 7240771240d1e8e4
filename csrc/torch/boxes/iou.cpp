// The torch front of pairwise overlaps: tensors -> BoxIouParams.
#include "core/boxes/iou.h"

#include "core/box.h"
#include "core/check.h"
#include "torch/register.h"
#include "torch/tensor.h"

namespace visops {
namespace {

// The public function of each measure, named in errors.
const char* function_of(const char* op, BoxOverlap kind) {
  switch (kind) {
    case BoxOverlap::kIou:
    case BoxOverlap::kIof:
    case BoxOverlap::kIof2: return op;
    case BoxOverlap::kGeneralized: return "generalized_box_iou";
    case BoxOverlap::kDistance: return "distance_box_iou";
    case BoxOverlap::kComplete: return "complete_box_iou";
  }
  return op;
}

struct PairsCall {
  const char* op;
  Tensor boxes1, boxes2;
  int64_t numbers;  // of a box
  BoxIouParams params = {};

  void check(bool backward);
  BoxSet box_set(const char* name, const Tensor& boxes) const;
  void take_grad(const Tensor& grad);
};

BoxSet PairsCall::box_set(const char* name, const Tensor& boxes) const {
  require(boxes.dim() == 2 && boxes.size(1) == numbers, op, name, " has shape ", shape_text(boxes),
          ", must be [N, ", numbers, "]");
  return {boxes.const_data_ptr(), dtype_of(op, name, boxes), boxes.size(0), boxes.stride(0),
          boxes.stride(1)};
}

// All checks, before anything is allocated.
void PairsCall::check(bool backward) {
  BoxIouParams& p = params;
  p.boxes1 = box_set("boxes1", boxes1);
  p.boxes2 = box_set("boxes2", boxes2);
  check_same_device(op, "boxes1", boxes1, "boxes2", boxes2);
  check_box_iou(op, p, backward);
  const auto is_double = [](DType dtype) { return dtype == DType::kFloat64; };
  p.result_dtype =
      is_double(p.boxes1.dtype) || is_double(p.boxes2.dtype) ? DType::kFloat64 : DType::kFloat32;
  p.in_double = computes_in_double(p.boxes1.dtype) || computes_in_double(p.boxes2.dtype);
}

void PairsCall::take_grad(const Tensor& grad) {
  const std::vector<int64_t> shape = {params.boxes1.count, params.boxes2.count};
  require(grad.dim() == 2 && grad.size(0) == shape[0] && grad.size(1) == shape[1], op,
          "grad has shape ", shape_text(grad), ", must be ", shape_text(shape));
  check_same_device(op, "boxes1", boxes1, "grad", grad);
  const DType dtype = dtype_of(op, "grad", grad);
  require(dtype == params.result_dtype, op, "grad has dtype ", dtype_name(dtype), ", must be ",
          dtype_name(params.result_dtype));
  params.grad = grad.const_data_ptr();
  params.grad_row_stride = grad.stride(0);
  params.grad_column_stride = grad.stride(1);
}

Tensor empty_result(PairsCall& call) {
  BoxIouParams& p = call.params;
  const std::vector<int64_t> shape = {p.boxes1.count, p.boxes2.count};
  const int64_t bytes =
      saturating_product(saturating_product(shape[0], shape[1]), element_size(p.result_dtype));
  require(bytes < std::numeric_limits<int64_t>::max(), call.op, "result of shape ",
          shape_text(shape), " can't be allocated on ", device_text(call.boxes1),
          ": not enough memory");
  const Tensor result = empty_tensor(call.op, "result", call.boxes1, shape, p.result_dtype);
  p.result = result.mutable_data_ptr();
  return result;
}

Tensor empty_gradient(PairsCall& call) {
  BoxIouParams& p = call.params;
  const Tensor gradient = empty_tensor(call.op, "gradient", call.boxes1,
                                       {p.boxes1.count, call.numbers}, p.boxes1.dtype);
  p.grad_boxes = gradient.mutable_data_ptr();
  return gradient;
}

// Runs both steps: columns, with `bytes` for each box, then pairs.
void run_pairs(PairsCall& call, const KernelStub<BoxIouParams>& columns, int64_t bytes,
               const KernelStub<BoxIouParams>& pairs) {
  BoxIouParams& p = call.params;
  const int64_t rows = p.boxes1.count, count = p.boxes2.count;
  const Tensor scratch =
      empty_tensor(call.op, "scratch", call.boxes1, {rows + count, bytes}, DType::kUInt8);
  p.columns1 = scratch.mutable_data_ptr();
  p.columns2 = static_cast<char*>(p.columns1) + rows * bytes;
  run(columns, call.op, p, call.boxes1);
  run(pairs, call.op, p, call.boxes1);
}

void run_straight(PairsCall& call, const KernelStub<BoxIouParams>& pairs) {
  const int64_t element = call.params.in_double ? sizeof(double) : sizeof(float);
  run_pairs(call, box_columns_stub, kBoxColumns * element, pairs);
}

Tensor box_iou(const Tensor& boxes1, const Tensor& boxes2, const std::string& kind, double eps) {
  PairsCall call = {"box_iou", boxes1, boxes2, 4};
  call.params.kind = parse_box_overlap(call.op, kind);
  call.params.eps = eps;
  call.op = function_of(call.op, call.params.kind);
  call.check(false);
  const Tensor result = empty_result(call);
  if (result.numel() > 0) run_straight(call, box_iou_stub);
  return result;
}

Tensor box_iou_backward(const Tensor& grad, const Tensor& boxes1, const Tensor& boxes2,
                        const std::string& kind, double eps) {
  PairsCall call = {"box_iou_backward", boxes1, boxes2, 4};
  call.params.kind = parse_box_overlap(call.op, kind);
  call.params.eps = eps;
  call.check(true);
  call.take_grad(grad);
  const Tensor gradient = empty_gradient(call);
  run_straight(call, box_iou_backward_stub);
  return gradient;
}

PairsCall rotated_call(const char* op, const Tensor& boxes1, const Tensor& boxes2,
                       const std::string& kind, bool backward) {
  PairsCall call = {op, boxes1, boxes2, 5};
  call.params.kind = parse_rotated_overlap(op, kind);
  call.check(backward);
  call.params.in_double = true;
  return call;
}

Tensor box_iou_rotated(const Tensor& boxes1, const Tensor& boxes2, const std::string& kind) {
  PairsCall call = rotated_call("box_iou_rotated", boxes1, boxes2, kind, false);
  const Tensor result = empty_result(call);
  if (result.numel() > 0) {
    run_pairs(call, rotated_columns_stub, sizeof(RotatedBox), box_iou_rotated_stub);
  }
  return result;
}

Tensor box_iou_rotated_backward(const Tensor& grad, const Tensor& boxes1, const Tensor& boxes2,
                                const std::string& kind) {
  PairsCall call = rotated_call("box_iou_rotated_backward", boxes1, boxes2, kind, true);
  call.take_grad(grad);
  const Tensor gradient = empty_gradient(call);
  run_pairs(call, rotated_columns_stub, sizeof(RotatedBox), box_iou_rotated_backward_stub);
  return gradient;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("box_iou", VISOPS_BOX(&visops::box_iou));
  m.impl("box_iou_backward", VISOPS_BOX(&visops::box_iou_backward));
  m.impl("box_iou_rotated", VISOPS_BOX(&visops::box_iou_rotated));
  m.impl("box_iou_rotated_backward", VISOPS_BOX(&visops::box_iou_rotated_backward));
}
