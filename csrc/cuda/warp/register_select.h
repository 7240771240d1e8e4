// One of a tap's four numbers.
#pragma once

#include "cuda/launch.h"

namespace visops {
namespace {

// w[k], from registers, which can't be indexed.
template <class Number>
__device__ Number pick(const Number (&w)[4], int k) {
  const Number low = k == 0 ? w[0] : w[1], high = k == 2 ? w[2] : w[3];
  return k < 2 ? low : high;
}

}  // namespace
}  // namespace visops
