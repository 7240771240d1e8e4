// Calls of torch's own operators, through the stable dispatcher.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <array>

namespace visops {

// Takes all of the operator's arguments in order. The stack it returns begins with the results.
template <class... Args>
std::array<StableIValue, sizeof...(Args)> call_operator(const char* name, const char* overload,
                                                        const Args&... args) {
  std::array<StableIValue, sizeof...(Args)> stack{torch::stable::detail::from(args)...};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(name, overload, stack.data(), TORCH_ABI_VERSION));
  return stack;
}

template <class... Args>
torch::stable::Tensor call_for_tensor(const char* name, const char* overload, const Args&... args) {
  return torch::stable::detail::to<torch::stable::Tensor>(
      call_operator(name, overload, args...)[0]);
}

}  // namespace visops
