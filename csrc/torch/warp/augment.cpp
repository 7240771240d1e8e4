// The torch front of the augmentation: arguments -> AugmentParams, allocation, and the kernel.
#include "core/warp/augment.h"

#include <optional>
#include <tuple>

#include "core/check.h"
#include "core/warp/affine.h"
#include "core/warp/augment_segment.h"
#include "torch/register.h"
#include "torch/tensor.h"

namespace visops {
namespace {

using Numbers = std::vector<double>;
using MaybeTensor = std::optional<Tensor>;
using MaybeDtype = std::optional<ScalarType>;

// The arguments that all forms share, in the schema's order (AUGMENT_OPTIONS in library.cpp).
struct Options {
  const std::string &interpolation, &padding_mode;
  const Numbers& fill;
  bool antialias;
  const MaybeTensor &window, &color;
  bool clamp;
  const Numbers &mean, &std;
  const MaybeTensor& erase;
  const Numbers& erase_value;
  bool inverse_map, half_pixel;

  AugmentValues values() const { return {fill, mean, std, erase_value}; }
};

// Boxing wants a function with a parameter for each argument of the schema.
#define OPTION_PARAMETERS                                                                 \
  const std::string &interpolation, const std::string &padding_mode, const Numbers &fill, \
      bool antialias, const MaybeTensor &window, const MaybeTensor &color, bool clamp,    \
      const Numbers &mean, const Numbers &std, const MaybeTensor &erase,                  \
      const Numbers &erase_value, bool inverse_map, bool half_pixel
#define OPTIONS                                                                           \
  Options {                                                                               \
    interpolation, padding_mode, fill, antialias, window, color, clamp, mean, std, erase, \
        erase_value, inverse_map, half_pixel                                              \
  }

// The data of a tensor that kernels read without strides.
const void* plain_data(const char* op, const char* name, const Tensor& image, const Tensor& tensor,
                       ScalarType dtype) {
  check_same_device(op, "image", image, name, tensor);
  require(tensor.scalar_type() == dtype, op, name, " has dtype ", dtype_text(tensor.scalar_type()),
          ", must be ", dtype_text(dtype));
  require(tensor.is_contiguous(), op, name, " must be contiguous");
  return tensor.const_data_ptr();
}

void set_options(const char* op, AugmentParams& p, const Tensor& image, const Tensor& matrix,
                 const Options& o) {
  check_same_device(op, "image", image, "matrix", matrix);
  check_matrix_shape(op, p, matrix.sizes());
  set_matrix(op, p, matrix.const_data_ptr(), dtype_of(op, "matrix", matrix), matrix.sizes(),
             matrix.strides());
  p.mode = parse_sampling(op, o.interpolation);
  p.padding = parse_padding(op, o.padding_mode);
  p.antialias = o.antialias;
  p.inverse_map = o.inverse_map;
  p.half_pixel = o.half_pixel;
  p.clamp = o.clamp;
  if (o.window.has_value()) {
    const void* data = plain_data(op, "window", image, *o.window, ScalarType::Double);
    set_window(op, p, data, o.window->sizes());
  }
  if (o.color.has_value()) {
    const void* data = plain_data(op, "color", image, *o.color, ScalarType::Double);
    set_color(op, p, data, o.color->sizes());
  }
  if (o.erase.has_value()) {
    const void* data = plain_data(op, "erase", image, *o.erase, ScalarType::Long);
    set_erase(op, p, data, o.erase->sizes());
  }
}

void set_batch(const char* op, AugmentParams& p, const Tensor& image) {
  require(image.dim() == 4, op, "image has shape ", shape_text(image),
          ", must be [batch, channels, height, width]");
  p.first = {image.const_data_ptr(), image.size(2),   image.size(3),
             image.stride(1),        image.stride(2), image.stride(3)};
  p.image_batch_stride = image.stride(0);
  p.batch = image.size(0);
  p.channels = image.size(1);
  p.dtype = dtype_of(op, "image", image);
}

// Names what keeps images[i] out of a list with images[0].
void check_listed(const char* op, const std::vector<Tensor>& images, size_t i) {
  const Tensor &first = images[0], &image = images[i];
  const std::string name = "images[" + std::to_string(i) + "]";
  require(image.dim() == 3, op, name, " has shape ", shape_text(image),
          ", must be [channels, height, width]");
  require(image.size(0) == first.size(0), op, name, " has ", image.size(0),
          " channels, images[0] has ", first.size(0));
  require(image.scalar_type() == first.scalar_type(), op, name, " has dtype ",
          dtype_name(dtype_of(op, name.c_str(), image)), ", images[0] has ",
          dtype_name(dtype_of(op, "images[0]", first)));
  check_same_device(op, "images[0]", first, name.c_str(), image);
}

void set_list(const char* op, AugmentParams& p, const std::vector<Tensor>& images,
              std::vector<AugmentImage>& list) {
  require(!images.empty(), op, "images is an empty list, must hold at least one image");
  const Tensor& first = images[0];
  check_listed(op, images, 0);
  p.batch = static_cast<int64_t>(images.size());
  p.channels = first.size(0);
  p.dtype = dtype_of(op, "images[0]", first);
  const ScalarType type = first.scalar_type();
  list.reserve(images.size());
  for (size_t i = 0; i < images.size(); ++i) {
    const Tensor& image = images[i];
    const bool fits = image.dim() == 3 && image.size(0) == p.channels &&
                      image.scalar_type() == type && on_same_device(first, image);
    if (!fits) check_listed(op, images, i);
    list.push_back({image.const_data_ptr(), image.size(1), image.size(2), image.stride(0),
                    image.stride(1), image.stride(2)});
  }
  p.list = list.data();
}

void check_problem(const char* op, const AugmentParams& p, const Tensor& image, const Options& o) {
  check_augment(op, p, o.values());
  if (!image.is_cuda()) check_augment_data(op, p);
}

void set_output(AugmentParams& p, const Tensor& output) {
  p.output = const_cast<void*>(output.const_data_ptr());
  p.output_stride = {output.stride(0), output.stride(1), output.stride(2), output.stride(3)};
}

// Resampling, colour and conversion cost several times as much as a copy.
void run_augment(const char* op, AugmentParams& p, const Tensor& image) {
  run(augment_stub, op, p, image);
}

DType output_dtype(const char* op, ScalarType type) {
  const std::optional<DType> dtype = dtype_of(type);
  require(dtype == DType::kUInt8 || (dtype.has_value() && is_floating(*dtype)), op, "out_dtype is ",
          dtype_text(type), ", must be uint8, float16, bfloat16, float32 or float64");
  return *dtype;
}

Tensor augment_new(const char* op, AugmentParams& p, const Tensor& image, const Tensor& matrix,
                   const std::vector<int64_t>& size, const Options& o, MaybeDtype out_dtype,
                   bool channels_last) {
  require(size.size() == 2, op, "size has ", size.size(), " values, must be (height, width)");
  p.output_height = size[0];
  p.output_width = size[1];
  set_options(op, p, image, matrix, o);
  p.output_dtype = output_dtype(op, out_dtype.value_or(ScalarType::Float));
  check_problem(op, p, image, o);
  set_values(p, o.values());
  const Tensor output =
      empty_tensor(op, "output", image, {p.batch, p.channels, p.output_height, p.output_width},
                   p.output_dtype, channels_last);
  if (output.numel() == 0) return output;
  set_output(p, output);
  run_augment(op, p, image);
  return output;
}

void augment_into(const char* op, AugmentParams& p, const Tensor& image, const Tensor& matrix,
                  const Options& o, const Tensor& out) {
  require(out.dim() == 4, op, "out has shape ", shape_text(out),
          ", must be [batch, channels, height, width]");
  check_same_device(op, "image", image, "out", out);
  require(out.size(0) == p.batch && out.size(1) == p.channels, op, "out has shape ",
          shape_text(out), ", must begin with [", p.batch, ", ", p.channels, "]");
  p.output_height = out.size(2);
  p.output_width = out.size(3);
  set_options(op, p, image, matrix, o);
  p.output_dtype = dtype_of(op, "out", out);
  check_problem(op, p, image, o);
  set_values(p, o.values());
  if (out.numel() == 0) return;
  check_writable(op, out);
  set_output(p, out);
  run_augment(op, p, image);
}

Tensor augment(const Tensor& image, const Tensor& matrix, const std::vector<int64_t>& size,
               OPTION_PARAMETERS, MaybeDtype out_dtype, bool channels_last) {
  constexpr const char* op = "augment";
  AugmentParams p = {};
  set_batch(op, p, image);
  return augment_new(op, p, image, matrix, size, OPTIONS, out_dtype, channels_last);
}

Tensor augment_list(const std::vector<Tensor>& images, const Tensor& matrix,
                    const std::vector<int64_t>& size, OPTION_PARAMETERS, MaybeDtype out_dtype,
                    bool channels_last) {
  constexpr const char* op = "augment";
  AugmentParams p = {};
  std::vector<AugmentImage> list;
  set_list(op, p, images, list);
  return augment_new(op, p, images[0], matrix, size, OPTIONS, out_dtype, channels_last);
}

void augment_out(const Tensor& image, const Tensor& matrix, OPTION_PARAMETERS, const Tensor& out) {
  constexpr const char* op = "augment";
  AugmentParams p = {};
  set_batch(op, p, image);
  check_no_overlap(op, "image", image, out, "an augmentation");
  augment_into(op, p, image, matrix, OPTIONS, out);
}

void augment_list_out(const std::vector<Tensor>& images, const Tensor& matrix, OPTION_PARAMETERS,
                      const Tensor& out) {
  constexpr const char* op = "augment";
  AugmentParams p = {};
  std::vector<AugmentImage> list;
  set_list(op, p, images, list);
  for (size_t i = 0; i < images.size(); ++i) {
    check_no_overlap(op, ("images[" + std::to_string(i) + "]").c_str(), images[i], out,
                     "an augmentation");
  }
  augment_into(op, p, images[0], matrix, OPTIONS, out);
}

std::tuple<Tensor, Tensor, Tensor> augment_backward(const Tensor& grad, const Tensor& image,
                                                    const Tensor& matrix, OPTION_PARAMETERS,
                                                    bool image_grad, bool matrix_grad,
                                                    bool color_grad) {
  constexpr const char* op = "augment_backward";
  const Options o = OPTIONS;
  AugmentBackwardParams b = {};
  AugmentParams& p = b.forward;
  set_batch(op, p, image);
  require(grad.dim() == 4 && grad.size(0) == p.batch && grad.size(1) == p.channels, op,
          "grad has shape ", shape_text(grad), ", must be [", p.batch, ", ", p.channels,
          ", height, width]");
  check_same_device(op, "image", image, "grad", grad);
  require(!image_grad || is_floating(p.dtype), op, "image has dtype ", dtype_name(p.dtype),
          ", only floating types have a gradient");
  require(!color_grad || color.has_value(), op, "color is None, it has no gradient");
  p.output_height = grad.size(2);
  p.output_width = grad.size(3);
  set_options(op, p, image, matrix, o);
  p.output_dtype = dtype_of(op, "grad", grad);
  require(is_floating(p.output_dtype), op, "grad has dtype ", dtype_name(p.output_dtype),
          ", must be a floating type");
  check_problem(op, p, image, o);
  set_values(p, o.values());
  set_output(p, grad);
  // Without channels there is nothing to differentiate, however many pixels there are.
  if (p.channels == 0) p.output_height = p.output_width = 0;

  const DType sum_dtype = p.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const std::vector<int64_t> none = {0};
  Tensor grad_image = empty_tensor(
      op, "gradient of image", image,
      image_grad ? std::vector<int64_t>{p.batch, p.channels, p.first.height, p.first.width} : none,
      sum_dtype, image_grad && prefers_channels_last(image));
  const Tensor grad_matrix = empty_tensor(
      op, "gradient of matrix", image,
      matrix_grad ? std::vector<int64_t>{p.batch, p.matrix_rows, 3} : none, DType::kFloat64);
  const Tensor grad_color = empty_tensor(
      op, "gradient of color", image,
      color_grad ? std::vector<int64_t>{p.batch, p.color_steps, p.channels, p.channels + 1} : none,
      DType::kFloat64);
  b.row_sum_count =
      (matrix_grad ? 6 : 0) + (color_grad ? p.color_steps * p.channels * (p.channels + 1) : 0);
  if (image_grad) {
    b.grad_image = grad_image.mutable_data_ptr();
    b.grad_image_stride = {grad_image.stride(0), grad_image.stride(1), grad_image.stride(2),
                           grad_image.stride(3)};
  }
  if (matrix_grad) b.grad_matrix = static_cast<double*>(grad_matrix.mutable_data_ptr());
  if (color_grad) b.grad_color = static_cast<double*>(grad_color.mutable_data_ptr());
  run(augment_backward_stub, op, b, image);
  if (image_grad && sum_dtype != p.dtype) {
    grad_image = torch::stable::to(grad_image, scalar_type_of(p.dtype));
  }
  return {grad_image, grad_matrix, grad_color};
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("augment", VISOPS_BOX(&visops::augment));
  m.impl("augment_list", VISOPS_BOX(&visops::augment_list));
  m.impl("augment_out", VISOPS_BOX(&visops::augment_out));
  m.impl("augment_list_out", VISOPS_BOX(&visops::augment_list_out));
  m.impl("augment_backward", VISOPS_BOX(&visops::augment_backward));
}
