// Masks of ops/transforms/targets/masks.py: the nearest pixel, or `fill`. A single mask is small,
// and most of its time would go into a call through torch's dispatcher.
#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "python/array.h"
#include "python/augment.h"
#include "python/bindings.h"
#include "python/plan.h"
#include "python/strided_data.h"

namespace visops {
namespace {

struct Size {
  int64_t height, width;
};

// Moves masks [N, H, W] by a 3 x 3 matrix into masks of the same dtype, both given as address and
// strides, which the caller owns.
void move(py::handle source, py::handle target, const std::string& dtype, int64_t count,
          Size size_in, Size size_out, const double* matrix, double fill) {
  const StridedData from = read_strided_data(source, 3), to = read_strided_data(target, 3);
  AugmentParams p = {};
  p.first = {from.address,    size_in.height,  size_in.width,
             from.strides[0], from.strides[1], from.strides[2]};
  p.batch = 1;
  p.channels = count;
  p.dtype = p.output_dtype = dtype_named(dtype);
  p.matrix = {matrix, DType::kFloat64, true, 0, 3, 1};
  p.matrix_rows = 3;
  p.mode = Interpolation::kNearest;
  p.padding = Padding::kConstant;
  p.half_pixel = true;
  p.output_height = size_out.height;
  p.output_width = size_out.width;
  p.output = to.address;
  p.output_stride = {0, to.strides[0], to.strides[1], to.strides[2]};
  const std::vector<double> none, fills = {fill}, zero = {0.0};
  const AugmentValues values = {fills, none, none, zero};
  run_augment(p, values);
}

void move_masks(py::handle source, py::handle target, const std::string& dtype, int64_t count,
                std::pair<int64_t, int64_t> size_in, std::pair<int64_t, int64_t> size_out,
                const py::array_t<double, py::array::c_style>& matrix, double fill) {
  if (matrix.size() != 9) throw std::invalid_argument("the matrix must be [3, 3]");
  move(source, target, dtype, count, {size_in.first, size_in.second},
       {size_out.first, size_out.second}, matrix.data(), fill);
}

// As a sample's image moves.
void move_drawn_masks(const PlanObject& plan, py::handle source, py::handle target,
                      const std::string& dtype, int64_t count, double fill) {
  const GeometryState& at = plan.first();
  double matrix[9];
  std::copy_n(at.matrix, 9, matrix);
  matrix[2] += at.ties[0];
  matrix[5] += at.ties[1];
  const auto size_of = [](const Canvas& canvas) {
    return Size{static_cast<int64_t>(canvas.height), static_cast<int64_t>(canvas.width)};
  };
  move(source, target, dtype, count, size_of(at.source), size_of(at.canvas), matrix, fill);
}

}  // namespace

void bind_masks(py::module_& m) {
  m.def("move_masks", &move_masks);
  m.def("move_drawn_masks", &move_drawn_masks);
}

}  // namespace visops
