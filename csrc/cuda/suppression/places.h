// Where candidates lie: bounds of neighbours, and codes that sort candidates by place.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/box.h"
#include "cuda/launch.h"
#include "cuda/suppression/ordered_bits.h"

namespace visops {
namespace {

// Bounds that nothing meets.
template <class Acc>
__device__ inline Box<Acc> nothing() {
  const auto inf = static_cast<Acc>(INFINITY);
  return {inf, inf, -inf, -inf, 0};
}

// Whether two things with x1, y1, x2 and y2 overlap by more than an edge.
template <class One, class Other>
__device__ inline bool bounds_meet(const One& a, const Other& b) {
  return (a.x1 < b.x2) & (b.x1 < a.x2) & (a.y1 < b.y2) & (b.y1 < a.y2);
}

// Bounds of what all lanes of a warp have.
template <class Acc>
__device__ inline Box<Acc> bounds_of_warp(Box<Acc> bounds) {
  for (unsigned step = 16; step != 0; step /= 2) {
    const Acc x1 = __shfl_xor_sync(0xffffffffu, bounds.x1, step);
    const Acc y1 = __shfl_xor_sync(0xffffffffu, bounds.y1, step);
    const Acc x2 = __shfl_xor_sync(0xffffffffu, bounds.x2, step);
    const Acc y2 = __shfl_xor_sync(0xffffffffu, bounds.y2, step);
    bounds.x1 = x1 < bounds.x1 ? x1 : bounds.x1;
    bounds.y1 = y1 < bounds.y1 ? y1 : bounds.y1;
    bounds.x2 = x2 > bounds.x2 ? x2 : bounds.x2;
    bounds.y2 = y2 > bounds.y2 ? y2 : bounds.y2;
  }
  return bounds;
}

// How far along Hilbert's curve the cell (x, y) of 2^16 x 2^16 lies.
VISOPS_FN uint32_t position_on_curve(uint32_t x, uint32_t y) {
  uint32_t position = 0;
  for (uint32_t side = 1u << 15; side != 0; side /= 2) {
    const bool right = (x & side) != 0, lower = (y & side) != 0;
    position = position * 4 + (right ? (lower ? 2 : 3) : (lower ? 1 : 0));
    if (lower) continue;
    const uint32_t turned = right ? ~y : y;  // lower bits are those within the quarter
    y = right ? ~x : x;
    x = turned;
  }
  return position;
}

// Alike for boxes near each other, whatever their scale: the place of a cell in which centres have
// the same sign, exponent and first seven digits.
template <class Acc>
__device__ inline uint32_t place_of(const Box<Acc>& bounds) {
  const uint32_t x = ordered_bits(static_cast<float>(bounds.x1 + bounds.x2)) >> 16;
  const uint32_t y = ordered_bits(static_cast<float>(bounds.y1 + bounds.y2)) >> 16;
  return position_on_curve(x, y);
}

// As a signed number of the same order.
__device__ inline int32_t code_of(uint32_t place) { return bit_cast<int32_t>(place ^ 0x80000000u); }

}  // namespace
}  // namespace visops
