// New tensors of any type and number of dimensions.
#pragma once

#include <vector>

#include "torch/tensor.h"

namespace visops {

// An uninitialised tensor on the device of `like`. Throws, naming op and `what`, where the size
// overflows or memory runs out.
Tensor empty_contiguous(const char* op, const char* what, const Tensor& like,
                        const std::vector<int64_t>& sizes, ScalarType type);

// The same with these strides, which must leave no gaps.
Tensor empty_strided(const char* op, const char* what, const Tensor& like,
                     const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                     ScalarType type);

}  // namespace visops
