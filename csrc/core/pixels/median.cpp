// Medians of squares.
//
// NOTE [ Medians ]
// A network of exchanges, which compilers vectorize, finds the median of 3 x 3 pixels (J. L. Smith,
// "Implementing median filters in XC4000E FPGAs", XCELL 23, 1996). For larger squares of bytes, a
// histogram moves along the row (T. S. Huang, G. J. Yang and G. Y. Tang, "A fast two-dimensional
// median filtering algorithm", IEEE Trans. ASSP 27(1), 1979); floats take a selection.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/pixels/neighbourhoods.h"
#include "core/platform.h"

namespace visops {
namespace {

template <class T>
VISOPS_ALWAYS_INLINE void exchange(T& a, T& b) {
  const T less = a < b ? a : b;
  b = a < b ? b : a;
  a = less;
}

template <class T>
VISOPS_ALWAYS_INLINE T median_of_nine(T a, T b, T c, T d, T e, T f, T g, T h, T i) {
  exchange(b, c);
  exchange(e, f);
  exchange(h, i);
  exchange(a, b);
  exchange(d, e);
  exchange(g, h);
  exchange(b, c);
  exchange(e, f);
  exchange(h, i);
  exchange(a, d);
  exchange(f, i);
  exchange(e, h);
  exchange(d, g);
  exchange(b, e);
  exchange(c, f);
  exchange(e, h);
  exchange(e, c);
  exchange(g, e);
  exchange(e, c);
  return e;
}

// Rows [height + 2 radius] of a plane, each widened by its first and last pixel.
template <class T>
std::vector<T> widened(const T* from, int64_t height, int64_t width, int64_t radius) {
  const int64_t pitch = width + 2 * radius;
  std::vector<T> out(static_cast<size_t>((height + 2 * radius) * pitch));
  for (int64_t y = 0; y < height + 2 * radius; ++y) {
    const T* const row = from + std::clamp<int64_t>(y - radius, 0, height - 1) * width;
    T* const to = out.data() + y * pitch;
    std::fill_n(to, radius, row[0]);
    std::copy_n(row, width, to + radius);
    std::fill_n(to + radius + width, radius, row[width - 1]);
  }
  return out;
}

template <class T>
void small_medians(const T* rows, int64_t pitch, int64_t width, T* VISOPS_RESTRICT to) {
  const T *const a = rows, *const b = a + pitch, *const c = b + pitch;
  for (int64_t x = 0; x < width; ++x) {
    to[x] = median_of_nine(a[x], a[x + 1], a[x + 2], b[x], b[x + 1], b[x + 2], c[x], c[x + 1],
                           c[x + 2]);
  }
}

void medians(const uint8_t* rows, int64_t pitch, int64_t width, int64_t side, uint8_t* to) {
  std::array<int32_t, 256> counts = {};
  const auto half = static_cast<int32_t>(side * side / 2);
  for (int64_t y = 0; y < side; ++y) {
    for (int64_t x = 0; x < side; ++x) ++counts[rows[y * pitch + x]];
  }
  size_t median = 0;
  int32_t below = 0;  // how many are less than the median
  for (int64_t x = 0; x < width; ++x) {
    while (below > half) below -= counts[--median];
    while (below + counts[median] <= half) below += counts[median++];
    to[x] = static_cast<uint8_t>(median);
    if (x + 1 == width) break;
    for (int64_t y = 0; y < side; ++y) {
      const uint8_t old = rows[y * pitch + x], next = rows[y * pitch + x + side];
      --counts[old];
      ++counts[next];
      below += (next < median ? 1 : 0) - (old < median ? 1 : 0);
    }
  }
}

void medians(const float* rows, int64_t pitch, int64_t width, int64_t side, float* to) {
  std::vector<float> own(static_cast<size_t>(side * side));
  const auto middle = own.begin() + side * side / 2;
  for (int64_t x = 0; x < width; ++x) {
    for (int64_t y = 0; y < side; ++y) {
      std::copy_n(rows + y * pitch + x, side, own.begin() + y * side);
    }
    std::nth_element(own.begin(), middle, own.end());
    to[x] = *middle;
  }
}

template <class T>
void blur(const PixelImage& image, int64_t side, const T* before) {
  const int64_t plane = image.height * image.width, radius = side / 2;
  const int64_t pitch = image.width + 2 * radius;
  for (int64_t c = 0; c < image.channels; ++c) {
    const std::vector<T> rows = widened(before + c * plane, image.height, image.width, radius);
    for (int64_t y = 0; y < image.height; ++y) {
      T* const to = static_cast<T*>(image.data) + c * plane + y * image.width;
      const T* const from = rows.data() + y * pitch;
      if (side == 3) {
        small_medians(from, pitch, image.width, to);
      } else {
        medians(from, pitch, image.width, side, to);
      }
    }
  }
}

}  // namespace

void median_blur(const PixelImage& image, int64_t side, const void* before) {
  if (side <= 1) return;
  if (image.dtype == DType::kUInt8) return blur(image, side, static_cast<const uint8_t*>(before));
  blur(image, side, static_cast<const float*>(before));
}

}  // namespace visops
