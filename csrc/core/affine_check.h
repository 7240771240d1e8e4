// Arguments of the affine ops, as both fronts check them.
#pragma once

#include <string_view>

#include "core/affine.h"

namespace visops {

Interpolation parse_interpolation(const char* op, std::string_view name);
Padding parse_padding(const char* op, std::string_view name);

// Sizes, dtype and mode, fill. Reads no tensor data, allocates nothing.
void check_affine(const char* op, const AffineParams& params);

// Values of `fill` within what the dtype holds.
void check_fill(const char* op, DType dtype, const double* fill, int64_t count);

// Every matrix finite and, where it is to be inverted, not singular. Reads host memory.
void check_matrices(const char* op, const AffineParams& params);

const char* dtype_name(DType dtype);

}  // namespace visops
