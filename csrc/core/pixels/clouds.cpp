#include "core/pixels/clouds.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace visops {
namespace {

// The side of the grid that covers an image.
int64_t finest_side(int64_t height, int64_t width) {
  int64_t side = 5;
  while (side < std::max(height, width)) side = 2 * side - 1;
  return side;
}

// A square of points with zeros around it.
struct Grid {
  int64_t side, pitch;
  std::vector<float> points;

  explicit Grid(int64_t own)
      : side(own), pitch(own + 2), points(static_cast<size_t>(pitch * pitch)) {}

  float* row(int64_t y) { return points.data() + (y + 1) * pitch + 1; }
};

// The mean of four neighbours with noise, or 0.
float between(float a, float b, float c, float d, float noise) {
  const float mean = (a + b + c + d) * 0.25f;
  return mean > 0.0f ? mean + noise : 0.0f;
}

// Makes numbers in [0, 1) noise, of a strength.
class Noise {
 public:
  Noise(const float* numbers, double strength)
      : numbers_(numbers), strength_(static_cast<float>(strength)) {}

  float operator[](int64_t i) const { return (2.0f * numbers_[i] - 1.0f) * strength_; }

 private:
  const float* const numbers_;
  const float strength_;
};

// The points of `coarse`, and those between them.
void refine(Grid& coarse, const float* numbers, double strength, Grid& fine) {
  const int64_t side = fine.side;
  const auto noise_of = [&](int64_t y) { return Noise(numbers + y * side, strength); };
  for (int64_t y = 0; y < side; y += 2) {
    const float* const from = coarse.row(y / 2);
    float* const to = fine.row(y);
    const Noise noise = noise_of(y);
    for (int64_t x = 0; x < side; x += 2) to[x] = from[x / 2] + noise[x];
  }
  for (int64_t y = 1; y < side; y += 2) {
    const float *const above = fine.row(y - 1), *const below = fine.row(y + 1);
    float* const to = fine.row(y);
    const Noise noise = noise_of(y);
    for (int64_t x = 1; x < side; x += 2) {
      to[x] = between(above[x - 1], above[x + 1], below[x - 1], below[x + 1], noise[x]);
    }
  }
  for (int64_t y = 0; y < side; ++y) {
    const float *const above = fine.row(y - 1), *const below = fine.row(y + 1);
    float* const to = fine.row(y);
    const Noise noise = noise_of(y);
    for (int64_t x = 1 - y % 2; x < side; x += 2) {
      to[x] = between(above[x], below[x], to[x - 1], to[x + 1], noise[x]);
    }
  }
}

// Stretches the first rows and columns of a grid to [0, 1], into rows of `pitch` numbers.
void stretch(Grid& grid, int64_t height, int64_t width, float* to, int64_t pitch) {
  float low = grid.row(0)[0], high = low;
  for (int64_t y = 0; y < height; ++y) {
    const float* const own = grid.row(y);
    for (int64_t x = 0; x < width; ++x) {
      low = own[x] < low ? own[x] : low;
      high = own[x] > high ? own[x] : high;
    }
  }
  const float length = high > low ? high - low : 1.0f;
  for (int64_t y = 0; y < height; ++y) {
    const float* const own = grid.row(y);
    for (int64_t x = 0; x < width; ++x) to[y * pitch + x] = (own[x] - low) / length;
  }
}

}  // namespace

int64_t cloud_numbers(int64_t height, int64_t width) {
  int64_t count = 0;
  for (int64_t side = finest_side(height, width); side > 2; side = side / 2 + 1) {
    count += side * side;
  }
  return count;
}

void make_clouds(const float* numbers, double roughness, int64_t height, int64_t width,
                 float* clouds) {
  const int64_t finest = finest_side(height, width);
  Grid coarse(3);
  for (int64_t i = 0; i < 9; ++i) coarse.row(i / 3)[i % 3] = Noise(numbers, 1.0)[i];
  numbers += 9;
  double strength = 1.0;
  for (int64_t side = 5;; side = 2 * side - 1) {
    Grid fine(side);
    refine(coarse, numbers, strength, fine);
    stretch(fine, side, side, fine.row(0), fine.pitch);
    if (side == finest) return stretch(fine, height, width, clouds, width);
    numbers += side * side;
    strength *= roughness;
    coarse = std::move(fine);
  }
}

}  // namespace visops
