// New tensors of any type and number of dimensions, zeros, and the element that extends an input.
#pragma once

#include <optional>
#include <vector>

#include "torch/tensor.h"

namespace visops {

// Zeros in host memory, contiguous. Large ones are pages that the system hands out cleared, so they
// cost nothing until they are written or read. Throws, naming op and `what`, where memory runs out.
Tensor zeroed_on_host(const char* op, const char* what, const std::vector<int64_t>& sizes,
                      DType dtype);

// Copies the bytes of `fill`; zeros if there is none. Throws unless it is one CPU element of the
// input's dtype.
void take_fill(const char* op, const Tensor& input, const std::optional<Tensor>& fill,
               unsigned char (&element)[kLargestElement]);

// An uninitialised tensor on the device of `like`. Throws, naming op and `what`, where the size
// overflows or memory runs out.
Tensor empty_contiguous(const char* op, const char* what, const Tensor& like,
                        const std::vector<int64_t>& sizes, ScalarType type);

// The same with these strides, which must leave no gaps.
Tensor empty_strided(const char* op, const char* what, const Tensor& like,
                     const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                     ScalarType type);

}  // namespace visops
