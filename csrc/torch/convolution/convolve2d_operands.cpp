#include <algorithm>

#include "core/check.h"
#include "torch/allocate.h"
#include "torch/arithmetic.h"
#include "torch/convolution/convolve2d.h"
#include "torch/dispatcher.h"

namespace visops {
namespace {

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

}  // namespace

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

void set_fill(const char* op, const Tensor& input, const std::optional<Tensor>& fill,
              Padding boundary, unsigned char (&element)[kLargestElement]) {
  require(!fill.has_value() || boundary == Padding::kConstant, op,
          "fill is given, boundary must be 'fill'");
  take_fill(op, input, fill, element);
}

}  // namespace visops
