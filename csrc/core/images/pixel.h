// One pixel of an image in plain scalar code: its taps, how they blend, and the derivatives.
//
// NOTE [ One pixel ]
// The arithmetic that every backend must reproduce bit for bit. CUDA kernels run it as it stands;
// CPU kernels run it at borders, and a vectorised copy elsewhere. Nothing here may be reassociated
// or contracted:
//
//     bilinear   t0 = a + wy (c - a),  t1 = b + wy (e - b),  out = t0 + wx (t1 - t0)     a b
//                d/dx = t1 - t0,  d/dy = (c - a) + wx ((e - b) - (c - a))                c e
//     bicubic    v_j = ((wy0 p0j + wy1 p1j) + wy2 p2j) + wy3 p3j
//                out = ((wx0 v0 + wx1 v1) + wx2 v2) + wx3 v3
//                d/dx is `out` with dwx for wx; d/dy is `out` with dwy for wy
//
// A tap beyond a constant border has the value `fill`. A pixel with no tap in the image is `fill`
// itself, not a blend of it (a blend rounds, and turns an infinite fill into NaN), and its
// derivatives are zero. So kernels may find such pixels by analysis.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/numbers/element.h"
#include "core/platform.h"

namespace visops {

// How images are sampled: interpolation weights, and padding beyond the border.

enum class Interpolation : int {
  kNearest,
  kBilinear,
  kBicubic,
  kLanczos  // a filter of antialias, and of nothing else
};
enum class Padding : int { kConstant, kReplicate, kReflect, kSymmetric, kCircular };

// The taps of an axis: how many, and where the first one is relative to floor(coordinate).
VISOPS_FN constexpr int tap_count(Interpolation mode) {
  return mode == Interpolation::kNearest ? 1 : mode == Interpolation::kBilinear ? 2 : 4;
}
VISOPS_FN constexpr int first_tap(Interpolation mode) {
  return mode == Interpolation::kBicubic ? -1 : 0;
}
// What samples without a filter where templates need something. Under Lanczos no sample does.
VISOPS_FN constexpr Interpolation tap_mode(Interpolation mode) {
  return mode == Interpolation::kLanczos ? Interpolation::kBicubic : mode;
}

// The index in [0, n) that stands for `i`, or -1 where constant padding supplies the value. n > 0.
VISOPS_FN int64_t pad_index(Padding padding, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  switch (padding) {
    case Padding::kConstant: return -1;
    case Padding::kReplicate: return i < 0 ? 0 : n - 1;
    case Padding::kReflect: {  // d c b | a b c d | c b a: the edge sample is not repeated
      if (n == 1) return 0;
      const int64_t period = 2 * (n - 1);
      const int64_t r = i % period;
      const int64_t m = r < 0 ? r + period : r;
      return m < n ? m : period - m;
    }
    case Padding::kSymmetric: {  // b a | a b c d | d c: the edge sample is repeated
      const int64_t period = 2 * n;
      const int64_t r = i % period;
      const int64_t m = r < 0 ? r + period : r;
      return m < n ? m : period - 1 - m;
    }
    case Padding::kCircular: {
      const int64_t r = i % n;
      return r < 0 ? r + n : r;
    }
  }
  return -1;
}

// Keys' cubic convolution with a = -0.75, as OpenCV and torch use it; t in [0, 1].
// At t = 0 the weights are exactly 0, 1, 0, 0. Plain expressions, no table, so that every backend
// rounds alike. V is float, double or a vector of floats.
template <class V>
VISOPS_FN void cubic_weights(V t, V w[4]) {
  const V one = V(1.0f), a = V(-0.75f);
  const V before = t + one, after = one - t;
  w[0] = ((a * before + V(3.75f)) * before - V(6.0f)) * before + V(3.0f);
  w[1] = (V(1.25f) * t - V(2.25f)) * t * t + one;
  w[2] = (V(1.25f) * after - V(2.25f)) * after * after + one;
  w[3] = ((one - w[0]) - w[1]) - w[2];
}

// d cubic_weights / dt.
template <class V>
VISOPS_FN void cubic_weight_derivatives(V t, V d[4]) {
  const V one = V(1.0f);
  const V before = t + one, after = one - t;
  d[0] = (V(-2.25f) * before + V(7.5f)) * before - V(6.0f);
  d[1] = (V(3.75f) * t - V(4.5f)) * t;
  d[2] = V(0.0f) - (V(3.75f) * after - V(4.5f)) * after;
  d[3] = ((V(0.0f) - d[0]) - d[1]) - d[2];
}

// Images in memory: strides, and `fill` as an element.

constexpr int64_t kMaxFill = 64;  // fronts cut a wider per-channel fill into groups of channels

struct Strides {
  int64_t batch, channel, row, column;  // in elements
};

// GPUs read images through the read-only path, so stores can't delay the loads behind them.
template <class T>
VISOPS_FN T load_readonly(const T* p) {
#if defined(__CUDA_ARCH__)
  return __ldg(p);
#else
  return *p;
#endif
}
VISOPS_FN Half load_readonly(const Half* p) { return Half{load_readonly(&p->bits)}; }
VISOPS_FN BFloat16 load_readonly(const BFloat16* p) { return BFloat16{load_readonly(&p->bits)}; }

// `fill` as an element of `dtype`: its bytes, lowest first.
VISOPS_FN uint64_t fill_bits(DType dtype, double fill) {
  const float single = static_cast<float>(fill);
  switch (dtype) {
    case DType::kBool: return fill != 0.0;
    case DType::kUInt8: return static_cast<uint64_t>(round_saturate(single, 0.0f, 255.0f));
    case DType::kUInt16: return static_cast<uint64_t>(round_saturate(single, 0.0f, 65535.0f));
    case DType::kInt16: return static_cast<uint64_t>(round_saturate(single, -32768.0f, 32767.0f));
    case DType::kInt8:
    case DType::kInt32:
    case DType::kInt64:  // check_fill() has checked the range
      return static_cast<uint64_t>(static_cast<int64_t>(rint(fill)));
    case DType::kFloat16: return float_to_half(single);
    case DType::kBFloat16: return float_to_bfloat16(single);
    case DType::kFloat32: return bit_cast<uint32_t>(single);
    case DType::kFloat64: return bit_cast<uint64_t>(fill);
  }
  return 0;
}

// The element whose bytes are the low bytes of `bits`. Little-endian only, like torch itself.
template <class T>
VISOPS_FN T element_from_bits(uint64_t bits) {
  T element;
  memcpy(&element, &bits, sizeof(T));
  return element;
}

// One axis of one pixel: the tap at or before the coordinate, and the fraction towards the next.
template <class Coord>
struct AxisSample {
  int64_t tap;
  Coord weight;  // in [0, 1]; 0 for nearest
};

// Splits v into integer and fraction. Beyond 2^40 pixels there is no image: saturate.
template <class Coord>
VISOPS_FN void split_coordinate(double v, int64_t* integer, Coord* fraction) {
  const double limit = 1099511627776.0;
  const bool sane = v > -limit && v < limit;
  const double whole = sane ? floor(v) : (v > 0.0 ? limit : -limit);
  *integer = static_cast<int64_t>(whole);
  *fraction = sane ? static_cast<Coord>(v - whole) : static_cast<Coord>(0);
}

// The taps of one pixel along one axis. Acc is float, or double for float64 images.
template <Interpolation mode, class Acc>
struct AxisTaps {
  static constexpr int kCount = tap_count(mode);
  int32_t index[kCount];  // inside [0, n), or -1: beyond a constant border
  Acc t;                  // the fraction from tap `-first_tap` towards the next
  Acc weight[kCount];

  VISOPS_DEVICE VISOPS_ALWAYS_INLINE bool outside() const {
    bool all = true;
    for (int i = 0; i < kCount; ++i) all = all && index[i] < 0;
    return all;
  }
};

template <Interpolation mode, class Acc>
VISOPS_FN void tap_weights(Acc t, Acc* weight) {
  if constexpr (mode == Interpolation::kNearest) {
    weight[0] = static_cast<Acc>(1);
  } else if constexpr (mode == Interpolation::kBilinear) {
    weight[0] = static_cast<Acc>(1) - t;
    weight[1] = t;
  } else {
    cubic_weights(t, weight);
  }
}

// n > 0, or constant padding.
template <Interpolation mode, class Acc>
VISOPS_FN AxisTaps<mode, Acc> axis_taps(const AxisSample<Acc>& sample, Padding padding, int64_t n) {
  constexpr int kCount = tap_count(mode);
  AxisTaps<mode, Acc> taps;
  taps.t = sample.weight;
  tap_weights<mode>(sample.weight, taps.weight);
  const int64_t first = sample.tap + first_tap(mode);
  if (first >= 0 && first + kCount <= n) {
    for (int i = 0; i < kCount; ++i) taps.index[i] = static_cast<int32_t>(first) + i;
  } else {
    for (int i = 0; i < kCount; ++i) {
      taps.index[i] = static_cast<int32_t>(pad_index(padding, first + i, n));
    }
  }
  return taps;
}

template <Interpolation mode, class Acc>
struct PixelTaps {
  AxisTaps<mode, Acc> y, x;

  VISOPS_DEVICE VISOPS_ALWAYS_INLINE bool outside() const { return y.outside() || x.outside(); }
};

// The element at tap (i, j), which must not be fill.
template <class T, Interpolation mode, class Acc>
VISOPS_FN Acc load_tap(const T* plane, const Strides& stride, const PixelTaps<mode, Acc>& taps,
                       int i, int j) {
  const T element =
      load_readonly(plane + taps.y.index[i] * stride.row + taps.x.index[j] * stride.column);
  return static_cast<Acc>(load_element(&element));
}

// The taps' values in one plane (image + batch and channel offsets): value[row][column].
template <class T, Interpolation mode, class Acc>
VISOPS_FN void load_taps(const T* plane, const Strides& stride, const PixelTaps<mode, Acc>& taps,
                         Acc fill, Acc value[tap_count(mode)][tap_count(mode)]) {
  constexpr int kCount = tap_count(mode);
  for (int i = 0; i < kCount; ++i) {
    for (int j = 0; j < kCount; ++j) {
      value[i][j] = fill;
      if (taps.y.index[i] >= 0 && taps.x.index[j] >= 0) {
        value[i][j] = load_tap(plane, stride, taps, i, j);
      }
    }
  }
}

template <class Acc>
VISOPS_FN Acc weighted_sum(const Acc w[4], Acc v0, Acc v1, Acc v2, Acc v3) {
  return ((w[0] * v0 + w[1] * v1) + w[2] * v2) + w[3] * v3;
}

template <class Acc>
VISOPS_FN void columns_weighted(const Acc w[4], const Acc p[4][4], Acc v[4]) {
  for (int j = 0; j < 4; ++j) v[j] = weighted_sum(w, p[0][j], p[1][j], p[2][j], p[3][j]);
}

// Bilinear and bicubic; nearest copies elements instead.
template <Interpolation mode, class Acc>
VISOPS_FN Acc blend_taps(const PixelTaps<mode, Acc>& taps,
                         const Acc p[tap_count(mode)][tap_count(mode)]) {
  static_assert(mode != Interpolation::kNearest, "nearest copies");
  if constexpr (mode == Interpolation::kBilinear) {
    const Acc t0 = p[0][0] + taps.y.t * (p[1][0] - p[0][0]);
    const Acc t1 = p[0][1] + taps.y.t * (p[1][1] - p[0][1]);
    return t0 + taps.x.t * (t1 - t0);
  } else {
    Acc v[4];
    columns_weighted(taps.y.weight, p, v);
    return weighted_sum(taps.x.weight, v[0], v[1], v[2], v[3]);
  }
}

// The value of one channel. The pixel must not be outside().
template <class T, Interpolation mode, class Acc>
VISOPS_FN Acc sample_pixel(const T* plane, const Strides& stride, const PixelTaps<mode, Acc>& taps,
                           Acc fill) {
  Acc value[tap_count(mode)][tap_count(mode)];
  load_taps(plane, stride, taps, fill, value);
  return blend_taps<mode>(taps, value);
}

template <class Acc>
struct PixelGradient {
  Acc x, y;
};

// d blend_taps / d source coordinates.
template <Interpolation mode, class Acc>
VISOPS_FN PixelGradient<Acc> differentiate_taps(const PixelTaps<mode, Acc>& taps,
                                                const Acc p[tap_count(mode)][tap_count(mode)]) {
  static_assert(mode != Interpolation::kNearest, "nearest has no derivative");
  PixelGradient<Acc> d;
  if constexpr (mode == Interpolation::kBilinear) {
    const Acc left = p[1][0] - p[0][0], right = p[1][1] - p[0][1];
    const Acc t0 = p[0][0] + taps.y.t * left;
    const Acc t1 = p[0][1] + taps.y.t * right;
    d.x = t1 - t0;
    d.y = left + taps.x.t * (right - left);
  } else {
    Acc slope[4], v[4];
    columns_weighted(taps.y.weight, p, v);
    cubic_weight_derivatives(taps.x.t, slope);
    d.x = weighted_sum(slope, v[0], v[1], v[2], v[3]);
    cubic_weight_derivatives(taps.y.t, slope);
    columns_weighted(slope, p, v);
    d.y = weighted_sum(taps.x.weight, v[0], v[1], v[2], v[3]);
  }
  return d;
}

// d sample_pixel / d source coordinates. The pixel must not be outside().
template <class T, Interpolation mode, class Acc>
VISOPS_FN PixelGradient<Acc> differentiate_pixel(const T* plane, const Strides& stride,
                                                 const PixelTaps<mode, Acc>& taps, Acc fill) {
  Acc p[tap_count(mode)][tap_count(mode)];
  load_taps(plane, stride, taps, fill, p);
  return differentiate_taps(taps, p);
}

// Elements somewhere else, by address and strides.

struct StridedData {
  void* address;
  std::array<int64_t, 4> strides;  // in elements
};

constexpr int kOnCpu = -1;

// A strided tensor that wants no gradient.
struct TensorView {
  void* data;
  DType dtype;
  int device = kOnCpu;  // or the number of a CUDA device
  int rank;
  std::array<int64_t, 5> shape, strides;  // in elements

  int64_t side(int from_end) const { return shape[static_cast<size_t>(rank - from_end)]; }
  int64_t stride(int from_end) const { return strides[static_cast<size_t>(rank - from_end)]; }
  bool is_contiguous() const {
    for (int d = 1; d <= rank; ++d) {
      if (side(d) == 0) return true;
    }
    int64_t expected = 1;
    for (int d = 1; d <= rank; ++d) {
      if (side(d) != 1 && stride(d) != expected) return false;
      expected *= side(d);
    }
    return true;
  }
};

}  // namespace visops
