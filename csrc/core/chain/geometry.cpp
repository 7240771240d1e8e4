#include "core/chain/geometry.h"

#include <algorithm>
#include <cmath>

namespace visops {
namespace {

// Windows are rounded to 2^-16 pixels: an edge at 117.00000000000001 must not let column 118 in.
constexpr double kSnap = 65536.0;

// By how much a resize into this length moves the image against the grid.
double tie_shift(double scale, double length) {
  if (scale == 1.0 || scale == -1.0) return 0.0;
  return scale / (4.0 * std::max(length, 1.0));
}

}  // namespace

void GeometryState::scale(double x_scale, double y_scale, double x_shift, double y_shift,
                          const Canvas& after, bool exact, bool cuts) {
  if (projective) {
    project({x_scale, 0.0, x_shift, 0.0, y_scale, y_shift, 0.0, 0.0, 1.0});
  } else {
    for (int i = 0; i < 3; ++i) matrix[i] *= x_scale;
    for (int i = 3; i < 6; ++i) matrix[i] *= y_scale;
    matrix[2] += x_shift;
    matrix[5] += y_shift;
    ties[0] = ties[0] * x_scale - tie_shift(x_scale, after.width);
    ties[1] = ties[1] * y_scale - tie_shift(y_scale, after.height);
  }
  show(after, exact, cuts);
}

void GeometryState::shift(double x, double y, const Canvas& after, bool exact, bool cuts) {
  if (projective) {
    project({1.0, 0.0, x, 0.0, 1.0, y, 0.0, 0.0, 1.0});
  } else {
    matrix[2] += x;
    matrix[5] += y;
  }
  show(after, exact, cuts);
}

void GeometryState::affine(const double (&m)[6], const Canvas& after) {
  if (projective) {
    project({m[0], m[1], m[2], m[3], m[4], m[5], 0.0, 0.0, 1.0});
  } else {
    const double a = matrix[0], b = matrix[1], c = matrix[2];
    const double d = matrix[3], e = matrix[4], f = matrix[5];
    for (int i = 0; i < 6; i += 3) {
      matrix[i] = m[i] * a + m[i + 1] * d;
      matrix[i + 1] = m[i] * b + m[i + 1] * e;
      matrix[i + 2] = m[i] * c + m[i + 1] * f + m[i + 2];
    }
    const double x = ties[0], y = ties[1];
    ties[0] = m[0] * x + m[1] * y;
    ties[1] = m[3] * x + m[4] * y;
  }
  aligned = false;
  canvas = after;
}

void GeometryState::perspective(const double (&m)[9], const Canvas& after) {
  project(m);
  aligned = false;
  canvas = after;
}

void GeometryState::project(const double (&m)[9]) {
  double product[9];
  for (int row = 0; row < 9; row += 3) {
    for (int column = 0; column < 3; ++column) {
      product[row + column] = m[row] * matrix[column] + m[row + 1] * matrix[column + 3] +
                              m[row + 2] * matrix[column + 6];
    }
  }
  std::copy_n(product, 9, matrix);
  projective = true;
  ties[0] = ties[1] = 0.0;
}

void GeometryState::show(const Canvas& after, bool exact, bool cuts) {
  canvas = after;
  // Whether there is a window depends on the transforms alone, not on a sample's draw: a batch has
  // one for all of its samples or for none.
  if (!(exact && aligned && cuts)) return;
  if (!has_window) {
    window[0] = window[1] = 0.0;
    window[2] = source.width;
    window[3] = source.height;
    has_window = true;
  }
  const double* const m = matrix;
  // Both edges of the canvas along each axis, in source coordinates.
  const double edges[2][2] = {{-m[2] / m[0], (canvas.width - m[2]) / m[0]},
                              {-m[5] / m[4], (canvas.height - m[5]) / m[4]}};
  for (int axis = 0; axis < 2; ++axis) {
    const double low = std::min(edges[axis][0], edges[axis][1]);
    const double high = std::max(edges[axis][0], edges[axis][1]);
    const double first = window[axis], last = window[axis + 2];
    const double begin = std::min(std::max(first, low), last);
    const double end = std::max(std::min(last, high), first);
    window[axis] = std::nearbyint(begin * kSnap) * (1.0 / kSnap);
    window[axis + 2] = std::nearbyint(end * kSnap) * (1.0 / kSnap);
  }
}

void GeometryState::skip(const GeometryState& before) {
  const GeometryState after = *this;
  *this = before;
  projective = after.projective;
  aligned = after.aligned;
  if (projective) ties[0] = ties[1] = 0.0;
  if (after.has_window && !has_window) {
    window[0] = window[1] = 0.0;
    window[2] = source.width;
    window[3] = source.height;
    has_window = true;
  }
}

void GeometryState::write_rows(bool nearest, double* out) const {
  std::copy_n(matrix, 3 * rows(), out);
  if (nearest && !projective) {
    out[2] += ties[0];
    out[5] += ties[1];
  }
}

bool GeometryState::is_identity() const {
  constexpr double kIdentity[9] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0};
  return source.height == canvas.height && source.width == canvas.width &&
         std::equal(kIdentity, kIdentity + 9, matrix);
}

}  // namespace visops
