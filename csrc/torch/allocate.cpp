#include <torch/csrc/stable/macros.h>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "core/check.h"
#include "core/dispatch/large_pages.h"
#include "torch/allocate.h"

namespace visops {
namespace {
constexpr int64_t kAlignment = 64;  // torch's

}  // namespace

Tensor zeroed_on_host(const char* op, const char* what, const std::vector<int64_t>& sizes,
                      DType dtype) {
  int64_t bytes = element_size(dtype);
  for (const int64_t size : sizes) bytes = saturating_product(bytes, size);
  void* memory = nullptr;
  if (bytes < std::numeric_limits<int64_t>::max() - kAlignment) {
    memory = std::calloc(static_cast<size_t>(bytes + kAlignment), 1);
  }
  if (memory == nullptr) {
    fail(op, what, " of shape ", shape_text(sizes),
         " can't be allocated on cpu: not enough memory");
  }
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const auto aligned = (address + kAlignment - 1) & ~uintptr_t{kAlignment - 1};
  prefer_large_pages(reinterpret_cast<void*>(aligned), bytes);
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step = saturating_product(step, sizes[i] > 1 ? sizes[i] : 1);
  }
  const torch::stable::Device cpu(torch::headeronly::DeviceType::CPU);
  try {
    return torch::stable::from_blob(reinterpret_cast<void*>(aligned), sizes, strides, cpu,
                                    scalar_type_of(dtype), [memory](void*) { std::free(memory); });
  } catch (...) {
    std::free(memory);
    throw;
  }
}
}  // namespace visops

namespace visops {
void take_fill(const char* op, const Tensor& input, const std::optional<Tensor>& fill,
               unsigned char (&element)[kLargestElement]) {
  std::memset(element, 0, sizeof(element));
  if (!fill.has_value()) return;
  require(fill->numel() == 1, op, "fill has shape ", shape_text(*fill), ", must be one element");
  require(fill->is_cpu(), op, "fill is on ", device_text(*fill), ", must be on cpu");
  const ScalarType type = fill->scalar_type(), wanted = input.scalar_type();
  require(type == wanted, op, "fill has dtype ", dtype_text(type), ", input has ",
          dtype_text(wanted));
  std::memcpy(element, fill->const_data_ptr(), fill->element_size());
}

namespace {

// Why an allocation on this device failed. On a GPU it may also be an earlier kernel that did;
// torch knows from 2.13 on.
std::string allocation_error(const Tensor& like) {
  if (!like.is_cuda()) return "not enough memory";
  const char* message = nullptr;
#if defined(TORCH_DYNAMIC_VERSION_CALL_2_13_0)
  message = TORCH_DYNAMIC_VERSION_CALL_2_13_0(torch_exception_get_what_without_backtrace,
                                              torch::stable::detail::torch_shim_bc_const_char_ptr);
#endif
  return message != nullptr ? message : "not enough memory, or an earlier CUDA call failed";
}

}  // namespace

Tensor empty_strided(const char* op, const char* what, const Tensor& like,
                     const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                     ScalarType type) {
  int64_t count = 1;
  for (const int64_t size : sizes) count = saturating_product(count, size > 1 ? size : 1);
  AtenTensorHandle handle = nullptr;
  const bool is_there =
      count <= std::numeric_limits<int64_t>::max() / kLargestElement &&
      aoti_torch_empty_strided(
          static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(),
          torch::stable::detail::to<int32_t>(torch::stable::detail::from(type)),
          like.is_cuda() ? aoti_torch_device_type_cuda() : aoti_torch_device_type_cpu(),
          like.is_cuda() ? static_cast<int32_t>(like.get_device_index()) : 0,
          &handle) == AOTI_TORCH_SUCCESS;
  if (!is_there) {
    fail(op, what, " of shape ", shape_text(sizes), " can't be allocated on ", device_text(like),
         ": ", allocation_error(like));
  }
  const Tensor tensor(handle);
  if (!like.is_cuda()) {
    prefer_large_pages(tensor.mutable_data_ptr(),
                       tensor.numel() * static_cast<int64_t>(tensor.element_size()));
  }
  return tensor;
}

Tensor empty_contiguous(const char* op, const char* what, const Tensor& like,
                        const std::vector<int64_t>& sizes, ScalarType type) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step = saturating_product(step, sizes[i] > 1 ? sizes[i] : 1);
  }
  return empty_strided(op, what, like, sizes, strides, type);
}
}  // namespace visops
