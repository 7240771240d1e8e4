// Adjacent channels in registers: Floats for float32 sums, Vector<double> for float64, under the
// same names.
#pragma once

#include <type_traits>

#include "cpu/simd/floats.h"
#include "cpu/simd/vector.h"

namespace visops {
namespace {

template <class Acc>
using Part = std::conditional_t<std::is_same<Acc, double>::value, Vector<double>, Floats>;

// Channels of a Part.
template <class Acc>
constexpr int kPartCount = kVectorBytes / static_cast<int>(sizeof(Acc));
static_assert(kPartCount<float> == Floats::kWidth, "Floats and Vector fill the same registers");

VISOPS_ALWAYS_INLINE Floats repeated(float x) { return Floats(x); }
VISOPS_ALWAYS_INLINE Vector<double> repeated(double x) { return broadcast(x); }

template <class T>
VISOPS_ALWAYS_INLINE Floats load_part(const T* from) {
  return load_floats(from);
}
VISOPS_ALWAYS_INLINE Vector<double> load_part(const double* from) { return load_vector(from); }

template <class T>
VISOPS_ALWAYS_INLINE void store_part(T* to, const Floats& part) {
  const Floats pixels[1] = {part};
  store_pixels(to, pixels);
}
VISOPS_ALWAYS_INLINE void store_part(float* to, const Floats& part) { part.store(to); }
VISOPS_ALWAYS_INLINE void store_part(double* to, const Vector<double>& part) {
  store_vector(to, part);
}

// f(N, c): channels [c, c + N * kPartCount) as N parts, N a constant; returns the first channel
// that is in no part.
template <class Acc, class F>
VISOPS_ALWAYS_INLINE int64_t for_parts(int64_t channels, const F& f) {
  constexpr int64_t kCount = kPartCount<Acc>;
  int64_t c = 0;
  for (; c + 4 * kCount <= channels; c += 4 * kCount) f(std::integral_constant<int, 4>(), c);
  if (c + 2 * kCount <= channels) {
    f(std::integral_constant<int, 2>(), c);
    c += 2 * kCount;
  }
  if (c + kCount <= channels) {
    f(std::integral_constant<int, 1>(), c);
    c += kCount;
  }
  return c;
}

}  // namespace
}  // namespace visops
