// The element that extends an input, for operators that take every type.
#pragma once

#include <optional>

#include "torch/tensor.h"

namespace visops {

// Copies the bytes of `fill`; zeros if there is none. Throws unless it is one CPU element of the
// input's dtype.
void take_fill(const char* op, const Tensor& input, const std::optional<Tensor>& fill,
               unsigned char (&element)[kLargestElement]);

}  // namespace visops
