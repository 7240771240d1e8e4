// What fronts do with the options of an image operator before a kernel sees them.
#pragma once

#include <string_view>

#include "core/image.h"

namespace visops {

Interpolation parse_interpolation(const char* op, std::string_view name);
Padding parse_padding(const char* op, std::string_view name);

// Values of `fill` within what the dtype holds.
void check_fill(const char* op, DType dtype, const double* fill, int64_t count);

}  // namespace visops
