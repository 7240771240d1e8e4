#include "torch/contiguous.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <torch/csrc/stable/macros.h>

#include "core/check.h"

namespace visops {

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

// New memory is mapped at first touch, 4 KiB at a time, which for a batch of images costs more than
// warping it. From 4 MiB on we ask for large pages, as NumPy does; a refusal is harmless.
void prefer_large_pages([[maybe_unused]] void* data, [[maybe_unused]] int64_t bytes) {
#if defined(__linux__)
  constexpr int64_t kPage = 4096, kWorthIt = int64_t{1} << 22;
  if (bytes < kWorthIt) return;
  const auto begin = (reinterpret_cast<uintptr_t>(data) + kPage - 1) & ~uintptr_t{kPage - 1};
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) & ~uintptr_t{kPage - 1};
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
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
