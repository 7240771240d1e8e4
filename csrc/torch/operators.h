// torch's own operators, as the fronts of suppression use them on device memory.
//
// NOTE [ Fronts on the device ]
// Most fronts fill in Params and run a kernel, whatever the device. Suppression also sorts, selects
// and compacts around its kernels. Its fronts do so in one of two ways:
//
//   ..._on_host    loops in C++, which cost less than calls of torch's operators
//   ..._on_device  torch's own operators, from this header, which leave the data on the device
//
// runs_cuda_kernels() chooses, once, at the top of an operator. Emulation takes the device's way on
// CPU tensors, so tests run it. Where the way doesn't matter to speed (matrix_nms,
// weighted_boxes_fusion), the device's is the only one.
//
// The device's way reads no values on the host. Nothing here waits for the device except masked(),
// whose result's size depends on values, and on_host(); docs/cuda.md counts them. An operator
// that must not wait has results of fixed size (nms_padded). Everything runs on the current stream,
// so scratch may be freed right after a launch.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "torch/tensor.h"

namespace visops {

// The result of a stable sort along the last dimension.
struct Sorted {
  Tensor values, indices;
};

inline bool is_floating(ScalarType type) {
  return type == ScalarType::Half || type == ScalarType::BFloat16 || type == ScalarType::Float ||
         type == ScalarType::Double;
}

// All NaN with the same bits: some of torch's sorts on CUDA put negative ones last
// (pytorch#190781), and 0 / 0 is one of those on x86.
inline Tensor with_one_nan(const Tensor& tensor) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  return call_for_tensor("aten::nan_to_num", "", tensor,
                         std::optional<double>(std::numeric_limits<double>::quiet_NaN()),
                         std::optional<double>(inf), std::optional<double>(-inf));
}

inline Sorted sort_last(const Tensor& tensor, bool falling) {
  const Tensor keys = is_floating(tensor.scalar_type()) ? with_one_nan(tensor) : tensor;
  const auto stack =
      call_operator("aten::sort", "stable", keys, std::optional<bool>(true), int64_t{-1}, falling);
  return {torch::stable::detail::to<Tensor>(stack[0]), torch::stable::detail::to<Tensor>(stack[1])};
}

inline Tensor select(const Tensor& tensor, const Tensor& index) {
  return call_for_tensor("aten::index_select", "", tensor, int64_t{0}, index);
}

inline Tensor filled(const Tensor& like, const std::vector<int64_t>& sizes, int64_t value) {
  Tensor tensor = torch::stable::new_empty(like, sizes, ScalarType::Long);
  return torch::stable::fill_(tensor, static_cast<double>(value));
}

// `value` rounded to a dtype, perhaps to infinity.
inline Tensor number(const Tensor& like, double value, ScalarType type) {
  Tensor tensor = torch::stable::new_empty(like, {1}, ScalarType::Double);
  return torch::stable::to(torch::stable::fill_(tensor, value), type);
}

inline Tensor flat(const Tensor& tensor) { return torch::stable::reshape(tensor, {-1}); }

inline Tensor as_bool(const Tensor& tensor) { return torch::stable::to(tensor, ScalarType::Bool); }

inline Tensor running_sum(const Tensor& tensor) {
  return call_for_tensor("aten::cumsum", "", tensor, int64_t{-1},
                         std::optional<ScalarType>(ScalarType::Long));
}

inline Tensor divide(const Tensor& a, const Tensor& b) {
  return call_for_tensor("aten::floor_divide", "", a, b);
}

inline Tensor remainder(const Tensor& a, const Tensor& b) {
  return call_for_tensor("aten::remainder", "Tensor", a, b);
}

inline Tensor masked(const Tensor& tensor, const Tensor& mask) {
  return call_for_tensor("aten::masked_select", "", tensor, as_bool(mask));
}

// A copy in host memory. Not to(), which tests could not see where it does nothing.
inline Tensor on_host(const Tensor& tensor) {
  const torch::stable::Device cpu(torch::headeronly::DeviceType::CPU);
  return call_for_tensor("aten::_to_copy", "", tensor, std::nullopt, std::nullopt,
                         std::optional<torch::stable::Device>(cpu), std::nullopt, false,
                         std::nullopt);
}

// Each row's elements in the order of its indices, one row after another.
inline Tensor take(const Tensor& rows, const Tensor& indices) {
  return flat(call_for_tensor("aten::gather", "", rows, int64_t{1}, indices, false));
}

// Indices group by group, then by falling score, then by index; values are the groups in that
// order.
inline Sorted sort_by_group(const Tensor& scores, const Tensor& groups) {
  const Tensor by_score = sort_last(scores, true).indices;
  const Sorted by_group = sort_last(select(groups, by_score), false);
  return {by_group.values, select(by_score, by_group.indices)};
}

template <class T>
T* data_of(const Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

// 0, 1, ... in `rows` rows, on the device of `like`.
inline Tensor numbers(const Tensor& like, int64_t rows, int64_t columns) {
  const std::vector<Tensor> steps = {filled(like, {1}, 0), filled(like, {rows * columns - 1}, 1)};
  const Tensor all = running_sum(call_for_tensor("aten::cat", "", steps, int64_t{0}));
  return torch::stable::reshape(all, {rows, columns});
}

}  // namespace visops
