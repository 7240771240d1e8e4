// Parts of adjacent channels that are loaded together, in whatever order is cheapest. Sums over
// samples don't mix channels, so only the store has to know.
//
// A bfloat16 is the upper half of a float: of a register of pairs, a shift gives the first of each
// and a mask the second. Widening them in order would take a shuffle more for each part.
#pragma once

#include <cstring>
#include <type_traits>

#include "core/element.h"
#include "cpu/simd/parts.h"

namespace visops {
namespace {

// How many of N parts are loaded together.
#if defined(__GNUC__)
template <class T, int N>
constexpr int kTogether = std::is_same<T, BFloat16>::value && N % 2 == 0 ? 2 : 1;
#else
template <class T, int N>
constexpr int kTogether = 1;
#endif

template <class T, class P>
VISOPS_ALWAYS_INLINE void load_together(const T* from, P (&parts)[1]) {
  parts[0] = load_part(from);
}
template <class T, class P>
VISOPS_ALWAYS_INLINE void store_together(T* to, const P (&parts)[1]) {
  store_part(to, parts[0]);
}

#if defined(__GNUC__)
// parts[0] gets the even channels, parts[1] the odd ones.
VISOPS_ALWAYS_INLINE void load_together(const BFloat16* from, Floats (&parts)[2]) {
  using Words = Register<uint32_t>::type;
  Words pairs;
  memcpy(&pairs, from, sizeof(pairs));
  const Words even = pairs << 16, odd = pairs & 0xffff0000u;
  memcpy(&parts[0], &even, sizeof(even));
  memcpy(&parts[1], &odd, sizeof(odd));
}

VISOPS_ALWAYS_INLINE void store_together(BFloat16* to, const Floats (&parts)[2]) {
  constexpr int kWidth = Floats::kWidth;
  float even[kWidth], odd[kWidth], both[2 * kWidth];
  parts[0].store(even);
  parts[1].store(odd);
  for (int i = 0; i < kWidth; ++i) {
    both[2 * i] = even[i];
    both[2 * i + 1] = odd[i];
  }
  store_part(to, Floats::load(both));
  store_part(to + kWidth, Floats::load(both + kWidth));
}
#endif

}  // namespace
}  // namespace visops
