// Asks for the lines of cache that a nearest sample of a few pixels will read.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/warp/augment.h"

#if defined(_MSC_VER)
#include <intrin.h>
#endif

namespace visops {

VISOPS_FN void prefetch(const void* address) {
#if !defined(_MSC_VER)
  __builtin_prefetch(address, 0, 2);  // into the second level: one sample's lines pass 32 KiB
#elif defined(_M_X64)
  _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T1);
#else
  (void)address;
#endif
}

// For a picture of side x side pixels of one sample, whose matrix is float64 and maps the image to
// it in the half-pixel convention. Points may be off by one, which costs time and changes nothing;
// a perspective is left alone.
VISOPS_FN void prefetch_grid(const AugmentParams& p, int64_t sample, int64_t side) {
  if (p.matrix_rows != 2) return;
  const double* const m =
      static_cast<const double*>(p.matrix.data) + sample * p.matrix.batch_stride;
  const double determinant = m[0] * m[4] - m[1] * m[3];
  const double scale = 1.0 / determinant;
  const double a = m[4] * scale, b = -m[1] * scale, d = -m[3] * scale, e = m[0] * scale;
  if (!(std::abs(a) + std::abs(b) + std::abs(d) + std::abs(e) < 1e9)) return;
  const AugmentImage image = p.list != nullptr ? p.list[sample] : augment_image(p, sample);
  const auto bound = [](double v, int64_t size) {
    return static_cast<int64_t>(std::min(std::max(v, 0.0), static_cast<double>(size - 1)));
  };
  const int64_t bytes = element_size(p.dtype), channel = image.channel_stride * bytes;
  // Channels side by side share their lines.
  const int64_t planes = std::abs(channel) < 16 ? 1 : p.channels;
  const auto* const data = static_cast<const char*>(image.data);
  for (int64_t row = 0; row < side; ++row) {
    const double v = static_cast<double>(row) + 0.5 - m[5];
    for (int64_t column = 0; column < side; ++column) {
      const double u = static_cast<double>(column) + 0.5 - m[2];
      const int64_t x = bound(a * u + b * v, image.width), y = bound(d * u + e * v, image.height);
      const char* const first = data + (y * image.row_stride + x * image.column_stride) * bytes;
      for (int64_t plane = 0; plane < planes; ++plane) prefetch(first + plane * channel);
    }
  }
}

}  // namespace visops
