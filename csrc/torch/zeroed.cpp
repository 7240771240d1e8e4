#include "torch/zeroed.h"

#include <cstdlib>
#include <limits>

#include "core/check.h"
#include "core/large_pages.h"

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
