// Rotations and affine maps, for steps.
#pragma once

namespace visops {

struct Rotation {
  double c, s;  // cosine and sine
};

// Exact at multiples of 90 degrees.
Rotation rotation_of(double degrees);

struct AffineMap {
  double m[6];
};

// The affine map with linear part a, b, c, d that fixes (x, y) and then shifts.
AffineMap about(double a, double b, double c, double d, double x, double y, double x_shift = 0.0,
                double y_shift = 0.0);

}  // namespace visops
