// The torch front of crops: tensors -> RoiCropParams.
#include "core/roi/crops.h"

#include "core/check.h"
#include "core/images/image_front.h"
#include "torch/register.h"
#include "torch/roi/front.h"

namespace visops {
namespace {

struct CropCall {
  const char* op;
  Tensor boxes;
  RoiCropParams params = {};

  void set_options(const std::string& interpolation, const std::string& padding_mode,
                   const std::vector<double>& fill);
  void set_images(const Tensor& images);
  void set_patches(const char* name, const Tensor& patches);
  void set_boxes(const char* reference_name, const Tensor& reference);
  void check() const;
  // Call after check(). Computes what kernels need to know of boxes; the result holds it.
  Tensor make_maps();
};

void CropCall::set_options(const std::string& interpolation, const std::string& padding_mode,
                           const std::vector<double>& fill) {
  params.mode = parse_crop_interpolation(op, interpolation);
  params.padding = parse_padding(op, padding_mode);
  params.fill_count = static_cast<int64_t>(fill.size());
  for (size_t i = 0; i < fill.size() && i < kMaxFill; ++i) params.fill[i] = fill[i];
}

void CropCall::set_images(const Tensor& images) {
  check_images(op, "images", images);
  params.images = images.const_data_ptr();
  params.image_stride = strides_of_images(images);
  params.dtype = dtype_of(op, "images", images);
  params.batch = images.size(0);
  params.channels = images.size(1);
  params.height = images.size(2);
  params.width = images.size(3);
}

void CropCall::set_patches(const char* name, const Tensor& patches) {
  check_images(op, name, patches);
  params.patches = const_cast<void*>(patches.const_data_ptr());
  params.patch_stride = strides_of_images(patches);
  params.patch_height = patches.size(2);
  params.patch_width = patches.size(3);
}

void CropCall::set_boxes(const char* reference_name, const Tensor& reference) {
  params.boxes = crop_boxes(op, boxes);
  check_same_device(op, reference_name, reference, "boxes", boxes);
}

void CropCall::check() const {
  check_roi_crops(op, params);
  check_fill(op, params.dtype, params.fill, params.fill_count);
  if (!boxes.is_cuda()) check_crop_boxes(op, params.boxes, params.batch);
}

Tensor CropCall::make_maps() {
  const Tensor maps = empty_maps(op, boxes, params.boxes.count);
  params.maps = static_cast<CropMap*>(maps.mutable_data_ptr());
  run(roi_crop_maps_stub, op, params, boxes);
  return maps;
}

Tensor crop_rois(const Tensor& images, const Tensor& boxes, const std::vector<int64_t>& size,
                 const std::string& interpolation, const std::string& padding_mode,
                 const std::vector<double>& fill) {
  CropCall call = {"crop_rois", boxes};
  RoiCropParams& p = call.params;
  call.set_options(interpolation, padding_mode, fill);
  call.set_images(images);
  call.set_boxes("images", images);
  require(size.size() == 2, call.op, "size is ", shape_text(size), ", must have two numbers");
  p.patch_height = size[0];
  p.patch_width = size[1];
  call.check();
  const Tensor patches =
      empty_tensor(call.op, "result", images, {p.boxes.count, p.channels, size[0], size[1]},
                   p.dtype, prefers_channels_last(images));
  if (patches.numel() == 0) return patches;
  call.set_patches("result", patches);
  const Tensor maps = call.make_maps();
  run(roi_crops_stub, call.op, p, images);
  return patches;
}

void check_grad(CropCall& call, const Tensor& grad, int64_t channels) {
  const DType dtype = dtype_of(call.op, "grad", grad);
  require(dtype == call.params.dtype && is_floating(dtype), call.op, "grad has dtype ",
          dtype_name(dtype), ", must be ",
          is_floating(call.params.dtype) ? dtype_name(call.params.dtype) : "a floating type");
  require(grad.size(0) == call.params.boxes.count && grad.size(1) == channels, call.op,
          "grad has shape ", shape_text(grad), ", must begin with [", call.params.boxes.count, ", ",
          channels, "]");
}

Tensor crop_rois_backward_images(const Tensor& grad, const Tensor& boxes,
                                 const std::vector<int64_t>& images_size,
                                 const std::string& interpolation,
                                 const std::string& padding_mode) {
  CropCall call = {"crop_rois_backward_images", boxes};
  RoiCropParams& p = call.params;
  call.set_options(interpolation, padding_mode, {0.0});
  call.set_patches("grad", grad);
  call.set_boxes("grad", grad);
  require(images_size.size() == 4, call.op, "images_size is ", shape_text(images_size),
          ", must have four numbers");
  p.dtype = dtype_of(call.op, "grad", grad);
  p.batch = images_size[0];
  p.channels = images_size[1];
  p.height = images_size[2];
  p.width = images_size[3];
  check_grad(call, grad, p.channels);
  call.check();
  const DType sum_dtype = p.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const Tensor sums = empty_tensor(call.op, "gradient of images", grad, images_size, sum_dtype,
                                   prefers_channels_last(grad));
  p.grad_images = sums.mutable_data_ptr();
  p.grad_image_stride = strides_of_images(sums);
  if (sums.numel() > 0) {
    const Tensor maps = call.make_maps();
    run(roi_crops_backward_images_stub, call.op, p, grad);
  }
  return sum_dtype == p.dtype ? sums : torch::stable::to(sums, scalar_type_of(p.dtype));
}

Tensor crop_rois_backward_boxes(const Tensor& grad, const Tensor& images, const Tensor& boxes,
                                const std::string& interpolation, const std::string& padding_mode,
                                const std::vector<double>& fill) {
  CropCall call = {"crop_rois_backward_boxes", boxes};
  RoiCropParams& p = call.params;
  call.set_options(interpolation, padding_mode, fill);
  call.set_images(images);
  call.set_patches("grad", grad);
  call.set_boxes("images", images);
  check_same_device(call.op, "images", images, "grad", grad);
  check_grad(call, grad, p.channels);
  require(is_floating(p.boxes.dtype), call.op, "boxes has dtype ", dtype_name(p.boxes.dtype),
          ", must be a floating type to have a gradient");
  call.check();
  const int64_t count = p.boxes.count;
  const Tensor gradient =
      empty_tensor(call.op, "gradient of boxes", images, {count, 5}, p.boxes.dtype);
  if (p.mode == Interpolation::kNearest) {  // is constant for small moves of the box
    return torch::stable::fill_(gradient, 0.0);
  }
  p.grad_boxes = gradient.mutable_data_ptr();
  const Tensor maps = call.make_maps();
  run(roi_crops_backward_boxes_stub, call.op, p, images);
  return gradient;
}

}  // namespace
}  // namespace visops

VISOPS_KERNELS(m) {
  m.impl("crop_rois", VISOPS_BOX(&visops::crop_rois));
  m.impl("crop_rois_backward_images", VISOPS_BOX(&visops::crop_rois_backward_images));
  m.impl("crop_rois_backward_boxes", VISOPS_BOX(&visops::crop_rois_backward_boxes));
}
