// visops.augment of one small batch on the CPU. torch's dispatcher takes 14 microseconds for a call
// with as many arguments; here it is two. ops/warp/augment_direct.py says when it is taken.
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/warp/affine.h"
#include "core/warp/augment.h"
#include "python/bindings.h"
#include "torch/threads.h"

namespace visops {
namespace {

constexpr const char* kOp = "augment";

using Numbers = std::vector<double>;
using Shape = std::vector<int64_t>;
// Address and shape of a contiguous tensor, whose dtype the caller has checked.
using Block = std::optional<std::pair<int64_t, Shape>>;

const void* data_of(const Block& block) { return reinterpret_cast<const void*>(block->first); }

// Tensors are an address with strides, beside their shape and dtype; `out` is not empty. Where this
// throws, the caller calls the operator, which says what is wrong.
void augment(py::handle image, const Shape& shape, const std::string& dtype, py::handle out,
             const Shape& out_shape, const std::string& out_dtype, py::handle matrix,
             const Shape& matrix_shape, const std::string& matrix_dtype,
             const std::string& interpolation, const std::string& padding_mode, const Numbers& fill,
             bool antialias, const Block& window, const Block& color, bool clamp,
             const Numbers& mean, const Numbers& std, const Block& erase,
             const Numbers& erase_value, bool inverse_map, bool half_pixel) {
  if (shape.size() != 4 || out_shape.size() != 4) throw std::invalid_argument("not [B, C, H, W]");
  const StridedData from = read_strided_data(image, 4), to = read_strided_data(out, 4);
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
  check_matrix_shape(kOp, p, matrix_shape);
  const StridedData map = read_strided_data(matrix, matrix_shape.size());
  set_matrix(kOp, p, map.address, dtype_named(matrix_dtype), matrix_shape, map.strides);
  p.mode = parse_sampling(kOp, interpolation);
  p.padding = parse_padding(kOp, padding_mode);
  p.antialias = antialias;
  p.inverse_map = inverse_map;
  p.half_pixel = half_pixel;
  p.clamp = clamp;
  if (window) set_window(kOp, p, data_of(window), window->second);
  if (color) set_color(kOp, p, data_of(color), color->second);
  if (erase) set_erase(kOp, p, data_of(erase), erase->second);
  const AugmentValues values = {fill, mean, std, erase_value};
  const int64_t elements = p.batch * p.output_height * p.channels * p.output_width;
  run_unlocked(elements, [&] { run_augment(p, values, torch_threads()); });
}

}  // namespace

void bind_augment(py::module_& m) { m.def("augment", &augment); }

}  // namespace visops
