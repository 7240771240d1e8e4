// Geometry of chains, and what runs their steps. NOTE: arithmetic is that of ops/transforms/engine,
// operation by operation; numbers are doubles on both sides, and products never join sums.
#include "core/warp/chain.h"

#include <algorithm>

#include "core/philox.h"

namespace visops {
namespace {

// By how much a resize into this length moves the image against the grid.
double tie_shift(double scale, double length) {
  if (scale == 1.0 || scale == -1.0) return 0.0;
  return scale / (4.0 * std::max(length, 1.0));
}

}  // namespace

void Placement::scale(double x_scale, double y_scale, double x_shift, double y_shift,
                      double new_height, double new_width) {
  if (projective) {
    perspective({x_scale, 0.0, x_shift, 0.0, y_scale, y_shift, 0.0, 0.0, 1.0});
  } else {
    for (int i = 0; i < 3; ++i) matrix[i] *= x_scale;
    for (int i = 3; i < 6; ++i) matrix[i] *= y_scale;
    matrix[2] += x_shift;
    matrix[5] += y_shift;
    ties[0] = ties[0] * x_scale - tie_shift(x_scale, new_width);
    ties[1] = ties[1] * y_scale - tie_shift(y_scale, new_height);
  }
  height = new_height;
  width = new_width;
}

void Placement::shift(double x, double y, double new_height, double new_width) {
  if (projective) {
    perspective({1.0, 0.0, x, 0.0, 1.0, y, 0.0, 0.0, 1.0});
  } else {
    matrix[2] += x;
    matrix[5] += y;
  }
  height = new_height;
  width = new_width;
}

void Placement::affine(const double (&m)[6]) {
  if (projective) {
    perspective({m[0], m[1], m[2], m[3], m[4], m[5], 0.0, 0.0, 1.0});
    return;
  }
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

void Placement::perspective(const double (&m)[9]) {
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

double ChainStep::draw(Uniforms& uniforms, int64_t place) const { return uniforms[first + place]; }

bool draw_chain(const std::vector<ChainStep>& steps, uint64_t seed, uint64_t epoch,
                const std::vector<uint64_t>& indices, const int64_t* sizes, int64_t channels,
                ChainPlan* plan) {
  plan->batch = static_cast<int64_t>(indices.size());
  plan->channels = channels;
  for (const ChainStep& step : steps) {
    plan->color_steps += channels == 1 ? step.gray_colors : step.colors;
    plan->erase_steps += step.erases;
  }
  plan->placements.resize(indices.size());
  plan->colors.resize(indices.size() * static_cast<size_t>(plan->color_steps));
  plan->erased.resize(indices.size() * static_cast<size_t>(plan->erase_steps) * 4);
  for (int64_t sample = 0; sample < plan->batch; ++sample) {
    Uniforms uniforms(seed, epoch, indices[static_cast<size_t>(sample)]);
    Draft draft = {{},
                   plan->colors.data() + sample * plan->color_steps,
                   plan->erased.data() + sample * plan->erase_steps * 4,
                   channels};
    draft.placement.height = static_cast<double>(sizes[2 * sample]);
    draft.placement.width = static_cast<double>(sizes[2 * sample + 1]);
    for (const ChainStep& step : steps) {
      if (!step.run(step, uniforms, draft)) return false;
    }
    plan->placements[static_cast<size_t>(sample)] = draft.placement;
  }
  return true;
}

}  // namespace visops
