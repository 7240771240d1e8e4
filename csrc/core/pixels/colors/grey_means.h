// Grey means of small pictures, times weights, added to offsets of colour matrices: what a contrast
// takes (NOTE [ Grey means ], core/chain/color_program.h).
#pragma once

#include <cmath>
#include <cstdint>

#include "core/chain/plan.h"
#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/workspace.h"
#include "core/numbers/element.h"

namespace visops {

constexpr int kGreyChannels = 3;  // of a picture, that count
constexpr int64_t kMostMeanPixels = 1 << 16;

struct GreyMeansParams {
  const uint8_t* pictures;  // [batch, channels, pixels]
  const double* colors;     // [batch, steps, channels, channels + 1]
  const double* weights;    // [batch, steps, channels]
  double* output;           // like colors
  int64_t batch, channels, pixels, steps;
  double scale;  // from a sum of grey levels to their mean, with white at 1
};

extern KernelStub<GreyMeansParams> grey_means_stub;

// Throws where a problem is none.
void check_grey_means(const char* op, const GreyMeansParams& p);

// From a sum of as many grey levels to their mean, with white at 1.
inline double mean_scale(int64_t pixels) { return 1.0 / (255.0 * static_cast<double>(pixels)); }

// A picture's mean from the sums of its channels, of which there are 1, 3 or more.
VISOPS_FN double grey_mean(const int64_t sums[kGreyChannels], int64_t channels, double scale) {
  constexpr double red = kGrey[0], green = kGrey[1], blue = kGrey[2];
  double grey = static_cast<double>(sums[0]);
  if (channels > 1) {
    grey = grey * red + static_cast<double>(sums[1]) * green + static_cast<double>(sums[2]) * blue;
  }
  return grey * scale;
}

// How many channels of a picture count.
VISOPS_FN int grey_channels(int64_t channels) { return channels > 1 ? kGreyChannels : 1; }

// The mean of a picture [channels, pixels].
VISOPS_FN double mean_of_picture(const uint8_t* picture, int64_t channels, int64_t pixels,
                                 double scale) {
  int64_t sums[kGreyChannels] = {};
  for (int c = 0; c < grey_channels(channels); ++c) {
    for (int64_t i = 0; i < pixels; ++i) sums[c] += picture[c * pixels + i];
  }
  return grey_mean(sums, channels, scale);
}

// Element i of a sample's colours [steps, channels, channels + 1] with its mean added.
VISOPS_FN double color_with_mean(const double* colors, const double* weights, int64_t channels,
                                 int64_t i, double mean) {
  const int64_t row = i / (channels + 1);
  const bool is_offset = i - row * (channels + 1) == channels;
  return is_offset ? colors[i] + mean * weights[row] : colors[i];
}

// Values as the levels of 8 bits, for operations that know no others. Floating values take 256 of
// them, with white at 1.

VISOPS_FN uint8_t rounded_byte(float value) {
  uint8_t out;
  store_element(&out, value);
  return out;
}

VISOPS_FN uint8_t rounded_level(uint8_t value) { return value; }
VISOPS_FN uint8_t rounded_level(float value) { return rounded_byte(value * 255.0f); }

template <class T>
VISOPS_FN T value_of_level(uint8_t level) {
  if constexpr (sizeof(T) == 1) {
    return level;
  } else {
    return static_cast<float>(level) * (1.0f / 255.0f);
  }
}

// Tiles, tables and values of CLAHE: the arithmetic that all backends share. NOTE [ CLAHE ]
// (grey_means.cpp).

constexpr int kClaheLevels = 256;

struct ClaheTiles {
  int32_t rows, columns, height, width;  // height and width of a tile

  VISOPS_DEVICE int64_t area() const { return static_cast<int64_t>(height) * width; }
  VISOPS_DEVICE int64_t count() const { return static_cast<int64_t>(rows) * columns; }
};

// Tiles that cover an image. Unless they divide both sides, both are extended, as OpenCV does.
VISOPS_FN ClaheTiles clahe_tiles(int64_t height, int64_t width, int64_t rows, int64_t columns) {
  const bool whole = height % rows == 0 && width % columns == 0;
  const int64_t more = whole ? 0 : 1;
  return {static_cast<int32_t>(rows), static_cast<int32_t>(columns),
          static_cast<int32_t>(height / rows + more), static_cast<int32_t>(width / columns + more)};
}

// The most pixels of a tile that a level keeps; 0: all.
VISOPS_FN int32_t clahe_limit(double clip_limit, const ClaheTiles& tiles) {
  if (!(clip_limit > 0.0)) return 0;
  const double limit = clip_limit * static_cast<double>(tiles.area()) / kClaheLevels;
  if (limit >= 2147483647.0) return 2147483647;
  return limit < 1.0 ? 1 : static_cast<int32_t>(limit);
}

// What each level is given of `cut` pixels: a share, and one more at every step, `rest` times.
struct ClaheGift {
  int32_t share, rest, step;
};

VISOPS_FN ClaheGift clahe_gift(int32_t cut) {
  const int32_t share = cut / kClaheLevels, rest = cut - share * kClaheLevels;
  return {share, rest, rest > 0 ? kClaheLevels / rest : 1};
}

VISOPS_FN float clahe_scale(const ClaheTiles& tiles) {
  return 255.0f / static_cast<float>(tiles.area());
}

// A tile's table at a level: of how many pixels have no more than that.
VISOPS_FN uint8_t clahe_entry(int32_t sum, float scale) {
  return rounded_byte(static_cast<float>(sum) * scale);
}

// The two tiles around a pixel along an axis, and the share of the second.
struct ClaheBetween {
  int32_t first, second;
  float share;
};

// `inverse` is 1 / the tile's side, `count` the tiles along the axis.
VISOPS_FN ClaheBetween clahe_between(int32_t at, float inverse, int32_t count) {
  const float position = static_cast<float>(at) * inverse - 0.5f;
  const float before = floorf(position);
  const auto first = static_cast<int32_t>(before);
  return {first > 0 ? first : 0, first + 1 < count ? first + 1 : count - 1, position - before};
}

// A pixel's level, from the tables of the four tiles around it.
VISOPS_FN uint8_t clahe_mixed(uint8_t upper_left, uint8_t upper_right, uint8_t lower_left,
                              uint8_t lower_right, float across, float down) {
  const float rest = 1.0f - across;
  const float upper =
      static_cast<float>(upper_left) * rest + static_cast<float>(upper_right) * across;
  const float lower =
      static_cast<float>(lower_left) * rest + static_cast<float>(lower_right) * across;
  return rounded_byte(upper * (1.0f - down) + lower * down);
}

}  // namespace visops
