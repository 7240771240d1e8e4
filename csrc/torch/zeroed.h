// New tensors of zeros in host memory, and how large results get their pages.
#pragma once

#include <vector>

#include "torch/tensor.h"

namespace visops {

// Asks for large pages for new memory.
void prefer_large_pages(void* data, int64_t bytes);

// Zeros in host memory, contiguous. Large ones are pages that the system hands out cleared, so they
// cost nothing until they are written or read. Throws, naming op and `what`, where memory runs out.
Tensor zeroed_on_host(const char* op, const char* what, const std::vector<int64_t>& sizes,
                      DType dtype);

}  // namespace visops
