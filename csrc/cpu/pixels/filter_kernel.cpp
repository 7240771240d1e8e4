// Filters of one channel on the CPU.
//
// NOTE [ Filters on the CPU ]
// Rows are widened to float32 with their mirrored rims, so that inner loops have neither conditions
// nor conversions. A separable filter sums along rows first. Sums of kChunk neighbours stay in
// registers while taps are added. No split: a chain has many channels and images.
#include "core/pixels/filters/filter.h"

#include <cstring>

#include "core/images/pixel.h"

namespace visops {
namespace {

constexpr int kChunk = 64;

template <class T>
void widen(const T* from, int64_t width, int64_t radius, float* to) {
  for (int64_t i = 0; i < width; ++i) to[radius + i] = static_cast<float>(from[i]);
  for (int64_t i = 1; i <= radius; ++i) {
    to[radius - i] = to[radius + pad_index(Padding::kReflect, -i, width)];
    to[radius + width - 1 + i] = to[radius + pad_index(Padding::kReflect, width - 1 + i, width)];
  }
}

// body(x, count) for chunks of a row; `count` is kChunk where possible.
template <class Body>
VISOPS_ALWAYS_INLINE void for_each_chunk(int64_t width, const Body& body) {
  for (int64_t x = 0; x < width; x += kChunk) {
    const int64_t left = width - x;
    body(x, left < kChunk ? static_cast<int>(left) : kChunk);
  }
}

// sum[i] = add(i) for a chunk: a loop of constant length where it is whole.
template <class Add>
VISOPS_ALWAYS_INLINE void each(int count, const Add& add) {
  if (count == kChunk) {
    for (int i = 0; i < kChunk; ++i) add(i);
  } else {
    for (int i = 0; i < count; ++i) add(i);
  }
}

template <class T>
VISOPS_ALWAYS_INLINE void store_chunk(const FilterParams& p, const float* sum, int count, T* to) {
  const float factor = p.factor, shift = p.shift;
  each(count, [&](int i) { store_element(to + i, sum[i] * factor + shift); });
}

template <class T>
void separable(const FilterParams& p) {
  const int64_t width = p.width, height = p.height, radius = p.row_radius;
  float* const line = p.scratch;                  // a widened row
  float* const rows = line + width + 2 * radius;  // [height, width]
  for (int64_t y = 0; y < height; ++y) {
    widen(static_cast<const T*>(p.source) + y * width, width, radius, line);
    for_each_chunk(width, [&](int64_t x, int count) {
      const float* const middle = line + radius + x;
      float sum[kChunk];
      each(count, [&](int i) { sum[i] = p.row[0] * middle[i]; });
      for (int64_t k = 1; k <= radius; ++k) {
        const float weight = p.row[k];
        const float *const left = middle - k, *const right = middle + k;
        each(count, [&](int i) { sum[i] += weight * (left[i] + right[i]); });
      }
      std::memcpy(rows + y * width + x, sum, static_cast<size_t>(count) * sizeof(float));
    });
  }
  for (int64_t y = 0; y < height; ++y) {
    for_each_chunk(width, [&](int64_t x, int count) {
      const float* const middle = rows + y * width + x;
      float sum[kChunk];
      each(count, [&](int i) { sum[i] = p.column[0] * middle[i]; });
      for (int64_t k = 1; k <= p.column_radius; ++k) {
        const float weight = p.column[k];
        const float* const above = rows + pad_index(Padding::kReflect, y - k, height) * width + x;
        const float* const below = rows + pad_index(Padding::kReflect, y + k, height) * width + x;
        each(count, [&](int i) { sum[i] += weight * (above[i] + below[i]); });
      }
      store_chunk(p, sum, count, static_cast<T*>(p.target) + y * width + x);
    });
  }
}

// Rows go through a ring of as many as the kernel has, which stays in the cache.
template <class T>
void any_kernel(const FilterParams& p) {
  const int64_t width = p.width, height = p.height, radius = p.column_radius;
  const int64_t pitch = width + 2 * p.row_radius, count = 2 * radius + 1;
  const auto slot = [&](int64_t y) { return p.scratch + (y + count) % count * pitch; };
  const auto load = [&](int64_t y) {
    const int64_t source = pad_index(Padding::kReflect, y, height);
    if (y >= height) {  // that row may have its results already, but is in the ring
      std::memcpy(slot(y), slot(source), static_cast<size_t>(pitch) * sizeof(float));
    } else {
      widen(static_cast<const T*>(p.source) + source * width, width, p.row_radius, slot(y));
    }
  };
  for (int64_t y = -radius; y < radius; ++y) load(y);
  for (int64_t y = 0; y < height; ++y) {
    load(y + radius);
    const int64_t middle = (y + count) % count;  // the slot of the row itself
    for_each_chunk(width, [&](int64_t x, int size) {
      float sum[kChunk] = {};
      for (int64_t k = 0; k < p.tap_count; ++k) {
        const float weight = p.weights[k];
        int64_t row = middle + p.offsets[2 * k];  // a division would take longer than the sums
        row += row < 0 ? count : row >= count ? -count : 0;
        const float* const tap = p.scratch + row * pitch + p.row_radius + p.offsets[2 * k + 1] + x;
        each(size, [&](int i) { sum[i] += weight * tap[i]; });
      }
      store_chunk(p, sum, size, static_cast<T*>(p.target) + y * width + x);
    });
  }
}

void filter_kernel(const FilterParams& p, Workspace&) {
  const bool bytes = p.dtype == DType::kUInt8;
  if (p.offsets == nullptr) {
    bytes ? separable<uint8_t>(p) : separable<float>(p);
  } else {
    bytes ? any_kernel<uint8_t>(p) : any_kernel<float>(p);
  }
}

const bool registered = filter_stub.set(kIsaSlot, filter_kernel);

}  // namespace
}  // namespace visops
