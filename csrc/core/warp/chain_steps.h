// What the files of a chain's steps share.
#pragma once

#include <cmath>

#include "core/warp/chain.h"

namespace visops {

constexpr double kPi = 3.14159265358979323846;

// Those of the C library that Python's math module calls. A compiler that sees both cos(x) and
// sin(x) would call sincos(x) instead, which need not round alike.
using ElementaryFunction = double (*)(double);
static const volatile ElementaryFunction cosine = std::cos, sine = std::sin;

static inline double between(double u, double low, double high) { return low + u * (high - low); }

// Steps of chain_colors.cpp.
bool color_jitter(const ChainStep& step, Uniforms& uniforms, Draft& draft);
bool grayscale(const ChainStep& step, Uniforms& uniforms, Draft& draft);

}  // namespace visops
