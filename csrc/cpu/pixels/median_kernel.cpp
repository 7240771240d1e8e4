// Medians of 3 x 3 to 7 x 7 values on the CPU.
//
// NOTE [ Small medians on the CPU ]
// The network of NOTE [ Small medians ] (core/pixels/filters/median.h), in a loop over
// pixels that is vectorized: a minimum and a maximum of 64 bytes at once. Where it compares orders,
// those of a chunk are found first. Bytes of 3 x 3 take less: columns are sorted once for all three
// squares that they are in. The median of a square is that of the greatest of the least, the median
// of the medians and the least of the greatest.
#include "core/pixels/filters/median.h"

#include <cstring>

namespace visops {
namespace {

constexpr int kChunk = kMedianChunk;

template <int side, class T>
VISOPS_ALWAYS_INLINE T median_at(const T* const (&rows)[side], int64_t x) {
  constexpr int count = side * side;
  T v[count];
  unrolled<0, count>([&](auto i) { v[i.value] = rows[i.value / side][x + i.value % side]; });
  return median_of_square<side>(v);
}

// The medians from x on.
template <int side, int kCount, class T>
VISOPS_ALWAYS_INLINE void some_medians(const T* const (&rows)[side], int64_t x,
                                       T (&found)[kCount]) {
  if constexpr (kMedianByOrder<side, T>) {
    uint32_t own[side][kCount + side - 1], orders[kCount];
    const uint32_t* lines[side];
    for (int k = 0; k < side; ++k) {
      for (int i = 0; i < kCount + side - 1; ++i) own[k][i] = order_of(rows[k][x + i]);
      lines[k] = own[k];
    }
    for (int i = 0; i < kCount; ++i) orders[i] = median_at<side>(lines, i);
    for (int i = 0; i < kCount; ++i) found[i] = value_of_order<T>(orders[i]);
  } else {
    for (int i = 0; i < kCount; ++i) found[i] = median_at<side>(rows, x + i);
  }
}

template <int side, class T>
void median_row(const MedianParams& p) {
  const T* rows[side];
  for (int k = 0; k < side; ++k) rows[k] = static_cast<const T*>(p.rows[k]);
  T* const to = static_cast<T*>(p.to);
  const auto chunk = [&](int64_t x) {
    T found[kChunk];
    some_medians<side, kChunk>(rows, x, found);
    std::memcpy(to + x, found, sizeof(found));
  };
  int64_t x = 0;
  for (; x + kChunk <= p.width; x += kChunk) chunk(x);
  if (x < p.width && p.width >= kChunk) return chunk(p.width - kChunk);
  for (; x < p.width; ++x) {
    T found[1];
    some_medians<side, 1>(rows, x, found);
    to[x] = found[0];
  }
}

VISOPS_ALWAYS_INLINE uint8_t lesser(uint8_t a, uint8_t b) { return a < b ? a : b; }
VISOPS_ALWAYS_INLINE uint8_t greater(uint8_t a, uint8_t b) { return a < b ? b : a; }
VISOPS_ALWAYS_INLINE uint8_t median(uint8_t a, uint8_t b, uint8_t c) {
  return greater(lesser(a, b), lesser(greater(a, b), c));
}

void byte_medians_of_three(const MedianParams& p) {
  constexpr int kColumns = 1024;
  uint8_t low[kColumns + 2 * kChunk], middle[kColumns + 2 * kChunk], high[kColumns + 2 * kChunk];
  for (int64_t first = 0; first < p.width; first += kColumns) {
    const int64_t left = p.width - first;
    const int count = left < kColumns ? static_cast<int>(left) : kColumns;
    const uint8_t* rows[3];
    for (int k = 0; k < 3; ++k) rows[k] = static_cast<const uint8_t*>(p.rows[k]) + first;
    for (int x = 0; x < count + 2; x += kChunk) {
      for (int i = x; i < x + kChunk; ++i) {
        const uint8_t a = rows[0][i], b = rows[1][i], c = rows[2][i];
        low[i] = lesser(lesser(a, b), c);
        middle[i] = median(a, b, c);
        high[i] = greater(greater(a, b), c);
      }
    }
    uint8_t* const to = static_cast<uint8_t*>(p.to) + first;
    for (int x = 0; x < count; x += kChunk) {
      uint8_t found[kChunk];
      for (int i = 0; i < kChunk; ++i) {
        const int at = x + i;
        found[i] = median(greater(greater(low[at], low[at + 1]), low[at + 2]),
                          median(middle[at], middle[at + 1], middle[at + 2]),
                          lesser(lesser(high[at], high[at + 1]), high[at + 2]));
      }
      if (x + kChunk <= count) {  // of a size that needs no call
        std::memcpy(to + x, found, sizeof(found));
      } else {
        std::memcpy(to + x, found, static_cast<size_t>(count - x));
      }
    }
  }
}

template <class T>
void median_rows(const MedianParams& p) {
  switch (p.side) {
    case 3:
      if constexpr (sizeof(T) == 1)
        return byte_medians_of_three(p);
      else
        return median_row<3, T>(p);
    case 5: return median_row<5, T>(p);
    default: return median_row<7, T>(p);
  }
}

void median_kernel(const MedianParams& p, Workspace&) {
  p.dtype == DType::kUInt8 ? median_rows<uint8_t>(p) : median_rows<float>(p);
}

const bool registered = median_stub.set(kIsaSlot, median_kernel);

}  // namespace
}  // namespace visops
