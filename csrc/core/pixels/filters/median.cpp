// Medians of squares.
//
// NOTE [ Medians ]
// Rows go through a ring of as many as the square has, each widened by its first and last pixel, so
// results can take the image's place. Small squares are for kernels (cpu/pixels/median_kernel.cpp).
// For larger squares of bytes, a histogram moves along the row (T. S. Huang, G. J. Yang and G. Y.
// Tang, "A fast two-dimensional median filtering algorithm", IEEE Trans. ASSP 27(1), 1979); floats
// take a selection by their order: NOTE [ Large medians ].
#include "core/pixels/filters/median.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/plain_kernel.h"
#include "core/pixels/filters/neighbourhoods.h"

namespace visops {

KernelStub<MedianParams> median_stub{"median"};

namespace {

void medians(const uint8_t* const* rows, int64_t width, int64_t side, uint8_t* to) {
  std::array<int32_t, 256> counts = {};
  const auto half = static_cast<int32_t>(side * side / 2);
  for (int64_t y = 0; y < side; ++y) {
    for (int64_t x = 0; x < side; ++x) ++counts[rows[y][x]];
  }
  size_t median = 0;
  int32_t below = 0;  // how many are less than the median
  for (int64_t x = 0; x < width; ++x) {
    while (below > half) below -= counts[--median];
    while (below + counts[median] <= half) below += counts[median++];
    to[x] = static_cast<uint8_t>(median);
    if (x + 1 == width) break;
    for (int64_t y = 0; y < side; ++y) {
      const uint8_t old = rows[y][x], next = rows[y][x + side];
      --counts[old];
      ++counts[next];
      below += (next < median ? 1 : 0) - (old < median ? 1 : 0);
    }
  }
}

void medians(const float* const* rows, int64_t width, int64_t side, float* to) {
  std::vector<uint32_t> own(static_cast<size_t>(side * side));
  const auto middle = own.begin() + side * side / 2;
  for (int64_t x = 0; x < width; ++x) {
    for (int64_t y = 0; y < side; ++y) {
      std::transform(rows[y] + x, rows[y] + x + side, own.begin() + y * side,
                     [](float value) { return order_of(value); });
    }
    std::nth_element(own.begin(), middle, own.end());
    to[x] = value_of_order<float>(*middle);
  }
}

// Without vectors, a histogram finds medians of 7 x 7 bytes faster than a network. Values are the
// same.
bool takes_network(DType dtype, int64_t side) {
  const bool has_vectors = cpu_slot() == Slot::kAvx2 || cpu_slot() == Slot::kAvx512;
  return side <= 5 || (side <= kMostSmallMedian && (dtype == DType::kFloat32 || has_vectors));
}

template <class T>
void blur(const PixelImage& image, int64_t side) {
  const int64_t height = image.height, width = image.width, radius = side / 2;
  const int64_t pitch = width + 2 * radius;
  const bool small = takes_network(image.dtype, side);
  std::vector<T> ring(static_cast<size_t>(side * pitch + kMedianChunk));
  std::vector<const T*> rows(static_cast<size_t>(side));
  const auto slot = [&](int64_t y) { return ring.data() + (y + side) % side * pitch; };
  for (int64_t c = 0; c < image.channels; ++c) {
    T* const plane = static_cast<T*>(image.data) + c * height * width;
    const auto load = [&](int64_t y) {
      const T* const row = plane + std::clamp<int64_t>(y, 0, height - 1) * width;
      T* const to = slot(y);
      std::fill_n(to, radius, row[0]);
      std::copy_n(row, width, to + radius);
      std::fill_n(to + radius + width, radius, row[width - 1]);
    };
    for (int64_t y = -radius; y < radius; ++y) load(y);
    for (int64_t y = 0; y < height; ++y) {
      load(y + radius);  // no row that is read from here on has its medians yet
      for (int64_t k = 0; k < side; ++k) rows[static_cast<size_t>(k)] = slot(y - radius + k);
      T* const to = plane + y * width;
      if (small) {
        const MedianParams p = {reinterpret_cast<const void* const*>(rows.data()), to, image.dtype,
                                width, side};
        run_plain(median_stub, p);
      } else {
        medians(rows.data(), width, side, to);
      }
    }
  }
}

}  // namespace

void median_blur(const PixelImage& image, int64_t side) {
  if (side <= 1) return;
  image.dtype == DType::kUInt8 ? blur<uint8_t>(image, side) : blur<float>(image, side);
}

}  // namespace visops
