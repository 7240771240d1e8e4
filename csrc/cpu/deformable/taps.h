// The four pixels around a sample, and sums over their channels.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/deformable/points.h"
#include "core/numbers/element.h"
#include "core/numbers/lane_sum.h"
#include "cpu/simd/floats.h"
#include "cpu/simd/parts.h"

namespace visops {
namespace {

// The taps of a sample that counts; `first` is the tap 00, which may not exist. Those outside the
// map are `zeros`.
template <class T>
VISOPS_ALWAYS_INLINE void find_taps(int32_t taps, const T* first, int64_t column_step,
                                    int64_t row_step, const T* zeros, const T* (&tap)[4]) {
  tap[0] = first;
  tap[1] = first + column_step;
  tap[2] = first + row_step;
  tap[3] = first + row_step + column_step;
  if (taps == kAllTaps) return;
  for (int k = 0; k < 4; ++k) {
    if ((taps >> k & 1) == 0) tap[k] = zeros;
  }
}

// The lanes of one tap's sum (NOTE [ Lane sums ]); `kLaneParts` vectors.
template <class Acc>
constexpr int kLaneParts = static_cast<int>(kSumLanes) / kPartCount<Acc>;

template <class Acc>
VISOPS_ALWAYS_INLINE Part<Acc> halve_to_one(Part<Acc> (&lanes)[kLaneParts<Acc>]) {
  VISOPS_UNROLL
  for (int half = kLaneParts<Acc> / 2; half > 0; half /= 2) {
    for (int n = 0; n < half; ++n) lanes[n] = lanes[n] + lanes[n + half];
  }
  return lanes[0];
}

// The sums of Floats' lanes for four taps.
VISOPS_ALWAYS_INLINE void sum_taps(const Floats (&tap)[4], float* sum) {
  constexpr int kQuads = Floats::kWidth / 4;
  Quad column[4];
  for (int k = 0; k < 4; ++k) {
    alignas(64) float room[Floats::kWidth];
    tap[k].store(room);
    Quad part[kQuads];
    for (int i = 0; i < kQuads; ++i) part[i] = Quad::load(room + 4 * i);
    VISOPS_UNROLL
    for (int half = kQuads / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) part[i] = part[i] + part[i + half];
    }
    column[k] = part[0];
  }
  transpose(column);  // now a Quad is one lane of each tap
  ((column[0] + column[2]) + (column[1] + column[3])).store(sum);
}

VISOPS_ALWAYS_INLINE void sum_taps(const Vector<double> (&tap)[4], double* sum) {
  constexpr int kCount = kPartCount<double>;
  for (int k = 0; k < 4; ++k) {
    double room[kCount];
    store_part(room, tap[k]);
    for (int half = kCount / 2; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) room[l] += room[l + half];
    }
    sum[k] = room[0];
  }
}

// Channels [c, channels), fewer than kSumLanes.
template <class T, class G, class Acc>
VISOPS_ALWAYS_INLINE void add_rest_of_products(const T* values, const G* grad, int64_t c,
                                               int64_t channels,
                                               Part<Acc> (&lanes)[kLaneParts<Acc>]) {
  constexpr int kCount = kPartCount<Acc>;
  int n = 0;
  for (; c + kCount <= channels; c += kCount, ++n) {
    lanes[n] = lanes[n] + load_part(grad + c) * load_part(values + c);
  }
  if (c == channels) return;
  Acc room[kCount];
  store_part(room, lanes[n]);
  for (int l = 0; c < channels; ++c, ++l) {
    room[l] += load_element(grad + c) * load_element(values + c);
  }
  lanes[n] = load_part(room);
}

// What two taps' products with the gradient leave in one vector of lanes each.
template <class Acc, class T, class G>
VISOPS_ALWAYS_INLINE void add_products(const T* const* tap, const G* grad, int64_t channels,
                                       Part<Acc>* products) {
  constexpr int kParts = kLaneParts<Acc>, kCount = kPartCount<Acc>;
  Part<Acc> first[kParts], second[kParts];
  if (channels < kSumLanes) {
    for (int n = 0; n < kParts; ++n) first[n] = second[n] = repeated(static_cast<Acc>(0));
    add_rest_of_products<T, G, Acc>(tap[0], grad, 0, channels, first);
    add_rest_of_products<T, G, Acc>(tap[1], grad, 0, channels, second);
  } else {
    VISOPS_UNROLL
    for (int n = 0; n < kParts; ++n) {
      const Part<Acc> g = load_part(grad + n * kCount);
      first[n] = g * load_part(tap[0] + n * kCount);
      second[n] = g * load_part(tap[1] + n * kCount);
    }
    int64_t c = kSumLanes;
    for (; c + kSumLanes <= channels; c += kSumLanes) {
      VISOPS_UNROLL
      for (int n = 0; n < kParts; ++n) {
        const Part<Acc> g = load_part(grad + c + n * kCount);
        first[n] = first[n] + g * load_part(tap[0] + c + n * kCount);
        second[n] = second[n] + g * load_part(tap[1] + c + n * kCount);
      }
    }
    if (c < channels) {
      add_rest_of_products<T, G, Acc>(tap[0], grad, c, channels, first);
      add_rest_of_products<T, G, Acc>(tap[1], grad, c, channels, second);
    }
  }
  products[0] = halve_to_one<Acc>(first);
  products[1] = halve_to_one<Acc>(second);
}

// The sums over channels of gradient times value, for each of four taps; 0 for those outside, even
// where a gradient is infinite.
template <class Acc, class T, class G>
VISOPS_ALWAYS_INLINE void sum_products(int32_t taps, const T* const (&tap)[4], const G* grad,
                                       int64_t channels, Acc* sum) {
  Part<Acc> products[4];
  for (int k = 0; k < 4; k += 2) add_products<Acc>(tap + k, grad, channels, products + k);
  sum_taps(products, sum);
  if (taps == kAllTaps) return;
  for (int k = 0; k < 4; ++k) {
    if ((taps >> k & 1) == 0) sum[k] = static_cast<Acc>(0);
  }
}

// Numbers of tensors that lie beside the sampled maps: locations, weights and their gradients. They
// are float64 where the maps are, and otherwise of any narrower type.

template <class T, class Acc>
VISOPS_ALWAYS_INLINE void read_numbers(const void* from, int64_t first, int64_t count,
                                       Acc* VISOPS_RESTRICT to) {
  const T* numbers = static_cast<const T*>(from) + first;
  int64_t i = 0;
  if constexpr (!std::is_same<T, double>::value) {
    for (; i + Floats::kWidth <= count; i += Floats::kWidth) load_floats(numbers + i).store(to + i);
  }
  for (; i < count; ++i) to[i] = load_element(numbers + i);
}

// Numbers [first, first + count) of a tensor.
inline void read_numbers(const void* from, DType dtype, int64_t first, int64_t count, float* to) {
  if (dtype == DType::kFloat32) return read_numbers<float>(from, first, count, to);
  if (dtype == DType::kFloat16) return read_numbers<Half>(from, first, count, to);
  read_numbers<BFloat16>(from, first, count, to);
}
inline void read_numbers(const void* from, DType, int64_t first, int64_t count, double* to) {
  read_numbers<double>(from, first, count, to);
}

template <class T, class Acc>
VISOPS_ALWAYS_INLINE void write_numbers(const Acc* from, int64_t count, void* to, int64_t at) {
  T* numbers = static_cast<T*>(to) + at;
  for (int64_t i = 0; i < count; ++i) store_element(numbers + i, from[i]);
}

// Writes numbers [at, at + count) of a tensor.
inline void write_numbers(const float* from, int64_t count, void* to, DType dtype, int64_t at) {
  if (dtype == DType::kFloat32) return write_numbers<float>(from, count, to, at);
  if (dtype == DType::kFloat16) return write_numbers<Half>(from, count, to, at);
  write_numbers<BFloat16>(from, count, to, at);
}
inline void write_numbers(const double* from, int64_t count, void* to, DType, int64_t at) {
  write_numbers<double>(from, count, to, at);
}

}  // namespace
}  // namespace visops
