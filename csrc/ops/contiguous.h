// Fresh contiguous memory of any type and number of dimensions.
#pragma once

#include <vector>

#include "ops/tensor.h"

namespace visops {

// An uninitialised tensor on the device of `like`. Throws, naming op and what it was to be, where
// the size overflows or memory runs out.
Tensor empty_contiguous(const char* op, const char* what, const Tensor& like,
                        const std::vector<int64_t>& sizes, ScalarType type);

// Fresh memory is mapped at first touch, 4 KiB at a time: for a batch of images that costs more
// than the warp. From 4 MiB on, as NumPy does it, ask for large pages; a refusal changes nothing.
void prefer_large_pages(void* data, int64_t bytes);

}  // namespace visops
