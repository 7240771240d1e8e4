// Sums along a line of shared memory, four neighbours of it at a time.
//
// NOTE [ Windows ]
// A thread has sums of neighbouring elements, which share most of what they read. It keeps that in
// registers, a window, and moves it on by four taps with one load of 16 bytes for the values and
// one for the weights: of float32, two loads for 16 products. Every sum still takes its taps in
// ascending order, each product rounded before it is added.
#pragma once

#include "core/convolution/convolve2d_element.h"
#include "cuda/divisor.h"
#include "cuda/launch.h"

namespace visops {
namespace {

constexpr int kQuad = 4;

template <class T>
struct alignas(sizeof(T) * kQuad < 16 ? sizeof(T) * kQuad : 16) Quad {
  T value[kQuad];
};

// Quads beyond the sums' own that a window of `taps` reads.
VISOPS_FN int64_t quads_beyond(int64_t taps) { return (taps + kQuad - 2) / kQuad; }

template <int taps, int count, class Sum>
__device__ VISOPS_ALWAYS_INLINE void add_products(const Quad<Sum>& weights, const Sum* window,
                                                  Sum (&sums)[count]) {
#pragma unroll
  for (int k = 0; k < taps; ++k) {
#pragma unroll
    for (int i = 0; i < count; ++i) add_product(sums[i], weights.value[k], window[i + k]);
  }
}

// Adds weights[k] times element i + k to sums[i], for ascending k. load(at) has elements from
// number `at` on, a multiple of four. Weights are aligned; beyond the last their quad is not used.
template <int count, class Sum, class Load>
__device__ VISOPS_ALWAYS_INLINE void add_window(const Sum* weights, int taps, const Load& load,
                                                Sum (&sums)[count]) {
  Sum window[count + kQuad] = {};
  const auto read = [&](int to, int at) {
    const Quad<Sum> quad = load(at);
    for (int i = 0; i < kQuad; ++i) window[to + i] = quad.value[i];
  };
#pragma unroll
  for (int i = 0; i < count; i += kQuad) read(i, i);
  int k = 0;
  const auto weight = [&] { return *reinterpret_cast<const Quad<Sum>*>(weights + k); };
#pragma unroll 2  // registers are renamed, not moved
  for (; k + kQuad <= taps; k += kQuad) {
    read(count, k + count);
    add_products<kQuad>(weight(), window, sums);
#pragma unroll
    for (int i = 0; i < count; ++i) window[i] = window[i + kQuad];
  }
  const int rest = taps - k;
  if (rest == 0) return;
  if (rest == 1) return add_products<1>(weight(), window, sums);
  read(count, k + count);
  if (rest == 2) return add_products<2>(weight(), window, sums);
  add_products<3>(weight(), window, sums);
}

// Stores rows of values to shared memory, quads after quads. load(row, column) has a row's quad
// from `column` on. Called by all threads of a block of `threads`.
template <int threads, class Sum, class Load>
__device__ void store_quads(int rows, const Divisor<int32_t>& quads, const Load& load, Sum* to) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * quads.value; i += threads) {
    const int row = quads.divide(i);
    reinterpret_cast<Quad<Sum>*>(to)[i] = load(row, (i - row * quads.value) * kQuad);
  }
}

}  // namespace
}  // namespace visops
