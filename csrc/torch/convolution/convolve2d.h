// What the torch fronts of convolve2d share.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/convolution/convolve2d.h"
#include "torch/tensor.h"

namespace visops {

// Two tensors of planes with leading dimensions that broadcast.
struct ConvolveOperands {
  Tensor first, second;          // copies where they have too many dimensions for ConvolveBatch
  std::vector<int64_t> leading;  // broadcast
  ConvolveBatch batch;
};

// Throws unless both have planes, share dtype and device, and broadcast.
ConvolveOperands convolve_operands(const char* op, const char* first_name, const Tensor& first,
                                   const char* second_name, const Tensor& second);

// Throws for dtypes that can't be convolved.
Arithmetic convolve_arithmetic(const char* op, const char* name, const Tensor& tensor);

ConvolvePlane plane_of(const Tensor& tensor);

std::pair<int64_t, int64_t> checked_pair(const char* op, const char* name,
                                         const std::vector<int64_t>& values);

// Takes the element that extends the input; throws if there is one and the boundary ignores it.
void set_fill(const char* op, const Tensor& input, const std::optional<Tensor>& fill,
              Padding boundary, unsigned char (&element)[kLargestElement]);

}  // namespace visops
