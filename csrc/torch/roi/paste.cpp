// The torch front of pasting: tensors -> RoiPasteParams.
#include "core/roi/paste.h"

#include <optional>

#include "core/check.h"
#include "torch/register.h"
#include "torch/roi/front.h"

namespace visops {
namespace {

DType computed_in(DType dtype) {
  return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

struct PasteCall {
  const char* op;
  Tensor boxes;
  RoiPasteParams params = {};
  std::optional<Tensor> alpha = std::nullopt;  // contiguous

  void set_options(const std::string& blend, double feather, const std::string& interpolation);
  // The images, or their gradient; all other tensors must have their dtype.
  void set_images(const char* name, const Tensor& images);
  void set_patches_size(const std::vector<int64_t>& size);
  void set_patches(const Tensor& patches);
  void set_boxes(const char* reference_name, const Tensor& reference);
  void set_alpha(const std::optional<Tensor>& given, const Tensor& reference);
  void set_grad(const Tensor& grad);
  void check() const;
  // Call after check(). Computes what kernels need to know of boxes; the result holds it.
  Tensor make_maps();
};

void PasteCall::set_options(const std::string& blend, double feather,
                            const std::string& interpolation) {
  params.blend = parse_paste_blend(op, blend);
  params.feather = feather;
  params.mode = parse_crop_interpolation(op, interpolation);
}

void PasteCall::set_images(const char* name, const Tensor& images) {
  check_images(op, name, images);
  params.images = images.const_data_ptr();
  params.image_stride = strides_of_images(images);
  params.dtype = dtype_of(op, name, images);
  params.batch = images.size(0);
  params.channels = images.size(1);
  params.height = images.size(2);
  params.width = images.size(3);
}

void PasteCall::set_patches_size(const std::vector<int64_t>& size) {
  require(size.size() == 4, op, "patches_size is ", shape_text(size), ", must have four numbers");
  require(size[0] == params.boxes.count && size[1] == params.channels, op, "patches has shape ",
          shape_text(size), ", must begin with [", params.boxes.count, ", ", params.channels, "]");
  params.patch_height = size[2];
  params.patch_width = size[3];
}

void PasteCall::set_patches(const Tensor& patches) {
  check_images(op, "patches", patches);
  const DType dtype = dtype_of(op, "patches", patches);
  require(dtype == params.dtype, op, "patches has dtype ", dtype_name(dtype), ", images has ",
          dtype_name(params.dtype));
  set_patches_size({patches.size(0), patches.size(1), patches.size(2), patches.size(3)});
  params.patches = patches.const_data_ptr();
  params.patch_stride = strides_of_images(patches);
}

void PasteCall::set_boxes(const char* reference_name, const Tensor& reference) {
  params.boxes = crop_boxes(op, boxes);
  check_same_device(op, reference_name, reference, "boxes", boxes);
}

void PasteCall::set_alpha(const std::optional<Tensor>& given, const Tensor& reference) {
  require(given.has_value() == (params.blend == PasteBlend::kAlpha), op,
          given.has_value() ? "alpha is given, must be None unless blend is 'alpha'"
                            : "alpha is None, must be given where blend is 'alpha'");
  if (!given.has_value()) return;
  check_shape(op, "alpha", *given, {params.boxes.count, params.patch_height, params.patch_width});
  check_same_device(op, "images", reference, "alpha", *given);
  const DType dtype = dtype_of(op, "alpha", *given);
  require(dtype == computed_in(params.dtype), op, "alpha has dtype ", dtype_name(dtype),
          ", must be ", dtype_name(computed_in(params.dtype)), " for images of ",
          dtype_name(params.dtype));
  alpha = torch::stable::contiguous(*given);
  params.alpha = alpha->const_data_ptr();
}

void PasteCall::set_grad(const Tensor& grad) {
  check_images(op, "grad", grad);
  const DType dtype = dtype_of(op, "grad", grad);
  require(dtype == params.dtype && is_floating(dtype), op, "grad has dtype ", dtype_name(dtype),
          ", must be ", is_floating(params.dtype) ? dtype_name(params.dtype) : "a floating type");
  const std::vector<int64_t> shape = {params.batch, params.channels, params.height, params.width};
  for (int64_t d = 0; d < 4; ++d) {
    require(grad.size(d) == shape[d], op, "grad has shape ", shape_text(grad), ", must be ",
            shape_text(shape));
  }
  params.grad = grad.const_data_ptr();
  params.grad_stride = strides_of_images(grad);
}

void PasteCall::check() const {
  check_roi_paste(op, params);
  if (!boxes.is_cuda()) check_crop_boxes(op, params.boxes, params.batch);
}

Tensor PasteCall::make_maps() {
  const Tensor maps = empty_maps(op, boxes, params.boxes.count);
  params.maps = static_cast<CropMap*>(maps.mutable_data_ptr());
  run(roi_paste_maps_stub, op, params, boxes);
  return maps;
}

Tensor paste_rois(const Tensor& images, const Tensor& patches, const Tensor& boxes,
                  const std::optional<Tensor>& alpha, const std::string& blend, double feather,
                  const std::string& interpolation) {
  PasteCall call = {"paste_rois", boxes};
  RoiPasteParams& p = call.params;
  call.set_options(blend, feather, interpolation);
  call.set_images("images", images);
  call.set_boxes("images", images);
  check_same_device(call.op, "images", images, "patches", patches);
  call.set_patches(patches);
  call.set_alpha(alpha, images);
  call.check();
  const Tensor output =
      empty_tensor(call.op, "result", images, {p.batch, p.channels, p.height, p.width}, p.dtype,
                   prefers_channels_last(images));
  if (output.numel() == 0) return output;
  p.output = output.mutable_data_ptr();
  p.output_stride = strides_of_images(output);
  const Tensor maps = call.make_maps();
  run(roi_paste_stub, call.op, p, images);
  return output;
}

Tensor paste_rois_backward_patches(const Tensor& grad, const Tensor& boxes,
                                   const std::optional<Tensor>& alpha,
                                   const std::vector<int64_t>& patches_size,
                                   const std::string& blend, double feather,
                                   const std::string& interpolation) {
  PasteCall call = {"paste_rois_backward_patches", boxes};
  RoiPasteParams& p = call.params;
  call.set_options(blend, feather, interpolation);
  call.set_images("grad", grad);
  call.set_boxes("grad", grad);
  call.set_patches_size(patches_size);
  call.set_alpha(alpha, grad);
  call.set_grad(grad);
  call.check();
  const DType sum_dtype = computed_in(p.dtype);
  const Tensor sums = empty_tensor(call.op, "gradient of patches", grad, patches_size, sum_dtype,
                                   prefers_channels_last(grad));
  if (sums.numel() > 0) {
    p.grad_patches = sums.mutable_data_ptr();
    p.grad_patch_stride = strides_of_images(sums);
    const Tensor maps = call.make_maps();
    run(roi_paste_backward_stub, call.op, p, grad);
  }
  return sum_dtype == p.dtype ? sums : torch::stable::to(sums, scalar_type_of(p.dtype));
}

Tensor paste_rois_backward_alpha(const Tensor& grad, const Tensor& images, const Tensor& patches,
                                 const Tensor& boxes, const Tensor& alpha,
                                 const std::string& interpolation) {
  PasteCall call = {"paste_rois_backward_alpha", boxes};
  RoiPasteParams& p = call.params;
  call.set_options("alpha", 1.0, interpolation);
  call.set_images("images", images);
  call.set_boxes("images", images);
  check_same_device(call.op, "images", images, "patches", patches);
  check_same_device(call.op, "images", images, "grad", grad);
  call.set_patches(patches);
  call.set_alpha(alpha, images);
  call.set_grad(grad);
  call.check();
  const Tensor gradient =
      empty_tensor(call.op, "gradient of alpha", images,
                   {p.boxes.count, p.patch_height, p.patch_width}, computed_in(p.dtype));
  if (gradient.numel() == 0) return gradient;
  p.grad_alpha = gradient.mutable_data_ptr();
  const Tensor maps = call.make_maps();
  run(roi_paste_backward_stub, call.op, p, images);
  return gradient;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("paste_rois", VISOPS_BOX(&visops::paste_rois));
  m.impl("paste_rois_backward_patches", VISOPS_BOX(&visops::paste_rois_backward_patches));
  m.impl("paste_rois_backward_alpha", VISOPS_BOX(&visops::paste_rois_backward_alpha));
}
