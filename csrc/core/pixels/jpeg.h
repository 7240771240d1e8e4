// Images as they come back from a JPEG file: what fronts and kernels share.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/dispatch/kernel_stub.h"
#include "core/numbers/arithmetic.h"
#include "core/numbers/elementary.h"
#include "core/pixels/operations.h"

namespace visops {

// What JPEG does to an image: the arithmetic that all backends share.
//
// NOTE [ JPEG ]
// This is what writing a file and reading it again does, without the file. Entropy coding loses
// nothing, so it is left out. The steps that lose something are here, in libjpeg's integers, with
// the bits of its encoder and decoder at their defaults:
//   1. RGB becomes YCbCr, in fixed point of 16 bits.
//   2. Both chromas take the mean of two by two pixels; halves go up and down in turns. Sides are
//      extended by the last pixel, to whole blocks of 8 x 8.
//   3. Blocks go through the "slow" forward DCT (C. Loeffler, A. Ligtenberg and G. S. Moschytz,
//      "Practical fast 1-D DCT algorithms with 11 multiplications", ICASSP 1989), rows first.
//   4. Coefficients are divided by the quality's table, rounded, and multiplied again.
//   5. The inverse takes columns first. Between the two passes, two more bits are kept.
//   6. Chromas are interpolated: 3 parts of the nearest sample and 1 of the next, along both axes;
//      repeated where they are two columns or less.
//   7. YCbCr becomes RGB.
// Tables are those of ITU-T T.81, annex K.1, scaled by libjpeg's rule.

constexpr int kJpegSide = 8;  // of a block
constexpr int kJpegBlock = kJpegSide * kJpegSide;
constexpr int kJpegUnit = 2 * kJpegSide;  // of pixels that share a block of each chroma

// Divisors of the coefficients of a block, row by row.
struct JpegTable {
  uint8_t divisor[kJpegBlock];
};

struct JpegTables {
  JpegTable luma, chroma;
};

// A quality from 1 to 100 as percent of the standard's divisors.
VISOPS_FN int32_t jpeg_percent(int64_t quality) {
  return static_cast<int32_t>(quality < 50 ? 5000 / quality : 200 - 2 * quality);
}
VISOPS_FN int32_t jpeg_divisor(int32_t standard, int32_t percent) {
  const int32_t divisor = (standard * percent + 50) / 100;
  return divisor < 1 ? 1 : divisor > 255 ? 255 : divisor;
}

// Sides of the planes of an image, in samples.
struct JpegSize {
  int64_t height, width;  // of the image

  VISOPS_DEVICE int64_t units_down() const { return parts_of(height, kJpegUnit); }
  VISOPS_DEVICE int64_t units_across() const { return parts_of(width, kJpegUnit); }
  VISOPS_DEVICE int64_t chroma_height() const { return parts_of(height, 2); }
  VISOPS_DEVICE int64_t chroma_width() const { return parts_of(width, 2); }
  // Whether chromas are interpolated.
  VISOPS_DEVICE bool interpolates() const { return chroma_width() > 2; }
};

constexpr int kJpegColorBits = 16;

VISOPS_HOT_FN int32_t jpeg_luma(int32_t r, int32_t g, int32_t b) {
  return (19595 * r + 38470 * g + 7471 * b + 32768) >> kJpegColorBits;
}

// Halves are rounded down, or the greatest, 255.5, would be no byte.
VISOPS_HOT_FN int32_t jpeg_blue_chroma(int32_t r, int32_t g, int32_t b) {
  return (-11058 * r - 21710 * g + 32768 * b + (128 << kJpegColorBits) + 32767) >> kJpegColorBits;
}
VISOPS_HOT_FN int32_t jpeg_red_chroma(int32_t r, int32_t g, int32_t b) {
  return (32768 * r - 27439 * g - 5329 * b + (128 << kJpegColorBits) + 32767) >> kJpegColorBits;
}

VISOPS_HOT_FN uint8_t jpeg_byte(int32_t value) {
  return static_cast<uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}

// Chromas are less 128 here.
VISOPS_HOT_FN uint8_t jpeg_red(int32_t luma, int32_t, int32_t red_chroma) {
  return jpeg_byte(luma + ((91881 * red_chroma + 32768) >> kJpegColorBits));
}
VISOPS_HOT_FN uint8_t jpeg_green(int32_t luma, int32_t blue_chroma, int32_t red_chroma) {
  return jpeg_byte(luma + ((-22554 * blue_chroma - 46802 * red_chroma + 32768) >> kJpegColorBits));
}
VISOPS_HOT_FN uint8_t jpeg_blue(int32_t luma, int32_t blue_chroma, int32_t) {
  return jpeg_byte(luma + ((116130 * blue_chroma + 32768) >> kJpegColorBits));
}

// A chroma of two by two pixels, whose sum it takes, in a column of chromas.
VISOPS_HOT_FN int32_t jpeg_halved(int32_t sum, int32_t column) {
  return (sum + 1 + (column & 1)) >> 2;
}

template <int bits>
VISOPS_HOT_FN int32_t jpeg_descaled(int32_t value) {
  return (value + (1 << (bits - 1))) >> bits;
}

constexpr int kJpegBits = 13;    // of the constants
constexpr int kJpegBetween = 2;  // more bits of what lies between two passes

// Constants of both transforms, names by their values.
constexpr int32_t kJpeg0298 = 2446, kJpeg0390 = 3196, kJpeg0541 = 4433, kJpeg0765 = 6270;
constexpr int32_t kJpeg0899 = 7373, kJpeg1175 = 9633, kJpeg1501 = 12299, kJpeg1847 = 15137;
constexpr int32_t kJpeg1961 = 16069, kJpeg2053 = 16819, kJpeg2562 = 20995, kJpeg3072 = 25172;

// Eight values in scalars: arrays would keep compilers from vectors across blocks.
struct JpegLine {
  int32_t v0, v1, v2, v3, v4, v5, v6, v7;
};

// `step` from a value to the next.
VISOPS_HOT_FN JpegLine load_line(const int32_t* first, int64_t step) {
  return {first[0],        first[step],     first[2 * step], first[3 * step],
          first[4 * step], first[5 * step], first[6 * step], first[7 * step]};
}

VISOPS_HOT_FN void store_line(const JpegLine& line, int32_t* first, int64_t step) {
  first[0] = line.v0;
  first[step] = line.v1;
  first[2 * step] = line.v2;
  first[3 * step] = line.v3;
  first[4 * step] = line.v4;
  first[5 * step] = line.v5;
  first[6 * step] = line.v6;
  first[7 * step] = line.v7;
}

// The odd half of both transforms, which is its own transpose but for the order of what it takes.
struct JpegOdd {
  int32_t a, b, c, d;

  VISOPS_HOT_FN JpegOdd make(int32_t a, int32_t b, int32_t c, int32_t d) {
    const int32_t all = (a + c + b + d) * kJpeg1175;
    const int32_t z1 = (a + d) * -kJpeg0899, z2 = (b + c) * -kJpeg2562;
    const int32_t z3 = (a + c) * -kJpeg1961 + all, z4 = (b + d) * -kJpeg0390 + all;
    return {a * kJpeg0298 + z1 + z3, b * kJpeg2053 + z2 + z4, c * kJpeg3072 + z2 + z3,
            d * kJpeg1501 + z1 + z4};
  }
};

// A row of the forward transform, or a column of what that gives; results are scaled by 8.
template <bool is_row>
VISOPS_HOT_FN JpegLine jpeg_forward(const JpegLine& in) {
  constexpr int bits = is_row ? kJpegBits - kJpegBetween : kJpegBits + kJpegBetween;
  const int32_t outer = in.v0 + in.v7, middle = in.v3 + in.v4;
  const int32_t second = in.v1 + in.v6, third = in.v2 + in.v5;
  const int32_t even = outer + middle, odd = outer - middle;
  const int32_t inner = second + third, difference = second - third;
  const JpegOdd half = JpegOdd::make(in.v3 - in.v4, in.v2 - in.v5, in.v1 - in.v6, in.v0 - in.v7);
  const int32_t turned = (difference + odd) * kJpeg0541;
  const auto whole = [](int32_t value) {
    if constexpr (is_row) return value * (1 << kJpegBetween);
    return jpeg_descaled<kJpegBetween>(value);
  };
  return {whole(even + inner),
          jpeg_descaled<bits>(half.d),
          jpeg_descaled<bits>(turned + odd * kJpeg0765),
          jpeg_descaled<bits>(half.c),
          whole(even - inner),
          jpeg_descaled<bits>(half.b),
          jpeg_descaled<bits>(turned - difference * kJpeg1847),
          jpeg_descaled<bits>(half.a)};
}

// A column of the inverse transform, or a row of what that gives.
template <bool is_row>
VISOPS_HOT_FN JpegLine jpeg_inverse(const JpegLine& in) {
  constexpr int bits = is_row ? kJpegBits + kJpegBetween + 3 : kJpegBits - kJpegBetween;
  const int32_t turned = (in.v2 + in.v6) * kJpeg0541;
  const int32_t low = turned - in.v6 * kJpeg1847, high = turned + in.v2 * kJpeg0765;
  const int32_t sum = (in.v0 + in.v4) * (1 << kJpegBits);
  const int32_t rest = (in.v0 - in.v4) * (1 << kJpegBits);
  const JpegOdd half = JpegOdd::make(in.v7, in.v5, in.v3, in.v1);
  const int32_t first = sum + high, fourth = sum - high, second = rest + low, third = rest - low;
  return {jpeg_descaled<bits>(first + half.d),  jpeg_descaled<bits>(second + half.c),
          jpeg_descaled<bits>(third + half.b),  jpeg_descaled<bits>(fourth + half.a),
          jpeg_descaled<bits>(fourth - half.a), jpeg_descaled<bits>(third - half.b),
          jpeg_descaled<bits>(second - half.c), jpeg_descaled<bits>(first - half.d)};
}

// A coefficient that has been divided, rounded and multiplied. Coefficients are scaled by 8, below
// 2^15; half of a divisor more is cut off after float32's product by 1 / (8 * divisor), which is
// wrong by less than the half of 1 that is added besides.
VISOPS_HOT_FN int32_t jpeg_quantized(int32_t value, int32_t divisor, float inverse) {
  const int32_t size = (value < 0 ? -value : value) + 4 * divisor;
  const auto steps = static_cast<int32_t>((static_cast<float>(size) + 0.5f) * inverse);
  const int32_t rounded = steps * divisor;
  return value < 0 ? -rounded : rounded;
}
VISOPS_HOT_FN float jpeg_inverse_divisor(int32_t divisor) {
  return 1.0f / static_cast<float>(8 * divisor);
}

// Three parts of the nearest sample and one of the next.
VISOPS_HOT_FN int32_t jpeg_between(int32_t nearest, int32_t next) { return 3 * nearest + next; }

// ITU-T T.81, tables K.1 and K.2.
const JpegTables& jpeg_standard_tables();

struct JpegParams {
  PixelImage image;  // in place; of 1 channel, or 3 that are red, green and blue
  JpegTables tables;
};

// For one image, in the calling thread.
extern KernelStub<JpegParams> jpeg_stub;

// Quality: from 1 to 100.
void compress_as_jpeg(const PixelImage& image, int64_t quality);

// The nearest pixels of a smaller image: as cv2.resize with INTER_NEAREST there and back.

// One side of the image.
struct DownscaledSide {
  int64_t side, reduced;
  double up, down;  // pixels of the smaller image for each of the larger, and the other way round

  // The pixel that stands for pixel `i`.
  VISOPS_DEVICE int64_t position(int64_t i) const {
    const auto nearest = static_cast<int64_t>(floor(static_cast<double>(i) * up));
    const int64_t at = nearest < reduced ? nearest : reduced - 1;
    const auto back = static_cast<int64_t>(floor(static_cast<double>(at) * down));
    return back < side ? back : side - 1;
  }
};

VISOPS_FN DownscaledSide downscaled_side(int64_t side, double factor) {
  const auto rounded = static_cast<int64_t>(nearest_integer(static_cast<double>(side) * factor));
  const int64_t reduced = rounded > 1 ? rounded : 1;
  // As cv2.resize, by the inverse of the inverse: where a pixel lies between two, this decides.
  const double up = 1.0 / (static_cast<double>(side) / static_cast<double>(reduced));
  return {side, reduced, up, 1.0 / factor};
}

}  // namespace visops
