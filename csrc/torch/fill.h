// The element that lies beyond an input, for operators that take every type of element.
#pragma once

#include <optional>

#include "torch/tensor.h"

namespace visops {

// The bytes of `fill`, zeros where there is none. Throws unless it is one element on the CPU, of
// the type of `input`.
void take_fill(const char* op, const Tensor& input, const std::optional<Tensor>& fill,
               unsigned char (&element)[kLargestElement]);

}  // namespace visops
