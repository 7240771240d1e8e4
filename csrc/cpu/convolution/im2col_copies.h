// Tasks of im2col, and copies of runs too short for a call of memcpy.
#pragma once

#include "core/convolution/im2col.h"
#include "cpu/simd/floats.h"
#include "cpu/simd/vector.h"

namespace visops {
namespace {

constexpr int64_t kCopyBytes = 64;

// An element of 16 bytes.
struct Bytes16 {
  uint64_t low, high;
};

// Rows of places [row, row + rows), and places [first, first + count) of each.
struct Im2colTask {
  int64_t lead;
  int64_t position[2];  // in the first two dimensions
  int64_t row, rows, first, count;
};

VISOPS_ALWAYS_INLINE Im2colTask im2col_task(const Im2colParams& p, int64_t index) {
  Im2colTask task;
  const int64_t segment = index % p.segments;
  index /= p.segments;
  const int64_t band = index % p.bands;
  index /= p.bands;
  task.position[1] = index % p.dim[1].positions;
  index /= p.dim[1].positions;
  task.position[0] = index % p.dim[0].positions;
  task.lead = index / p.dim[0].positions;
  task.row = band * p.band_rows;
  const int64_t rows = p.dim[2].positions - task.row, count = p.dim[3].positions;
  task.rows = rows < p.band_rows ? rows : p.band_rows;
  task.first = segment * p.segment_positions;
  task.count = count - task.first < p.segment_positions ? count - task.first : p.segment_positions;
  return task;
}

// The task's first place, as an index into all places.
VISOPS_ALWAYS_INLINE int64_t first_position(const Im2colParams& p, const Im2colTask& task) {
  const int64_t outer = task.position[0] * p.dim[1].positions + task.position[1];
  return (outer * p.dim[2].positions + task.row) * p.dim[3].positions + task.first;
}

// The plane (last two dimensions) that the task sees through element (k0, k1) of the kernel; null
// outside the image.
template <class T>
VISOPS_ALWAYS_INLINE const T* plane_seen(const Im2colParams& p, const T* image,
                                         const Im2colTask& task, int64_t k0, int64_t k1) {
  const int64_t kernel[2] = {k0, k1};
  for (int d = 0; d < 2; ++d) {
    const WindowDim& dim = p.dim[d];
    const int64_t at = task.position[d] * dim.stride + kernel[d] * dim.dilation - dim.before;
    if (at < 0 || at >= dim.size) return nullptr;
    image += at * p.stride[d];
  }
  return image;
}

// memcpy, inlined: the last vector overlaps the one before.
VISOPS_ALWAYS_INLINE void copy_bytes(void* VISOPS_RESTRICT to, const void* VISOPS_RESTRICT from,
                                     int64_t bytes) {
  if (bytes < kCopyBytes) {
    copy_part(to, from, static_cast<size_t>(bytes));
    return;
  }
  const auto move = [to, from](int64_t at) {
    memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, kCopyBytes);
  };
  for (int64_t at = 0; at + kCopyBytes <= bytes; at += kCopyBytes) move(at);
  move(bytes - kCopyBytes);
}

template <class T>
VISOPS_ALWAYS_INLINE void fill_run(T* to, int64_t count, T value) {
  for (int64_t i = 0; i < count; ++i) to[i] = value;
}

// The integer that holds two adjacent elements: one instruction splits a vector of them.
template <class T>
struct PairOf;
template <>
struct PairOf<uint8_t> {
  using type = uint16_t;
};
template <>
struct PairOf<uint16_t> {
  using type = uint32_t;
};
template <>
struct PairOf<uint32_t> {
  using type = uint64_t;
};

#if defined(__GNUC__)
template <class T>
struct Halves {
  using Pair = typename PairOf<T>::type;
  static constexpr int64_t kCount = kVectorBytes / static_cast<int64_t>(sizeof(Pair));
  typedef Pair Pairs __attribute__((vector_size(kVectorBytes)));
  typedef T Half __attribute__((vector_size(kVectorBytes / 2)));

  // to[i] = from[2 * i + kOdd] for kCount elements; reads twice as many.
  template <int kOdd>
  static VISOPS_ALWAYS_INLINE void copy(T* to, const T* from) {
    Pairs pairs;
    memcpy(&pairs, from, sizeof(pairs));
    const Half half = __builtin_convertvector(pairs >> (kOdd * 8 * sizeof(T)), Half);
    memcpy(to, &half, sizeof(half));
  }
};
#endif

// to[i] = from[2 * i] for `count` elements.
template <class T>
VISOPS_ALWAYS_INLINE void copy_every_second(T* VISOPS_RESTRICT to, const T* VISOPS_RESTRICT from,
                                            int64_t count) {
  int64_t i = 0;
#if defined(__GNUC__)
  if constexpr (sizeof(T) <= 4) {
    constexpr int64_t kCount = Halves<T>::kCount;
    for (; i + kCount < count; i += kCount) Halves<T>::template copy<0>(to + i, from + 2 * i);
    if (i > 0) {
      // Copies the last ones again with the element before each, as nothing may follow the last.
      const int64_t last = count - kCount;
      Halves<T>::template copy<1>(to + last, from + 2 * last - 1);
      return;
    }
  }
#endif
  for (; i < count; ++i) to[i] = from[2 * i];
}

// to[i] = from[i * step] for `count` elements.
template <class T>
VISOPS_ALWAYS_INLINE void copy_steps(T* VISOPS_RESTRICT to, const T* VISOPS_RESTRICT from,
                                     int64_t count, int64_t step) {
  if (step == 1) {
    copy_bytes(to, from, count * static_cast<int64_t>(sizeof(T)));
  } else if (step == 2) {
    copy_every_second(to, from, count);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
  }
}

// to[i] = row[first + i * step] where i is within `there`, else `fill`.
template <class T>
VISOPS_ALWAYS_INLINE void copy_row(T* to, const T* row, int64_t first, int64_t step, int64_t count,
                                   IndexRange there, T fill) {
  fill_run(to, there.begin, fill);
  const int64_t copied = there.end - there.begin;
  if (copied > 0) copy_steps(to + there.begin, row + first + there.begin * step, copied, step);
  fill_run(to + there.end, count - there.end, fill);
}

}  // namespace
}  // namespace visops
