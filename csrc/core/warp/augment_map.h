// The map of one sample: from the given matrix to destination -> source.
#pragma once

#include "core/warp/augment.h"

namespace visops {

// Destination -> source, integer pixel centres, homogeneous: m[8] is 1 for an affine map.
struct AugmentMap {
  double m[9];
  bool valid;  // finite and, if it had to be inverted, not singular
  bool perspective;
  bool integral;            // all coordinates are integers
  double width_x, width_y;  // footprint of an affine map; 1 for perspective
};

// p = inverse(m). False if m's determinant is within the rounding error of computing it.
VISOPS_FN bool invert_homography(const double m[9], double p[9]) {
  const double c0 = m[4] * m[8] - m[5] * m[7];
  const double c1 = m[5] * m[6] - m[3] * m[8];
  const double c2 = m[3] * m[7] - m[4] * m[6];
  const double det = m[0] * c0 + (m[1] * c1 + m[2] * c2);
  const double size = fabs(m[0]) * (fabs(m[4] * m[8]) + fabs(m[5] * m[7])) +
                      (fabs(m[1]) * (fabs(m[5] * m[6]) + fabs(m[3] * m[8])) +
                       fabs(m[2]) * (fabs(m[3] * m[7]) + fabs(m[4] * m[6])));
  if (!(fabs(det) > 8.881784197001252e-16 * size) || !is_finite(1.0 / det)) return false;  // 2^-50
  p[0] = c0 / det;
  p[1] = (m[2] * m[7] - m[1] * m[8]) / det;
  p[2] = (m[1] * m[5] - m[2] * m[4]) / det;
  p[3] = c1 / det;
  p[4] = (m[0] * m[8] - m[2] * m[6]) / det;
  p[5] = (m[2] * m[3] - m[0] * m[5]) / det;
  p[6] = c2 / det;
  p[7] = (m[1] * m[6] - m[0] * m[7]) / det;
  p[8] = (m[0] * m[4] - m[1] * m[3]) / det;
  return true;
}

// The given matrix, in nine elements.
VISOPS_FN void load_matrix(const AugmentParams& p, int64_t sample, double given[9]) {
  given[6] = given[7] = 0.0;
  given[8] = 1.0;
  for (int i = 0; i < 9; ++i) {  // of constant length, so that GPUs keep it in registers
    if (i < 3 * p.matrix_rows) given[i] = load_matrix_element(p.matrix, sample, i / 3, i % 3);
  }
}

// What keeps a kernel from using the given matrix; the fronts' message depends on it.
enum class MatrixFault { kNone, kNotFinite, kSingular };

VISOPS_FN MatrixFault matrix_fault(const double given[9], bool inverse_map) {
  for (int i = 0; i < 9; ++i) {
    if (!is_finite(given[i])) return MatrixFault::kNotFinite;
  }
  const bool affine = given[6] == 0.0 && given[7] == 0.0;
  if (affine && !is_finite(1.0 / given[8])) return MatrixFault::kSingular;
  if (inverse_map) return MatrixFault::kNone;
  double inverse[9];
  const bool regular = affine ? !is_singular(given) : invert_homography(given, inverse);
  return regular ? MatrixFault::kNone : MatrixFault::kSingular;
}

// From the given matrix, which is overwritten.
VISOPS_FN AugmentMap map_of_matrix(const AugmentParams& p, double given[9]) {
  AugmentMap map;
  map.valid = matrix_fault(given, p.inverse_map) == MatrixFault::kNone;
  map.perspective = !(given[6] == 0.0 && given[7] == 0.0);
  map.integral = false;
  map.width_x = map.width_y = 1.0;
  for (int i = 0; i < 9; ++i) map.m[i] = 0.0;
  if (!map.valid) return map;
  double* m = map.m;
  if (!map.perspective) {
    for (int i = 0; i < 6; ++i) given[i] /= given[8];
    if (p.inverse_map) {
      for (int i = 0; i < 6; ++i) m[i] = given[i];
    } else {
      invert_affine(given, m);
    }
    m[8] = 1.0;
    if (p.half_pixel) {
      m[2] += 0.5 * (m[0] + m[1]) - 0.5;
      m[5] += 0.5 * (m[3] + m[4]) - 0.5;
    }
    map.integral = true;
    for (int i = 0; i < 6; ++i) {
      map.integral = map.integral && fabs(m[i]) < 1073741824.0 && m[i] == floor(m[i]);
    }
    map.width_x = sqrt(m[0] * m[0] + m[1] * m[1]);
    map.width_y = sqrt(m[3] * m[3] + m[4] * m[4]);
  } else {
    if (p.inverse_map) {
      for (int i = 0; i < 9; ++i) m[i] = given[i];
    } else {
      invert_homography(given, m);
    }
    if (p.half_pixel) {
      for (int i = 0; i < 9; i += 3) m[i + 2] += 0.5 * (m[i] + m[i + 1]);
      for (int i = 0; i < 3; ++i) {
        m[i] -= 0.5 * m[6 + i];
        m[3 + i] -= 0.5 * m[6 + i];
      }
    }
  }
  for (int i = 0; i < 9; ++i) map.valid = map.valid && is_finite(m[i]);
  return map;
}

VISOPS_FN AugmentMap augment_map(const AugmentParams& p, int64_t sample) {
  double given[9];
  load_matrix(p, sample, given);
  return map_of_matrix(p, given);
}

}  // namespace visops
