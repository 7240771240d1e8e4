// The NumPy front of the affine warp: HW and HWC arrays in OpenCV's layout.
#include "core/warp/affine.h"

#include "core/box.h"
#include "core/check.h"
#include "python/bindings.h"
#include "torch/threads.h"

namespace visops {
namespace {

constexpr const char* kOp = "warp_affine";

struct Matrix {
  py::array owner;
  MatrixView view;
};

// A float64 array is read in place; anything else is converted if NumPy can.
py::array float64_array(py::handle value) {
  if (py::isinstance<py::array_t<double>>(value)) return py::reinterpret_borrow<py::array>(value);
  const auto given = py::array::ensure(value);
  if (given && given.dtype().kind() != 'c') {
    auto converted = py::array_t<double, py::array::forcecast>::ensure(given);
    if (converted) return std::move(converted);
  }
  PyErr_Clear();
  throw py::type_error("visops.warp_affine: matrix can't be converted to a float64 array");
}

Matrix matrix_argument(py::handle value) {
  py::array array = float64_array(value);
  if (array.ndim() != 2 || array.shape(0) != 2 || array.shape(1) != 3) {
    const std::vector<py::ssize_t> shape(array.shape(), array.shape() + array.ndim());
    fail(kOp, "matrix has shape ", shape_text(shape), ", must be [2, 3]");
  }
  constexpr int64_t size = sizeof(double);
  array = input_argument(kOp, "matrix", array);  // aligned
  const MatrixView view = {
      array.data(), DType::kFloat64, true, 0, array.strides(0) / size, array.strides(1) / size};
  return {std::move(array), view};
}

// NumPy's byte strides as the kernels' element strides.
Strides strides_of(const py::array& array, int64_t size) {
  const int64_t channel = array.ndim() == 3 ? array.strides(2) : size;
  return {0, channel / size, array.strides(0) / size, array.strides(1) / size};
}

int64_t channels_of(const py::array& array) { return array.ndim() == 3 ? array.shape(2) : 1; }

void check_rank(const char* name, const py::array& array) {
  if (array.ndim() == 2 || array.ndim() == 3) return;
  const std::vector<py::ssize_t> shape(array.shape(), array.shape() + array.ndim());
  fail(kOp, name, " has shape ", shape_text(shape),
       ", must be [height, width] or [height, width, channels]");
}

struct Extent {
  const char* first;
  const char* last;
};

// The bytes that hold an array's elements; strides may be negative.
Extent extent(const py::array& array) {
  const char* first = static_cast<const char*>(array.data());
  const char* last = first + array.itemsize();
  for (py::ssize_t d = 0; d < array.ndim(); ++d) {
    const py::ssize_t reach = (array.shape(d) - 1) * array.strides(d);
    (reach < 0 ? first : last) += reach;
  }
  return {first, last};
}

// MemoryError, naming the operator, where memory runs out.
py::array empty_array(const py::dtype& dtype, const std::vector<py::ssize_t>& shape) {
  try {
    return py::array(dtype, shape);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_MemoryError)) throw;
    const auto text = "visops.warp_affine: result: " + py::str(error.value()).cast<std::string>();
    py::set_error(PyExc_MemoryError, text.c_str());
    throw py::error_already_set();
  }
}

py::array output_for(py::handle out, const py::array& image, int64_t height, int64_t width) {
  if (out.is_none()) {
    if (image.ndim() == 2) return empty_array(image.dtype(), {height, width});
    return empty_array(image.dtype(), {height, width, image.shape(2)});
  }
  py::array array = output_argument(kOp, "out", out);
  const bool same_rank = array.ndim() == image.ndim();
  if (!same_rank || array.shape(0) != height || array.shape(1) != width ||
      channels_of(array) != channels_of(image)) {
    const std::vector<py::ssize_t> shape(array.shape(), array.shape() + array.ndim());
    fail(kOp, "out has shape ", shape_text(shape), ", must have the image's rank and channels and ",
         height, " x ", width, " pixels");
  }
  require(dtype_of(kOp, "out", array) == dtype_of(kOp, "image", image), kOp,
          "out has another dtype than image");
  require(array.writeable(), kOp, "out is read-only");
  const std::vector<int64_t> sizes(array.shape(), array.shape() + array.ndim());
  const std::vector<int64_t> strides(array.strides(), array.strides() + array.ndim());
  require(has_no_internal_overlap(array.ndim(), sizes.data(), strides.data(), array.itemsize()),
          kOp, "out has shape ", shape_text(sizes), " and strides ", shape_text(strides),
          " in bytes; its elements must not overlap");
  if (array.size() > 0 && image.size() > 0) {
    const Extent a = extent(image), b = extent(array);
    require(a.last <= b.first || b.last <= a.first, kOp,
            "out shares memory with image; a warp can't be done in place");
  }
  return array;
}

py::array warp_affine(py::handle image_argument, py::handle matrix_value, py::handle size,
                      py::handle mode, py::handle padding_mode, py::handle fill_argument,
                      bool inverse_map, bool half_pixel, py::handle out) {
  const py::array image = input_argument(kOp, "image", image_argument);
  check_rank("image", image);
  const Matrix matrix = matrix_argument(matrix_value);

  AffineParams p = {};
  p.batch = 1;
  p.channels = channels_of(image);
  p.height = image.shape(0);
  p.width = image.shape(1);
  p.dtype = dtype_of(kOp, "image", image);
  p.matrix = matrix.view;
  p.mode = parse_interpolation(kOp, text_argument(kOp, "mode", mode));
  p.padding = parse_padding(kOp, text_argument(kOp, "padding_mode", padding_mode));
  p.inverse_map = inverse_map;
  p.half_pixel = half_pixel;
  p.output_height = p.height;
  p.output_width = p.width;
  if (size.is_none() && !out.is_none()) {
    const py::array given = output_argument(kOp, "out", out);
    check_rank("out", given);
    p.output_height = given.shape(0);
    p.output_width = given.shape(1);
  } else if (!size.is_none()) {
    const bool pair = PySequence_Check(size.ptr()) != 0 && PySequence_Size(size.ptr()) == 2;
    PyErr_Clear();
    require(pair, kOp, "size must be (height, width)");
    p.output_height = integer_argument(kOp, "size[0] (height)", py::object(size[py::int_(0)]));
    p.output_width = integer_argument(kOp, "size[1] (width)", py::object(size[py::int_(1)]));
  }
  const std::vector<double> fill = number_list(kOp, "fill", fill_argument);
  p.fill_count = static_cast<int64_t>(fill.size());
  check_affine(kOp, p);
  check_fill(kOp, p.dtype, fill.data(), p.fill_count);
  check_matrices(kOp, p);

  const int64_t element = element_size(p.dtype);
  p.image = image.data();
  p.image_stride = strides_of(image, element);
  py::array output = output_for(out, image, p.output_height, p.output_width);
  p.output = output.mutable_data();
  p.output_stride = strides_of(output, element);

  const int64_t row_elements = p.channels * p.output_width;
  run_unlocked(p.output_height * row_elements, [&] {
    for_each_fill_group(
        p, element_size(p.dtype), fill.data(), p.fill_count,
        [&](const AffineParams& group) { run_on_cpu(affine_stub, group, torch_threads()); });
  });
  return output;
}

}  // namespace

void bind_affine(py::module_& m) {
  m.def("warp_affine", &warp_affine, py::arg("image"), py::arg("matrix"), py::arg("size"),
        py::arg("mode"), py::arg("padding_mode"), py::arg("fill"), py::arg("inverse_map"),
        py::arg("half_pixel"), py::arg("out"));
}

}  // namespace visops
