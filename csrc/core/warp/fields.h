// Displacements of an image's pixels, made of a few numbers: what bends an image.
//
// Every field is [2, height, width] in pixels, x before y: output pixel (x, y) is read from
// (x + field[0], y + field[1]) of the source.
#pragma once

#include <cstdint>

namespace visops {

struct FieldSize {
  int64_t height, width;
};

// A grid of displacements [2, rows, columns] whose corners lie on the image's corner pixels:
// bilinear, or a cubic B-spline, of which the grid holds the coefficients and goes on as at its
// rim.
void grid_field(const FieldSize& size, const double* grid, int64_t rows, int64_t columns,
                bool spline, float* field);

// albumentations' grid distortion: along each axis, step i of `steps` numbers covers
// floor(side / (steps - 1)) pixels of the output and steps[i] times as many of the source.
void steps_field(const FieldSize& size, const double* x_steps, const double* y_steps, int64_t steps,
                 float* field);

// OpenCV's radial distortion about the middle pixel: camera, with k1 = k2 = k and a focal length of
// the image's sides; or albumentations' fisheye about W / 2, H / 2, r' = r (1 + k r^2) with r = 1
// in the corners.
void lens_field(const FieldSize& size, double k, bool fisheye, float* field);

// A thin-plate spline through control points [count, 2] x, y that move to `moved`, both in units of
// the image's sides. False where the points determine none.
bool spline_field(const FieldSize& size, const double* points, const double* moved, int64_t count,
                  float* field);

// Straight lines between the numbers of a plane that are `step` pixels apart, 2, 4 or 8, the first
// on the first pixel: [coarse] to [size].
void widen_field(const float* plane, const FieldSize& coarse, int64_t step, const FieldSize& size,
                 float* field);

// The positions in [0, n - 1] of `points` [count, 2] x, y of the source, to which a field moves
// them: q with q + field(q) = p to 1e-4 pixels. Where several are read from p, one in the image
// comes first. NOTE [ Inverse of a field ] says how they are found.
void invert_field(const FieldSize& size, const float* field, const double* points, int64_t count,
                  double* moved);

}  // namespace visops
