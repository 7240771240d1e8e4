// visops.augment of one small batch on the CPU. torch's dispatcher takes 14 microseconds for a call
// with as many arguments; here it is two. ops/warp/augment_direct.py says when it is taken.
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/warp/affine_front.h"
#include "core/warp/augment_front.h"
#include "numpy/array.h"
#include "numpy/augment.h"
#include "numpy/bindings.h"
#include "numpy/place.h"

namespace visops {
namespace {

constexpr const char* kOp = "augment";
// With fewer elements, a call ends before another thread could use the interpreter.
constexpr int64_t kKeepGil = 16384;

using Numbers = std::vector<double>;
using Shape = std::vector<int64_t>;
// Address and shape of a contiguous tensor, whose dtype the caller has checked.
using Block = std::optional<std::pair<int64_t, Shape>>;

// The caller calls the operator, which says what is wrong.
void require_fit(bool fits) {
  if (!fits) throw std::invalid_argument("tensors of other shapes than the operator takes");
}

template <class T>
const T* data_of(const Block& block) {
  return reinterpret_cast<const T*>(block->first);
}

void set_matrix(AugmentParams& p, py::handle place, const Shape& shape, const std::string& dtype) {
  const size_t rank = shape.size();
  require_fit((rank == 2 || rank == 3) && shape[rank - 1] == 3);
  require_fit((shape[rank - 2] == 2 || shape[rank - 2] == 3) && (rank == 2 || shape[0] == p.batch));
  const Place at = place_of(place, rank);
  p.matrix = {at.address,           dtype_named(dtype),  rank == 2, rank == 3 ? at.strides[0] : 0,
              at.strides[rank - 2], at.strides[rank - 1]};
  require_fit(is_floating(p.matrix.dtype));
  p.matrix_rows = static_cast<int>(shape[rank - 2]);
}

void set_blocks(AugmentParams& p, const Block& window, const Block& color, const Block& erase) {
  if (window) {
    require_fit(window->second == Shape{p.batch, 4});
    p.window = data_of<double>(window);
  }
  if (color) {
    const Shape& shape = color->second;
    require_fit(shape.size() == 4 && (shape[0] == p.batch || shape[0] == 1));
    require_fit(shape[2] == p.channels && shape[3] == p.channels + 1);
    require_fit(shape[1] >= 1 && shape[1] <= kMaxColorSteps);
    p.color = data_of<double>(color);
    p.color_shared = shape[0] != p.batch || p.batch == 1;
    p.color_steps = shape[1];
  }
  if (erase) {
    const Shape& shape = erase->second;
    require_fit(shape.size() == 3 && shape[0] == p.batch && shape[2] == 4);
    p.erase = data_of<int64_t>(erase);
    p.erase_count = shape[1];
  }
}

// Tensors are an address with strides, beside their shape and dtype; `out` is not empty.
void augment(py::handle image, const Shape& shape, const std::string& dtype, py::handle out,
             const Shape& out_shape, const std::string& out_dtype, py::handle matrix,
             const Shape& matrix_shape, const std::string& matrix_dtype,
             const std::string& interpolation, const std::string& padding_mode, const Numbers& fill,
             bool antialias, const Block& window, const Block& color, bool clamp,
             const Numbers& mean, const Numbers& std, const Block& erase,
             const Numbers& erase_value, bool inverse_map, bool half_pixel) {
  require_fit(shape.size() == 4 && out_shape.size() == 4);
  const Place from = place_of(image, 4), to = place_of(out, 4);
  AugmentParams p = {};
  p.batch = shape[0];
  p.channels = shape[1];
  p.first = {from.address, shape[2], shape[3], from.strides[1], from.strides[2], from.strides[3]};
  p.image_batch_stride = from.strides[0];
  p.dtype = dtype_named(dtype);
  p.output_dtype = dtype_named(out_dtype);
  p.output_height = out_shape[2];
  p.output_width = out_shape[3];
  p.output = to.address;
  p.output_stride = {to.strides[0], to.strides[1], to.strides[2], to.strides[3]};
  set_matrix(p, matrix, matrix_shape, matrix_dtype);
  p.mode = parse_interpolation(kOp, interpolation);
  p.padding = parse_padding(kOp, padding_mode);
  p.antialias = antialias;
  p.inverse_map = inverse_map;
  p.half_pixel = half_pixel;
  p.clamp = clamp;
  set_blocks(p, window, color, erase);
  const AugmentValues values = {fill, mean, std, erase_value};
  check_augment(kOp, p, values);
  check_augment_data(kOp, p);
  set_values(p, values);
  const int64_t row_elements = p.channels * p.output_width;
  const auto run = [&] { run_augment(p, 4 * row_elements); };
  if (p.batch * p.output_height * row_elements < kKeepGil) {
    run();
  } else {
    const py::gil_scoped_release release;
    run();
  }
}

}  // namespace

void bind_augment(py::module_& m) { m.def("augment", &augment); }

}  // namespace visops
