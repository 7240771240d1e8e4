// Sums along a line of shared memory, several neighbours of it at a time.
//
// NOTE [ Windows ]
// A thread has sums of neighbouring elements, which share most of what they read. It takes several
// taps at a time, and has all that these meet in registers, a window: with eight taps of eight
// float32, six loads of 16 bytes for 64 products. A window that moved on would save two of them,
// and cost more to move from register to register. The first eight taps, or four, stand by
// themselves, so that compilers see what sums begin with. An element may be several numbers, of
// lines beside each other, for which the weights are the same. Every sum still takes its taps in
// ascending order, each product rounded before it is added.
//
// Shared memory serves eight lanes at once that read 16 bytes each, in as many banks. Threads are
// 32 bytes apart or more, so four of these lanes have another line, and lines are an odd number of
// 16 bytes apart.
#pragma once

#include "core/convolution/convolve2d.h"
#include "cuda/divisor.h"
#include "cuda/launch.h"

namespace visops {

template <class T, int count>
struct alignas(sizeof(T) * count < 16 ? sizeof(T) * count : 16) Several {
  T value[count];
};
template <class T, int count>
VISOPS_HOT_FN void add_product(Several<T, count>& sum, T weight, const Several<T, count>& value) {
  for (int i = 0; i < count; ++i) add_product(sum.value[i], weight, value.value[i]);
}

namespace {

constexpr int kQuad = 4;
template <class T>
using Quad = Several<T, kQuad>;

// Quads beyond the sums' own that a window of `taps` reads.
VISOPS_FN int64_t quads_beyond(int64_t taps) { return (taps + kQuad - 2) / kQuad; }

// A piece of add_window(): taps from number `k` on.
template <int taps, int count, class Weight, class Value, class Load>
__device__ VISOPS_ALWAYS_INLINE void add_taps(const Weight* weights, int k, const Load& load,
                                              Value (&sums)[count]) {
  constexpr int kNeeded = (count + taps - 1 + kQuad - 1) / kQuad * kQuad;
  Value window[kNeeded];
#pragma unroll
  for (int i = 0; i < kNeeded; i += kQuad) {
    const Quad<Value> quad = load(k + i);
    for (int j = 0; j < kQuad; ++j) window[i + j] = quad.value[j];
  }
#pragma unroll
  for (int first = 0; first < taps; first += kQuad) {
    const auto weight = *reinterpret_cast<const Quad<Weight>*>(weights + k + first);
#pragma unroll
    for (int j = 0; j < kQuad && first + j < taps; ++j) {
#pragma unroll
      for (int i = 0; i < count; ++i) add_product(sums[i], weight.value[j], window[first + j + i]);
    }
  }
}

// Adds weights[k] times element i + k to sums[i], for ascending k. load(at) has the four elements
// from number `at` on, a multiple of four. Weights are aligned; beyond the last their quad is not
// used.
template <int count, class Weight, class Value, class Load>
__device__ VISOPS_ALWAYS_INLINE void add_window(const Weight* weights, int taps, const Load& load,
                                                Value (&sums)[count]) {
  constexpr int kMost = 2 * kQuad;
  int k = 0;
  if (taps >= kMost) {
    add_taps<kMost>(weights, k, load, sums);
    k = kMost;
  } else if (taps >= kQuad) {
    add_taps<kQuad>(weights, k, load, sums);
    k = kQuad;
  }
#pragma unroll 1
  for (; k + kQuad <= taps; k += kQuad) add_taps<kQuad>(weights, k, load, sums);
  switch (taps & (kQuad - 1)) {
    case 1: return add_taps<1>(weights, k, load, sums);
    case 2: return add_taps<2>(weights, k, load, sums);
    case 3: return add_taps<3>(weights, k, load, sums);
  }
}

// A quad of each of `count` lines, `apart` elements from line to line.
template <int count, class Sum>
__device__ VISOPS_ALWAYS_INLINE Quad<Several<Sum, count>> quads_at(const Sum* from, int apart) {
  Quad<Several<Sum, count>> quads;
#pragma unroll
  for (int line = 0; line < count; ++line) {
    const auto own = *reinterpret_cast<const Quad<Sum>*>(from + line * apart);
    for (int i = 0; i < kQuad; ++i) quads.value[i].value[line] = own.value[i];
  }
  return quads;
}

// A warp's lanes, `across` of them for a line.
template <int across>
struct WarpPlace {
  int line, turn;  // turn: of the `across`

  __device__ explicit WarpPlace(int lane) {
    constexpr int kTogether = 4, kTurns = across / kTogether;
    turn = lane % kTogether + lane / 8 % kTurns * kTogether;
    line = lane / kTogether % 2 + lane / 8 / kTurns * 2;
  }
};

// Lines of shared memory that a block loads, two quads a thread, half a line apart. Where quads of
// the images are aligned, loads begin at one of them, up to three elements before the first that is
// needed: a quad is left in front of all lines for these.
struct QuadLines {
  Divisor<int32_t> half;  // quads of half a line
  int32_t at_once;        // lines
  int32_t stride;         // elements from a line to the next
  int32_t shift;          // elements before the first that is needed
};

// `first`: the place, in a row of the images, of the first element that is needed; `needed`: quads.
template <int threads, class Sum>
QuadLines quad_lines(int64_t first, int64_t needed, bool aligned) {
  QuadLines lines;
  lines.shift = aligned ? static_cast<int32_t>(first & (kQuad - 1)) : 0;
  const int64_t half = (needed + (lines.shift > 0 ? 1 : 0) + 1) / 2;
  lines.half = divisor_of<int32_t>(half);
  lines.at_once = static_cast<int32_t>(threads / half);
  constexpr int64_t kBetween = 16 / sizeof(Sum);
  lines.stride = static_cast<int32_t>(2 * half * kQuad + kBetween);
  return lines;
}

VISOPS_FN int64_t elements_of(const QuadLines& lines, int64_t count) {
  return count * lines.stride + kQuad;
}

// Loads `count` lines to shared memory. place(column) tells where the four elements from `column`
// on are, and load(place, row(line)) has those of a line.
template <class Sum, class Place, class Row, class Load>
__device__ void load_lines(const QuadLines& lines, int count, const Place& place, const Row& row,
                           const Load& load, Sum* to) {
  const int thread = static_cast<int>(threadIdx.x), shift = lines.shift;
  const int first = lines.half.divide(thread), at_once = lines.at_once;
  if (first >= at_once) return;
  const int column = (thread - first * lines.half.value) * kQuad - shift;
  const int apart = lines.half.value * kQuad, step = at_once * lines.stride;
  const auto left = place(column), right = place(column + apart);
  to += first * lines.stride + column;
  for (int line = first; line < count; line += at_once, to += step) {
    const auto from = row(line);
    const Quad<Sum> one = load(left, from), other = load(right, from);
    if (shift == 0) {
      *reinterpret_cast<Quad<Sum>*>(to) = one;
      *reinterpret_cast<Quad<Sum>*>(to + apart) = other;
    } else {
      for (int i = 0; i < kQuad; ++i) to[i] = one.value[i];
      for (int i = 0; i < kQuad; ++i) to[apart + i] = other.value[i];
    }
  }
}

// Stores a quad at to[at], of a row that has `left` elements from there on. nvcc splits a store
// whose address it doesn't see to be that of a whole structure.
template <class T, class Index>
__device__ void store_quad(const Quad<T>& quad, Index left, bool aligned, int64_t at, T* to) {
  if (aligned) {
    reinterpret_cast<Quad<T>*>(to)[static_cast<uint64_t>(at) / kQuad] = quad;
    return;
  }
  for (int i = 0; i < kQuad; ++i) {
    if (i < left) to[at + i] = quad.value[i];
  }
}

}  // namespace
}  // namespace visops
