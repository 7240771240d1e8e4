// New tensors of zeros in host memory.
#pragma once

#include <vector>

#include "torch/tensor.h"

namespace visops {

// Zeros in host memory, contiguous. Large ones are pages that the system hands out cleared, so they
// cost nothing until they are written or read. Throws, naming op and `what`, where memory runs out.
Tensor zeroed_on_host(const char* op, const char* what, const std::vector<int64_t>& sizes,
                      DType dtype);

}  // namespace visops
