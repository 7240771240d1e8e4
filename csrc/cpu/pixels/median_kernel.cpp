// Medians of 3 x 3 and 5 x 5 values on the CPU.
//
// NOTE [ Small medians ]
// Forgetful selection: of the first N / 2 + 2 of N values, neither the least nor the greatest can
// be the median. Both are dropped and the next value is taken in, until three are left. Places are
// known when it is compiled, so it is a network of exchanges without a jump, and the loop over
// pixels is vectorized: a minimum and a maximum of 64 bytes at once. Neither order of summation nor
// rounding is involved. Source of the idea: D. E. Knuth, "The Art of Computer Programming", volume
// 3, section 5.3.3.
#include "core/pixels/median.h"

#include <cstring>
#include <type_traits>

#include "core/platform.h"

namespace visops {
namespace {

constexpr int kChunk = 64;

template <int begin, int end, class Each>
VISOPS_ALWAYS_INLINE void unrolled(const Each& each) {
  if constexpr (begin < end) {
    each(std::integral_constant<int, begin>());
    unrolled<begin + 1, end>(each);
  }
}

template <class T>
VISOPS_ALWAYS_INLINE void exchange(T& a, T& b) {
  const T less = a < b ? a : b;
  b = a < b ? b : a;
  a = less;
}

// The median of `count` values in v and those in `rest`, whose number is count - 3.
template <int count, class T>
VISOPS_ALWAYS_INLINE T select(T* v, const T* rest) {
  constexpr int half = count / 2;
  unrolled<0, half>([&](auto i) { exchange(v[i.value], v[count - 1 - i.value]); });
  unrolled<1, (count + 1) / 2>([&](auto i) { exchange(v[0], v[i.value]); });
  unrolled<half, count - 1>([&](auto i) { exchange(v[i.value], v[count - 1]); });
  if constexpr (count == 3) {
    return v[1];
  } else {
    v[0] = rest[0];
    return select<count - 1>(v, rest + 1);
  }
}

template <int side, class T>
VISOPS_ALWAYS_INLINE T median_at(const T* const (&rows)[side], int64_t x) {
  constexpr int count = side * side;
  T v[count];
  unrolled<0, count>([&](auto i) { v[i.value] = rows[i.value / side][x + i.value % side]; });
  return select<count / 2 + 2>(v, v + count / 2 + 2);
}

template <int side, class T>
void median_row(const MedianParams& p) {
  const T* rows[side];
  for (int k = 0; k < side; ++k) rows[k] = static_cast<const T*>(p.rows[k]);
  T* const to = static_cast<T*>(p.to);
  const auto chunk = [&](int64_t x) {
    T found[kChunk];
    for (int i = 0; i < kChunk; ++i) found[i] = median_at<side>(rows, x + i);
    std::memcpy(to + x, found, sizeof(found));
  };
  int64_t x = 0;
  for (; x + kChunk <= p.width; x += kChunk) chunk(x);
  if (x < p.width && p.width >= kChunk) return chunk(p.width - kChunk);
  for (; x < p.width; ++x) to[x] = median_at<side>(rows, x);
}

template <class T>
void median_rows(const MedianParams& p) {
  p.side == 3 ? median_row<3, T>(p) : median_row<5, T>(p);
}

void median_kernel(const MedianParams& p, int64_t, int64_t) {
  p.dtype == DType::kUInt8 ? median_rows<uint8_t>(p) : median_rows<float>(p);
}

const bool registered = median_stub.set(kIsaSlot, median_kernel);

}  // namespace
}  // namespace visops
