#include "core/warp/remap.h"

#include <algorithm>
#include <cmath>

namespace visops {

KernelStub<RemapParams> remap_stub{"remap"};

namespace {

// A map between its pixels, which goes on as at its rim outside.
double map_at(const RemapParams& p, const float* map, double x, double y) {
  const double right = static_cast<double>(p.target_width - 1);
  const double bottom = static_cast<double>(p.target_height - 1);
  const double u = std::min(std::max(x, 0.0), right), v = std::min(std::max(y, 0.0), bottom);
  const auto x0 = static_cast<int64_t>(u), y0 = static_cast<int64_t>(v);
  const int64_t x1 = std::min(x0 + 1, p.target_width - 1),
                y1 = std::min(y0 + 1, p.target_height - 1);
  const double fx = u - static_cast<double>(x0), fy = v - static_cast<double>(y0);
  const auto row = [&](int64_t at) {
    const float* const line = map + at * p.target_width;
    return static_cast<double>(line[x0]) * (1.0 - fx) + static_cast<double>(line[x1]) * fx;
  };
  return row(y0) * (1.0 - fy) + row(y1) * fy;
}

}  // namespace

void invert_map(const RemapParams& p, const double* points, int64_t count, double* moved) {
  for (int64_t i = 0; i < count; ++i) {
    const double px = points[2 * i], py = points[2 * i + 1];
    double x = px, y = py;
    for (int turn = 0; turn < 100 && std::isfinite(x) && std::isfinite(y); ++turn) {
      const double next_x = px - map_at(p, p.x, x, y), next_y = py - map_at(p, p.y, x, y);
      const double step = std::fabs(next_x - x) + std::fabs(next_y - y);
      x = next_x;
      y = next_y;
      if (step < 1e-4) break;
    }
    moved[2 * i] = x;
    moved[2 * i + 1] = y;
  }
}

}  // namespace visops
