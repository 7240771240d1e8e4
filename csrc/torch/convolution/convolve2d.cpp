// The torch front of convolve2d and its gradients: tensors -> parameters.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/convolution/convolve2d.h"
#include "torch/register.h"
#include "torch/tensor.h"

namespace visops {
namespace {

// Two tensors of planes with leading dimensions that broadcast.
struct ConvolveOperands {
  Tensor first, second;          // copies where they have too many dimensions for ConvolveBatch
  std::vector<int64_t> leading;  // broadcast
  ConvolveBatch batch;
};

std::vector<int64_t> leading_sizes(const Tensor& tensor) {
  std::vector<int64_t> sizes;
  for (int64_t d = 0; d + 2 < tensor.dim(); ++d) sizes.push_back(tensor.size(d));
  return sizes;
}

// False where the sizes don't broadcast.
bool broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
               std::vector<int64_t>* result) {
  result->assign(std::max(a.size(), b.size()), 1);
  for (size_t i = 1; i <= result->size(); ++i) {
    const int64_t of_a = i <= a.size() ? a[a.size() - i] : 1;
    const int64_t of_b = i <= b.size() ? b[b.size() - i] : 1;
    if (of_a != of_b && of_a != 1 && of_b != 1) return false;
    (*result)[result->size() - i] = of_a == 1 ? of_b : of_a;
  }
  return true;
}

// The tensor's stride along dimension d of the `dims` broadcast ones.
int64_t broadcast_stride(const Tensor& tensor, int64_t d, int64_t dims) {
  const int64_t own = d - (dims - (tensor.dim() - 2));
  return own < 0 || tensor.size(own) == 1 ? 0 : tensor.stride(own);
}

// Drops dimensions of size 1 and merges adjacent ones where possible; false if too many are left.
bool set_batch(const Tensor& first, const Tensor& second, const std::vector<int64_t>& leading,
               ConvolveBatch* batch) {
  *batch = {};
  batch->count = 1;
  const auto dims = static_cast<int64_t>(leading.size());
  for (int64_t d = 0; d < dims; ++d) {
    const int64_t size = leading[d];
    batch->count = saturating_product(batch->count, size);
    if (size == 1) continue;
    const int64_t strides[2] = {broadcast_stride(first, d, dims),
                                broadcast_stride(second, d, dims)};
    const int last = batch->dims - 1;
    const bool joins = last >= 0 && batch->strides[0][last] == strides[0] * size &&
                       batch->strides[1][last] == strides[1] * size;
    if (!joins && batch->dims == kMostConvolveDims) return false;
    const int at = joins ? last : batch->dims++;
    batch->sizes[at] = joins ? batch->sizes[at] * size : size;
    batch->strides[0][at] = strides[0];
    batch->strides[1][at] = strides[1];
  }
  return true;
}

Tensor expanded_copy(const Tensor& tensor, const std::vector<int64_t>& leading) {
  std::vector<int64_t> sizes = leading;
  sizes.insert(sizes.end(), {tensor.size(-2), tensor.size(-1)});
  return torch::stable::contiguous(call_for_tensor("aten::expand", "", tensor, sizes, false));
}

// Throws unless both have planes, share dtype and device, and broadcast.
ConvolveOperands convolve_operands(const char* op, const char* first_name, const Tensor& first,
                                   const char* second_name, const Tensor& second) {
  for (const auto& [name, tensor] :
       {std::pair(first_name, &first), std::pair(second_name, &second)}) {
    require(tensor->dim() >= 2, op, name, " has shape ", shape_text(*tensor),
            ", must have two dimensions or more");
  }
  check_same_device(op, first_name, first, second_name, second);
  require(first.scalar_type() == second.scalar_type(), op, second_name, " has dtype ",
          dtype_text(second.scalar_type()), ", ", first_name, " has ",
          dtype_text(first.scalar_type()));
  ConvolveOperands operands = {first, second, {}, {}};
  require(broadcast(leading_sizes(first), leading_sizes(second), &operands.leading), op,
          second_name, " has shape ", shape_text(second), ", ", first_name, " has ",
          shape_text(first), "; their leading dimensions don't broadcast");
  if (!set_batch(first, second, operands.leading, &operands.batch)) {
    operands.first = expanded_copy(first, operands.leading);
    operands.second = expanded_copy(second, operands.leading);
    set_batch(operands.first, operands.second, operands.leading, &operands.batch);
  }
  return operands;
}

// Throws for dtypes that can't be convolved.
Arithmetic convolve_arithmetic(const char* op, const char* name, const Tensor& tensor) {
  const Arithmetic kind = arithmetic_of(op, name, tensor);
  require(kind != Arithmetic::kBool && kind != Arithmetic::kComplex32, op, name, " has dtype ",
          dtype_text(tensor.scalar_type()),
          ", must be an integer, floating or complex type (not complex32)");
  return kind;
}

ConvolvePlane plane_of(const Tensor& tensor) {
  return {tensor.size(-2), tensor.size(-1), tensor.stride(-2), tensor.stride(-1)};
}

std::pair<int64_t, int64_t> checked_pair(const char* op, const char* name,
                                         const std::vector<int64_t>& values) {
  require(values.size() == 2, op, name, " is ", shape_text(values), ", must be two integers");
  return {values[0], values[1]};
}

// Takes the element that extends the input; throws if there is one and the boundary ignores it.
void set_fill(const char* op, const Tensor& input, const std::optional<Tensor>& fill,
              Padding boundary, unsigned char (&element)[kLargestElement]) {
  require(!fill.has_value() || boundary == Padding::kConstant, op,
          "fill is given, boundary must be 'fill'");
  take_fill(op, input, fill, element);
}

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
  m.impl("convolve2d", VISOPS_BOX(&visops::convolve2d));
  m.impl("convolve2d_out", VISOPS_BOX(&visops::convolve2d_out));
  m.impl("convolve2d_fold", VISOPS_BOX(&visops::convolve2d_fold));
  m.impl("convolve2d_backward_kernel", VISOPS_BOX(&visops::convolve2d_backward_kernel));
}
