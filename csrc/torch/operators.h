// torch's own operators as the fronts use them on device memory. None of them waits for the device,
// but for masked().
#pragma once

#include <optional>
#include <vector>

#include "torch/dispatcher.h"
#include "torch/tensor.h"

namespace visops {

// Results of a stable sort along the last dimension.
struct Sorted {
  Tensor values, indices;
};

inline Sorted sort_last(const Tensor& tensor, bool falling) {
  const auto stack = call_operator("aten::sort", "stable", tensor, std::optional<bool>(true),
                                   int64_t{-1}, falling);
  return {torch::stable::detail::to<Tensor>(stack[0]), torch::stable::detail::to<Tensor>(stack[1])};
}

inline Tensor select(const Tensor& tensor, const Tensor& index) {
  return call_for_tensor("aten::index_select", "", tensor, int64_t{0}, index);
}

inline Tensor filled(const Tensor& like, const std::vector<int64_t>& sizes, int64_t value) {
  Tensor tensor = torch::stable::new_empty(like, sizes, ScalarType::Long);
  return torch::stable::fill_(tensor, static_cast<double>(value));
}

// A number as that dtype rounds it, which may be to infinity.
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

// Each row in the order of its indices, one row after another.
inline Tensor take(const Tensor& rows, const Tensor& indices) {
  return flat(call_for_tensor("aten::gather", "", rows, int64_t{1}, indices, false));
}

// Indices group by group, by falling score, then by index; and the groups in that order.
inline Sorted sort_by_group(const Tensor& scores, const Tensor& groups) {
  const Tensor by_score = sort_last(scores, true).indices;
  const Sorted by_group = sort_last(select(groups, by_score), false);
  return {by_group.values, select(by_score, by_group.indices)};
}

template <class T>
T* data_of(const Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

// 0, 1, ... as `rows` rows, on the device of `like`.
inline Tensor numbers(const Tensor& like, int64_t rows, int64_t columns) {
  const std::vector<Tensor> steps = {filled(like, {1}, 0), filled(like, {rows * columns - 1}, 1)};
  const Tensor all = running_sum(call_for_tensor("aten::cat", "", steps, int64_t{0}));
  return torch::stable::reshape(all, {rows, columns});
}

}  // namespace visops
