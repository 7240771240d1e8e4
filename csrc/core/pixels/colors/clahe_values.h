// Tiles, tables and values of CLAHE: the arithmetic that all backends share. NOTE [ CLAHE ]
// (clahe.cpp).
#pragma once

#include <cmath>
#include <cstdint>

#include "core/pixels/colors/levels.h"

namespace visops {

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
