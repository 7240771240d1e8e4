#include "core/warp/fields.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/platform.h"
#include "core/warp/remap_pixel.h"

namespace visops {

void grid_field(const FieldSize& size, const double* grid, int64_t rows, int64_t columns,
                bool spline, float* field) {
  const MapGrid kind = spline ? MapGrid::kSpline : MapGrid::kLinear;
  std::vector<GridTaps<double>> across;
  for (int64_t x = 0; x < size.width; ++x) {
    across.push_back(grid_taps<double>(kind, x, size.width, columns));
  }
  std::vector<double> line(static_cast<size_t>(columns));
  for (int64_t axis = 0; axis < 2; ++axis, grid += rows * columns) {
    for (int64_t y = 0; y < size.height; ++y) {
      const GridTaps<double> down = grid_taps<double>(kind, y, size.height, rows);
      for (int64_t c = 0; c < columns; ++c) {
        line[static_cast<size_t>(c)] = grid_column(kind, down, grid, columns, c);
      }
      for (const GridTaps<double>& taps : across) {
        const double* const numbers = line.data();
        *field++ = static_cast<float>(grid_column(kind, taps, numbers, 1, 0));
      }
    }
  }
}

void steps_field(const FieldSize& size, const double* x_steps, const double* y_steps, int64_t steps,
                 float* field) {
  const auto shifts = [&](int64_t side, const double* own) {
    std::vector<float> out(static_cast<size_t>(side));
    const int64_t step = side / (steps - 1);
    double before = 0.0;
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t start = i * step, end = std::min(start + step, side);
      const double after = before + static_cast<double>(step) * own[i];
      for (int64_t k = start; k < end; ++k) {  // numpy.linspace: the last is `after` itself
        const double share =
            end - start > 1 ? static_cast<double>(k - start) / static_cast<double>(end - start - 1)
                            : 0.0;
        const auto position = static_cast<float>(before + share * (after - before));
        out[static_cast<size_t>(k)] = position - static_cast<float>(k);
      }
      before = after;
    }
    return out;
  };
  const std::vector<float> x = shifts(size.width, x_steps), y = shifts(size.height, y_steps);
  for (int64_t row = 0; row < size.height; ++row) field = std::copy(x.begin(), x.end(), field);
  for (const float shift : y) field = std::fill_n(field, size.width, shift);
}

void lens_field(const FieldSize& size, double k, bool fisheye, float* field) {
  const double height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  const double half = fisheye ? 0.0 : 0.5;
  const double middle_x = width / 2.0 - half, middle_y = height / 2.0 - half;
  const double corner = width * width / 4.0 + height * height / 4.0;
  // The radius grows by the share k r + more r^2, of squared radii r.
  const auto x_scale = static_cast<float>(fisheye ? 1.0 / corner : 1.0 / (width * width));
  const auto y_scale = static_cast<float>(fisheye ? 1.0 / corner : 1.0 / (height * height));
  const auto once = static_cast<float>(k), twice = fisheye ? 0.0f : once;
  std::vector<float> across;
  for (int64_t column = 0; column < size.width; ++column) {
    across.push_back(static_cast<float>(static_cast<double>(column) - middle_x));
  }
  float* VISOPS_RESTRICT x_field = field;
  float* VISOPS_RESTRICT y_field = field + size.height * size.width;
  const float* const dx = across.data();
  for (int64_t row = 0; row < size.height; ++row) {
    const auto dy = static_cast<float>(static_cast<double>(row) - middle_y);
    const float down = dy * dy * y_scale;
    for (int64_t i = 0; i < size.width; ++i) {
      const float r = dx[i] * dx[i] * x_scale + down;
      const float share = once * r + twice * r * r;
      x_field[i] = dx[i] * share;
      y_field[i] = dy * share;
    }
    x_field += size.width;
    y_field += size.width;
  }
}

namespace {

// Solves a system [n, n] for two right sides [n, 2] by elimination with pivots.
bool solve(std::vector<double>& a, std::vector<double>& b, size_t n) {
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i) {
      if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
    }
    if (!(std::fabs(a[pivot * n + k]) > 1e-12)) return false;
    for (size_t j = 0; j < n; ++j) std::swap(a[k * n + j], a[pivot * n + j]);
    for (size_t j = 0; j < 2; ++j) std::swap(b[k * 2 + j], b[pivot * 2 + j]);
    for (size_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const double ratio = a[i * n + k] / a[k * n + k];
      for (size_t j = k; j < n; ++j) a[i * n + j] -= ratio * a[k * n + j];
      for (size_t j = 0; j < 2; ++j) b[i * 2 + j] -= ratio * b[k * 2 + j];
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < 2; ++j) b[i * 2 + j] /= a[i * n + i];
  }
  return true;
}

// r^2 ln r, by the squared distance.
double bending(double squared) { return squared > 0.0 ? 0.5 * squared * std::log(squared) : 0.0; }

}  // namespace

bool spline_field(const FieldSize& size, const double* points, const double* moved, int64_t count,
                  float* field) {
  const auto n = static_cast<size_t>(count), all = n + 3;
  const auto squared = [&](double x, double y, size_t j) {
    const double dx = x - points[2 * j], dy = y - points[2 * j + 1];
    return dx * dx + dy * dy;
  };
  std::vector<double> a(all * all), b(all * 2);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      a[i * all + j] = bending(squared(points[2 * i], points[2 * i + 1], j));
    }
    const double affine[3] = {1.0, points[2 * i], points[2 * i + 1]};
    for (size_t j = 0; j < 3; ++j) a[i * all + n + j] = a[(n + j) * all + i] = affine[j];
    for (size_t j = 0; j < 2; ++j) b[i * 2 + j] = moved[2 * i + j] - points[2 * i + j];
  }
  if (!solve(a, b, all)) return false;
  const double sides[2] = {static_cast<double>(size.width), static_cast<double>(size.height)};
  // It bends slowly: some pixels, and straight lines between, are within 0.05 pixels of it.
  const int64_t step = std::min(size.height, size.width) >= 256 ? 4 : 2;
  const int64_t rows = (size.height + step - 2) / step + 1;
  const int64_t columns = (size.width + step - 2) / step + 1;
  std::vector<double> grid(static_cast<size_t>(2 * rows * columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const double share_x =
          columns > 1 ? static_cast<double>(c) / static_cast<double>(columns - 1) : 0.0;
      const double share_y =
          rows > 1 ? static_cast<double>(r) / static_cast<double>(rows - 1) : 0.0;
      const double x = share_x * (sides[0] - 1.0) / sides[0];
      const double y = share_y * (sides[1] - 1.0) / sides[1];
      double sum[2];
      for (size_t k = 0; k < 2; ++k)
        sum[k] = b[n * 2 + k] + b[n * 2 + 2 + k] * x + b[n * 2 + 4 + k] * y;
      for (size_t j = 0; j < n; ++j) {
        const double bent = bending(squared(x, y, j));
        for (size_t k = 0; k < 2; ++k) sum[k] += b[2 * j + k] * bent;
      }
      for (size_t k = 0; k < 2; ++k) {
        grid[(k * static_cast<size_t>(rows) + static_cast<size_t>(r)) *
                 static_cast<size_t>(columns) +
             static_cast<size_t>(c)] = sum[k] * sides[k];
      }
    }
  }
  grid_field(size, grid.data(), rows, columns, false, field);
  return true;
}

namespace {

// A line between each number and the next: kStep values, as far as there is room.
template <int kStep>
void widen_line(const float* line, int64_t count, float* to, int64_t size) {
  constexpr float kPart = 1.0f / static_cast<float>(kStep);
  const int64_t whole = std::min(size / kStep, count - 1);
  for (int64_t c = 0; c < whole; ++c) {
    const float first = line[c], change = (line[c + 1] - first) * kPart;
    for (int k = 0; k < kStep; ++k) to[c * kStep + k] = first + static_cast<float>(k) * change;
  }
  for (int64_t i = whole * kStep; i < size; ++i) {
    const int64_t c = i / kStep;
    const float first = line[c], change = (line[std::min(c + 1, count - 1)] - first) * kPart;
    to[i] = first + static_cast<float>(i % kStep) * change;
  }
}

template <int kStep>
void widen_by(const float* plane, const FieldSize& coarse, const FieldSize& size, float* field) {
  constexpr float kPart = 1.0f / static_cast<float>(kStep);
  const auto columns = static_cast<size_t>(coarse.width);
  std::vector<float> line(columns);
  for (int64_t y = 0; y < size.height; ++y, field += size.width) {
    const int64_t row = y / kStep;
    const float* const above = plane + row * coarse.width;
    const float* const below = plane + std::min(row + 1, coarse.height - 1) * coarse.width;
    const float share = static_cast<float>(y % kStep) * kPart;
    for (size_t c = 0; c < columns; ++c) line[c] = above[c] + share * (below[c] - above[c]);
    widen_line<kStep>(line.data(), coarse.width, field, size.width);
  }
}

}  // namespace

void widen_field(const float* plane, const FieldSize& coarse, int64_t step, const FieldSize& size,
                 float* field) {
  switch (step) {
    case 2: return widen_by<2>(plane, coarse, size, field);
    case 4: return widen_by<4>(plane, coarse, size, field);
    default: return widen_by<8>(plane, coarse, size, field);
  }
}

}  // namespace visops
