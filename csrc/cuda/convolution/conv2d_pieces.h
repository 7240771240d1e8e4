// What both products by matrix units share: which convolutions they take, and how those lie in
// pieces (NOTE [ Tiles for the matrix units ]).
#pragma once

#include "core/convolution/conv2d.h"
#include "core/convolution/conv2d_element.h"
#include "core/parts.h"
#include "cuda/gemm_tile.h"

namespace visops {
namespace {

// Padded images and indices of them stay within this; kOutside plus any of them is negative.
constexpr int64_t kMostGemmSize = int64_t{1} << 29;
constexpr int kOutside = -(1 << 30);
// Filled up with zeros, a run may get so many times as long, at most.
constexpr int64_t kMostFilling = 3;

// Pieces of a run of `count` numbers.
static inline int64_t gemm_pieces(Arithmetic kind, int64_t count) {
  return parts_of(count, 16 / element_size(kind));
}

// Whether matrix units are worth their filling of runs of `count` numbers: not one channel.
static inline bool fills_pieces(Arithmetic kind, int64_t count) {
  return count > 0 && gemm_pieces(kind, count) * 16 <= kMostFilling * count * element_size(kind);
}

static inline bool fits_gemm(const ConvSizes& s) {
  // Some outputs and kernel elements beyond the last are looked at.
  constexpr int64_t kBeyond = 8;
  return s.input + 2 * s.padding + (s.kernel + kBeyond) * s.dilation +
             (s.output + kBeyond) * s.stride <
         kMostGemmSize;
}

// Whether the numbers of a piece lie within 32 bits.
static inline bool fits_stride(int64_t stride) { return stride < int64_t{1} << 27; }

// Whether every piece of a map is 16 aligned bytes. Pieces are numbers along the dimension of
// stride `along`, which has `count` of them; `across` are the strides of two others.
static inline bool lies_in_pieces(const ConvMap& map, Arithmetic kind, int64_t count, int64_t along,
                                  int64_t across, int64_t across_too) {
  const int64_t numbers = 16 / element_size(kind);
  return along == 1 && count % numbers == 0 && across % numbers == 0 && across_too % numbers == 0 &&
         map.batch_stride % numbers == 0 && reinterpret_cast<uintptr_t>(map.data) % 16 == 0;
}

__device__ inline bool is_within(int index, int size) {
  return static_cast<unsigned>(index) < static_cast<unsigned>(size);
}

// One axis in 32 bits.
struct GemmAxis {
  int taps, first, step, tap_step, size, kernel_first, kernel_step;
};
__device__ inline GemmAxis gemm_axis(const ConvAxis& axis) {
  return {static_cast<int>(axis.taps),       static_cast<int>(axis.first),
          static_cast<int>(axis.step),       static_cast<int>(axis.tap_step),
          static_cast<int>(axis.size),       static_cast<int>(axis.kernel_first),
          static_cast<int>(axis.kernel_step)};
}

}  // namespace
}  // namespace visops
