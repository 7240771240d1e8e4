#include "core/pixels/shading.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/dispatch/kernel_stub.h"
#include "core/dispatch/plain_kernel.h"

namespace visops {

KernelStub<ShadeParams> shade_stub{"shade"};

namespace {

// first + step * i of the columns or rows
std::vector<float> line(int64_t count, double first, double step) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<float>(first + step * static_cast<double>(i)));
  }
  return numbers;
}

double per_step(int64_t side) { return 1.0 / static_cast<double>(std::max<int64_t>(side - 1, 1)); }

// albumentations' gradient: of a multiple of 45 degrees from 0 to 1, else not so.
void add_slope(double strength, double degrees, int64_t height, int64_t width, Shading& shading) {
  const SinCos way = sin_cos(degrees * kRadians);
  double across = way.cosine, down = way.sine, first = 0.0;
  if (std::fmod(degrees, 45.0) == 0.0) {
    const auto share = [](double part) {
      return std::fabs(part) < 1e-9 ? 0.0 : part < 0.0 ? -1.0 : 1.0;
    };
    across = share(across);
    down = share(down);
    const double ways = std::fabs(across) + std::fabs(down);
    first = (across < 0.0 ? 1.0 : 0.0) + (down < 0.0 ? 1.0 : 0.0);
    across /= ways;
    down /= ways;
    first /= ways;
  }
  // 2 |s| times the gradient, or 1 less it, and 1 - |s|
  const double size = std::fabs(strength), scale = 2.0 * strength;
  const double whole = 1.0 - size + (strength < 0.0 ? 2.0 * size : 0.0);
  shading.columns = line(width, whole + scale * first, scale * across * per_step(width));
  shading.rows = line(height, 0.0, scale * down * per_step(height));
}

// Squares of distances from a place, each changed.
template <class Change>
std::vector<float> squares(int64_t count, double place, const Change& change) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) {
    const double distance = static_cast<double>(i) - place;
    numbers.push_back(static_cast<float>(change(distance * distance)));
  }
  return numbers;
}

Shading light(const PixelOperation& operation, int64_t height, int64_t width) {
  const double* const more = operation.more;
  const double strength = more[4] != 0.0 ? -operation.amount : operation.amount;
  const auto rows = static_cast<double>(height), columns = static_cast<double>(width);
  Shading shading;
  shading.shade = static_cast<Shade>(static_cast<int32_t>(more[0]));
  shading.strength = static_cast<float>(strength);
  if (shading.shade == Shade::kSlope) {
    add_slope(strength, more[1], height, width, shading);
  } else if (shading.shade == Shade::kCorner) {  // 0 to 3, from the left at the top, clockwise
    const bool right = more[1] == 1.0 || more[1] == 2.0, bottom = more[1] >= 2.0;
    const auto whole = [](double square) { return square; };
    shading.columns = squares(width, right ? columns - 1.0 : 0.0, whole);
    shading.rows = squares(height, bottom ? rows - 1.0 : 0.0, whole);
    shading.strength = static_cast<float>(strength / std::sqrt(rows * rows + columns * columns));
  } else {
    const double sigma = std::max(rows, columns) * more[3];
    const auto bell = [=](double square) { return exp_of(-square / (2.0 * sigma * sigma)); };
    shading.columns = squares(width, columns * more[1], bell);
    shading.rows = squares(height, rows * more[2], bell);
  }
  return shading;
}

// Random numbers of a key, polygon by polygon: its strength, then x and y of each corner.
Shading shadows(const PixelOperation& operation, int64_t height, int64_t width) {
  const double* const more = operation.more;
  Uniforms numbers(key_of(more[0]), 0, 0);
  Shading shading;
  shading.shade = Shade::kShadows;
  shading.count = static_cast<int64_t>(more[5]);
  int64_t next = 0;
  const auto place = [&](double low, double high, int64_t side) {
    const double first = std::floor(low * static_cast<double>(side));
    const double size = std::max(std::floor(high * static_cast<double>(side)) - first, 1.0);
    return static_cast<int32_t>(first + std::floor(numbers[next++] * size));
  };
  for (int64_t i = 0; i < static_cast<int64_t>(operation.amount); ++i) {
    const double strength = more[6] + numbers[next++] * (more[7] - more[6]);
    shading.rests.push_back(static_cast<float>(1.0 - strength));
    for (int64_t k = 0; k < shading.count; ++k) {
      const int32_t x = place(more[1], more[3], width);
      shading.corners.push_back({x, place(more[2], more[4], height)});
    }
  }
  return shading;
}

// The first column that isn't before an edge which crosses a row.
int64_t column_behind(const ShadowEdge& edge, int64_t y) {
  const int64_t moved = edge.moved(y), height = edge.height();  // division rounds negatives up
  return edge.upper.x + moved / height + (moved % height > 0 ? 1 : 0);
}

void shadow_row(const Shading& shading, int64_t y, int64_t width, float* factor) {
  std::fill_n(factor, width, 1.0f);
  std::vector<int64_t> edges;
  for (size_t i = 0; i < shading.rests.size(); ++i) {
    const ShadowCorner* const corners =
        shading.corners.data() + static_cast<int64_t>(i) * shading.count;
    edges.clear();
    for (int64_t k = 0; k < shading.count; ++k) {
      const ShadowEdge edge = shadow_edge(corners, shading.count, k);
      if (edge.crosses(y)) edges.push_back(std::clamp<int64_t>(column_behind(edge, y), 0, width));
    }
    std::sort(edges.begin(), edges.end());
    for (size_t k = 0; k + 1 < edges.size(); k += 2) {
      for (int64_t x = edges[k]; x < edges[k + 1]; ++x) factor[x] *= shading.rests[i];
    }
  }
}

}  // namespace

Shading shading_of(const PixelOperation& operation, int64_t height, int64_t width) {
  return operation.kind == PixelKind::kShadows ? shadows(operation, height, width)
                                               : light(operation, height, width);
}

bool run_shading(const PixelOperation& operation, const PixelImage& image) {
  if (!is_shading(operation.kind)) return false;
  const Shading shading = shading_of(operation, image.height, image.width);
  const auto kernel = plain_kernel(shade_stub);
  CallerWorkspace workspace;
  std::vector<float> factor(static_cast<size_t>(image.width));
  for (int64_t y = 0; y < image.height; ++y) {
    if (shading.shade == Shade::kShadows) {
      shadow_row(shading, y, image.width, factor.data());
    } else {
      const float row = shading.rows[static_cast<size_t>(y)];
      for (size_t x = 0; x < factor.size(); ++x) {
        factor[x] = light_of(shading.shade, shading.strength, shading.columns[x], row);
      }
    }
    char* const data = static_cast<char*>(image.data) + y * image.width * element_size(image.dtype);
    kernel(
        {data, image.dtype, image.channels, image.height * image.width, image.width, factor.data()},
        workspace);
  }
  return true;
}

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
