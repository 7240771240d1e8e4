#include "core/chain/make_field.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/chain/steps/numbers.h"
#include "core/dispatch/plain_kernel.h"
#include "core/pixels/clouds.h"
#include "core/pixels/filters/blur_taps.h"
#include "core/pixels/filters/filter.h"
#include "core/pixels/noise.h"

namespace visops {
namespace {

void fill_with_units(float* data, int64_t count, double key, const Threads& threads) {
  const NoiseParams p = {
      data, DType::kFloat32, count, count, NoiseKind::kUnit, key_of(key), 0.0, 0.0, false};
  threads.with_workspace([&](Workspace& workspace) { plain_kernel(noise_stub)(p, workspace); });
}

// Blurs a plane of uniform noise, of which 1 and 0 become factor and -factor.
void blur_noise(float* plane, const FieldSize& size, float factor, const double* sigma,
                int64_t radius) {
  const Taps row = gaussian_taps(2 * radius + 1, sigma[0]);
  const Taps column = gaussian_taps(2 * radius + 1, sigma[1]);
  std::vector<float> scratch(
      static_cast<size_t>(filter_scratch(size.height, size.width, radius, radius)));
  FilterParams p = {};
  p.source = p.target = plane;
  p.dtype = DType::kFloat32;
  p.height = size.height;
  p.width = size.width;
  p.row = row.data();
  p.column = column.data();
  p.row_radius = p.column_radius = radius;
  p.factor = 2.0f * factor;  // taps add up to 1: 2 u - 1 may be taken afterwards
  p.shift = -factor;
  p.scratch = scratch.data();
  run_plain(filter_stub, p);
}

// NOTE [ Elastic fields ]
// torchvision's elastic transform: uniform noise in [-1, 1] that is blurred and multiplied. The x
// field's kernel reaches radius[0] pixels in both directions and the y field's radius[1]; both have
// the widths sigma x and y. A field whose own sigma is 0 isn't blurred.
//
// Noise that a wide Gaussian has blurred changes slowly. At every s-th pixel it has the variance
// and the correlations of noise there alone that is s times less and is blurred by sigma / s. So
// that is what is made, and straight lines between: the standard deviation there is up to 1% too
// small.
void elastic_field(const FieldSize& size, double key, const double* factor, const double* sigma,
                   const double* radius, float* field, const Threads& threads) {
  const int64_t plane = size.height * size.width;
  int64_t step = 1;
  while (step < 8 && std::min(sigma[0], sigma[1]) >= 5.0 * static_cast<double>(step) &&
         std::min(size.height, size.width) > 16 * step) {
    step *= 2;
  }
  const FieldSize coarse = {(size.height + step - 2) / step + 1,
                            (size.width + step - 2) / step + 1};
  const int64_t count = coarse.height * coarse.width;
  std::vector<float> own(step > 1 ? static_cast<size_t>(2 * count) : 0);
  float* const noise = step > 1 ? own.data() : field;
  fill_with_units(noise, 2 * count, key, threads);
  const double part = static_cast<double>(step);
  const double widths[2] = {sigma[0] / part, sigma[1] / part};
  const auto finish = [&](int64_t begin, int64_t end) {
    for (int64_t axis = begin; axis < end; ++axis) {
      const auto scale = static_cast<float>(factor[axis] / part);
      float* const to = field + axis * plane;
      if (!(sigma[axis] > 0.0)) {
        for (int64_t i = 0; i < plane; ++i) to[i] = (to[i] * 2.0f - 1.0f) * scale;
        continue;
      }
      const auto reach = static_cast<int64_t>(std::ceil(radius[axis] / part));
      blur_noise(noise + axis * count, coarse, scale, widths, reach);
      if (step > 1) widen_field(noise + axis * count, coarse, step, size, to);
    }
  };
  threads.with_workspace([&](Workspace& workspace) { parallel_for(workspace, 2, 1, finish); });
}

}  // namespace

void make_field(const FieldTask& task, const Threads& threads) {
  const auto& [kind, values, size, field] = task;
  FieldReader reader("the field " + kind, values);
  if (size.height < 1 || size.width < 1) reader.refuse("has no pixels");
  if (kind == "grid") {
    const int64_t rows = reader.whole("rows"), columns = reader.whole("columns");
    if (rows < 1 || columns < 1) reader.refuse("has no points");
    const auto& shifts = reader.list("shifts", static_cast<size_t>(2 * rows * columns));
    grid_field(size, shifts.data(), rows, columns, reader.flag("spline"), field);
  } else if (kind == "steps") {
    const auto& x_steps = reader.list("x_steps");
    const auto& y_steps = reader.list("y_steps", x_steps.size());
    if (x_steps.empty()) reader.refuse("has no steps");
    steps_field(size, x_steps.data(), y_steps.data(), static_cast<int64_t>(x_steps.size()), field);
  } else if (kind == "lens") {
    lens_field(size, reader.number("k"), reader.flag("fisheye"), field);
  } else if (kind == "spline") {
    const auto& points = reader.list("points");
    const auto& moved = reader.list("moved", points.size());
    const auto count = static_cast<int64_t>(points.size() / 2);
    if (!spline_field(size, points.data(), moved.data(), count, field)) {
      throw std::invalid_argument("the points determine no thin-plate spline");
    }
  } else if (kind == "elastic") {
    elastic_field(size, reader.number("key"), reader.list("factor", 2).data(),
                  reader.list("sigma", 2).data(), reader.list("radius", 2).data(), field, threads);
  } else if (kind == "clouds") {
    const int64_t count = cloud_numbers(size.height, size.width);
    std::vector<float> noise(static_cast<size_t>(count));
    fill_with_units(noise.data(), count, reader.number("key"), threads);
    make_clouds(noise.data(), reader.number("roughness"), size.height, size.width, field);
  } else {
    reader.refuse("is unknown");
  }
  reader.finish();
}

}  // namespace visops
