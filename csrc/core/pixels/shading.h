// Illumination and shadows: factors of pixels. The arithmetic that all backends share.
//
// NOTE [ Shading ]
// A pixel's factor follows from its place, in float32. A slope is the sum of a number for its
// column and one for its row; a corner's light takes the root of their sum, the distance; a spot
// their product, a Gaussian. These numbers are computed in float64. Shadows are polygons of whole
// corners, which may cross themselves: a pixel is inside where an odd number of edges lies behind
// it in its row. All in integers, so that processors agree.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/dispatch/kernel_stub.h"
#include "core/pixels/operations.h"

namespace visops {

enum class Shade : int32_t { kSlope, kCorner, kSpot, kShadows };

struct ShadowCorner {
  int32_t x, y;
};

// An edge from its upper end to its lower one, which it doesn't have.
struct ShadowEdge {
  ShadowCorner upper, lower;

  VISOPS_DEVICE bool crosses(int64_t y) const { return upper.y <= y && y < lower.y; }
  VISOPS_DEVICE int64_t height() const { return int64_t{lower.y} - upper.y; }
  // How far it is to the right of its upper end in row y, times its height.
  VISOPS_DEVICE int64_t moved(int64_t y) const {
    return (y - upper.y) * (int64_t{lower.x} - upper.x);
  }
  // Whether it lies behind a pixel of a row that it crosses.
  VISOPS_DEVICE bool is_behind(int64_t x, int64_t y) const {
    return (x - upper.x) * height() < moved(y);
  }
};

// Edge `i` of a polygon.
VISOPS_FN ShadowEdge shadow_edge(const ShadowCorner* corners, int64_t count, int64_t i) {
  const ShadowCorner a = corners[i], b = corners[i + 1 < count ? i + 1 : 0];
  return a.y < b.y ? ShadowEdge{a, b} : ShadowEdge{b, a};
}

// The factor of a pixel by the numbers of its column and its row; not of shadows.
VISOPS_FN float light_of(Shade shade, float strength, float column, float row) {
  switch (shade) {
    case Shade::kCorner: return 1.0f - strength * sqrtf(column + row);
    case Shade::kSpot: return 1.0f + strength * (column * row);
    default: return column + row;
  }
}

template <class T>
VISOPS_FN T shaded(T value, float factor) {
  const float product = static_cast<float>(value) * factor;
  T out;
  store_element(&out, sizeof(T) == 1 ? product : clamped(product, 1.0f));
  return out;
}

// What an operation does to an image.
struct Shading {
  Shade shade = Shade::kSlope;
  float strength = 0.0f;
  std::vector<float> columns, rows;   // [width], [height]: of light
  std::vector<float> rests;           // [shadows]: what each leaves
  std::vector<ShadowCorner> corners;  // [shadows, count]
  int64_t count = 0;
};

VISOPS_FN bool is_shading(PixelKind kind) {
  return kind == PixelKind::kIllumination || kind == PixelKind::kShadows;
}

Shading shading_of(const PixelOperation& operation, int64_t height, int64_t width);

// A row of an image, multiplied in place.
struct ShadeParams {
  void* row;
  DType dtype;                     // uint8 or float32
  int64_t channels, plane, width;  // plane: elements from a channel to the next
  const float* factor;             // [width]
};

extern KernelStub<ShadeParams> shade_stub;

// False: the operation is of another kind.
bool run_shading(const PixelOperation& operation, const PixelImage& image);

// Clouds of random numbers: albumentations' form of diamonds and squares.
//
// NOTE [ Clouds ]
// A grid of 3 x 3 points is refined until it covers the image: points between those of a grid get
// the mean of four neighbours and noise, whose strength the roughness multiplies at each scale. A
// mean that is not positive leaves 0, and 0 lies beyond the grid. Each grid is stretched to [0, 1].

// How many random numbers they take: those of each grid, row by row, the coarsest first.
int64_t cloud_numbers(int64_t height, int64_t width);

// Writes clouds [height, width] in [0, 1] by `numbers` in [0, 1).
void make_clouds(const float* numbers, double roughness, int64_t height, int64_t width,
                 float* clouds);

}  // namespace visops
