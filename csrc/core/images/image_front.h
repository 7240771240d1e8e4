// How fronts parse and check the options of image operators.
#pragma once

#include <string_view>

#include "core/images/pixel.h"

namespace visops {

Interpolation parse_interpolation(const char* op, std::string_view name);
// The same where antialias takes Lanczos' filter, too.
Interpolation parse_sampling(const char* op, std::string_view name);
Padding parse_padding(const char* op, std::string_view name);

// Requires the values of `fill`, an argument of this name, to be within the dtype's range.
void check_fill(const char* op, DType dtype, const double* fill, int64_t count,
                const char* name = "fill");

}  // namespace visops
