// The schema of every operator: the table of contents. Implementations register themselves in
// csrc/torch/<family>/<op>.cpp; fake kernels, autograd and vmap are in ops/<family>/.
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>

#include <cstring>
#include <string>

#include "core/dispatch/cuda_library.h"
#include "core/platform.h"
#include "visops_build.h"  // written by the build

// Options that all forms of `augment` share; those that don't allocate take them
// `without_defaults`.
#define AUGMENT_OPTIONS                                                               \
  "str interpolation='bilinear', str padding_mode='constant', float[] fill=[0.0], "   \
  "bool antialias=False, Tensor? window=None, Tensor? color=None, bool clamp=False, " \
  "float[] mean=[], float[] std=[], Tensor? erase=None, float[] erase_value=[0.0], "  \
  "bool inverse_map=False, bool half_pixel=False, "

#define SOFT_NMS_OPTIONS                                                                   \
  "str method='linear', float iou_threshold=0.3, float sigma=0.5, float min_score=0.001, " \
  "SymInt max_output=-1"

#define ROI_SAMPLES "float spatial_scale, int sampling_ratio, bool aligned"
#define ROI_LEVELS                                                            \
  "float[] scales, int sampling_ratio, bool aligned, float canonical_scale, " \
  "int canonical_level, str level_rule"

#define CONV2D_OPTIONS "SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups"

// The samples of deformable attention: levels' shapes are a tensor or `sizes`, and `points` are the
// numbers of samples on each.
#define ATTENTION_SAMPLES                                               \
  "Tensor? spatial_shapes, SymInt[] sizes, Tensor sampling_locations, " \
  "Tensor attention_weights, SymInt[] points"

#define DEFORM_CONV2D_OPTIONS "SymInt[] stride, SymInt[] padding, SymInt[] dilation, Tensor? mask"
#define POINT_OPTIONS "str mode='bilinear', str padding_mode='zeros', bool align_corners=False"

#define MATCH_TARGETS                                                             \
  "Tensor target_labels, Tensor target_boxes, SymInt[] counts, float[] weights, " \
  "str kind='focal', float alpha=0.25, float gamma=2.0"

namespace {

// "int a=1, int b=2, " -> "int a, int b, "
std::string without_defaults(std::string arguments) {
  for (size_t at = 0; (at = arguments.find('=', at)) != std::string::npos;) {
    arguments.erase(at, arguments.find(", ", at) - at);
  }
  return arguments;
}

}  // namespace

STABLE_TORCH_LIBRARY(visops, m) {
  const std::string given = without_defaults(AUGMENT_OPTIONS);
  m.def(
      "affine(Tensor image, Tensor matrix, SymInt[] size, str interpolation='bilinear', "
      "str padding_mode='constant', float[] fill=[0.0], bool inverse_map=True, "
      "bool half_pixel=False) -> Tensor");
  m.def(
      "affine_out(Tensor image, Tensor matrix, str interpolation, str padding_mode, float[] fill, "
      "bool inverse_map, bool half_pixel, Tensor(a!) out) -> ()");
  m.def(
      "affine_backward_image(Tensor grad, Tensor matrix, SymInt[] image_size, str interpolation, "
      "str padding_mode, bool inverse_map, bool half_pixel) -> Tensor");
  m.def(
      "affine_backward_matrix(Tensor grad, Tensor image, Tensor matrix, str interpolation, "
      "str padding_mode, float[] fill, bool inverse_map, bool half_pixel) -> Tensor");
  m.def("augment(Tensor image, Tensor matrix, SymInt[] size, " AUGMENT_OPTIONS
        "ScalarType? out_dtype=None, bool channels_last=False) -> Tensor");
  m.def("augment_list(Tensor[] images, Tensor matrix, SymInt[] size, " AUGMENT_OPTIONS
        "ScalarType? out_dtype=None, bool channels_last=False) -> Tensor");
  m.def(("augment_out(Tensor image, Tensor matrix, " + given + "Tensor(a!) out) -> ()").c_str());
  m.def(("augment_list_out(Tensor[] images, Tensor matrix, " + given + "Tensor(a!) out) -> ()")
            .c_str());
  m.def(("augment_backward(Tensor grad, Tensor image, Tensor matrix, " + given +
         "bool image_grad, bool matrix_grad, bool color_grad) -> (Tensor, Tensor, Tensor)")
            .c_str());
  m.def(
      "remap(Tensor images, Tensor map_x, Tensor map_y, SymInt[] size, Tensor? matrix=None, "
      "str grid='dense', bool relative=False, str interpolation='bilinear', "
      "str padding_mode='constant', float[] fill=[0.0], bool to_float=False) -> Tensor");
  m.def(
      "nms(Tensor boxes, Tensor scores, float iou_threshold, SymInt max_output=-1, "
      "float? score_threshold=None) -> Tensor");
  m.def(
      "batched_nms(Tensor boxes, Tensor scores, Tensor? idxs, float iou_threshold, "
      "SymInt max_output=-1, float? score_threshold=None) -> Tensor");
  m.def(
      "nms_padded(Tensor boxes, Tensor scores, float iou_threshold, SymInt max_output, "
      "float? score_threshold=None) -> (Tensor, Tensor)");
  m.def(
      "nms_rotated(Tensor boxes, Tensor scores, Tensor? idxs, float iou_threshold, "
      "SymInt max_output=-1, float? score_threshold=None) -> Tensor");
  m.def("nms_match(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor");
  m.def("soft_nms(Tensor boxes, Tensor scores, " SOFT_NMS_OPTIONS ") -> (Tensor, Tensor)");
  m.def("batched_soft_nms(Tensor boxes, Tensor scores, Tensor? idxs, " SOFT_NMS_OPTIONS
        ") -> (Tensor, Tensor)");
  m.def("soft_nms_rotated(Tensor boxes, Tensor scores, Tensor? idxs, " SOFT_NMS_OPTIONS
        ") -> (Tensor, Tensor)");
  m.def(
      "weighted_boxes_fusion(Tensor[] boxes, Tensor[] scores, Tensor[] labels, float[] weights, "
      "float iou_threshold=0.55, float min_score=0.0, str conf_type='avg', "
      "bool allows_overflow=False) -> (Tensor, Tensor, Tensor)");
  m.def(
      "weighted_boxes_fusion_3d(Tensor[] boxes, Tensor[] scores, Tensor[] labels, "
      "float[] weights, float iou_threshold=0.55, float min_score=0.0, str conf_type='avg', "
      "bool allows_overflow=False) -> (Tensor, Tensor, Tensor)");
  m.def(
      "non_maximum_weighted(Tensor[] boxes, Tensor[] scores, Tensor[] labels, float[] weights, "
      "float iou_threshold=0.55, float min_score=0.0) -> (Tensor, Tensor, Tensor)");
  m.def(
      "matrix_nms(Tensor objects, Tensor scores, Tensor? idxs, str method='gaussian', "
      "float sigma=2.0, float min_score=0.0, SymInt max_output=-1) -> (Tensor, Tensor)");
  m.def("box_iou(Tensor boxes1, Tensor boxes2, str kind='iou', float eps=1e-07) -> Tensor");
  m.def(
      "box_iou_backward(Tensor grad, Tensor boxes1, Tensor boxes2, str kind, float eps) -> Tensor");
  m.def("box_iou_rotated(Tensor boxes1, Tensor boxes2, str kind='iou') -> Tensor");
  m.def(
      "box_iou_rotated_backward(Tensor grad, Tensor boxes1, Tensor boxes2, str kind='iou') "
      "-> Tensor");
  // Regions of interest.
  m.def(
      "roi_align(Tensor input, Tensor boxes, SymInt[2] output_size, float spatial_scale=1.0, "
      "int sampling_ratio=-1, bool aligned=False) -> Tensor");
  m.def("roi_align_backward_input(Tensor grad, Tensor boxes, SymInt[] input_size, " ROI_SAMPLES
        ", bool channels_last) -> Tensor");
  m.def("roi_align_backward_boxes(Tensor grad, Tensor input, Tensor boxes, " ROI_SAMPLES
        ") -> Tensor");
  m.def("roi_align_max(Tensor input, Tensor boxes, SymInt[2] output_size, " ROI_SAMPLES
        ") -> (Tensor, Tensor)");
  m.def(
      "roi_align_max_at(Tensor input, Tensor index, Tensor boxes, SymInt[2] "
      "output_size, " ROI_SAMPLES ") -> Tensor");
  m.def(
      "roi_align_max_backward_input(Tensor grad, Tensor index, Tensor boxes, "
      "SymInt[] input_size, " ROI_SAMPLES ", bool channels_last) -> Tensor");
  m.def(
      "roi_align_max_backward_boxes(Tensor grad, Tensor index, Tensor input, Tensor "
      "boxes, " ROI_SAMPLES ") -> Tensor");
  m.def(
      "multiscale_roi_align(Tensor[] features, Tensor boxes, SymInt[2] output_size, "
      "float[] scales, int sampling_ratio=-1, bool aligned=False, float canonical_scale=224.0, "
      "int canonical_level=4, str level_rule='torchvision') -> Tensor");
  m.def(
      "multiscale_roi_align_backward_input(Tensor grad, Tensor boxes, SymInt[] sizes, "
      "SymInt batch, " ROI_LEVELS ", bool[] channels_last) -> Tensor[]");
  m.def(
      "multiscale_roi_align_backward_boxes(Tensor grad, Tensor[] features, Tensor "
      "boxes, " ROI_LEVELS ") -> Tensor");
  m.def(
      "roi_align_rotated(Tensor input, Tensor boxes, SymInt[2] output_size, "
      "float spatial_scale=1.0, int sampling_ratio=-1, bool aligned=True, bool clockwise=False, "
      "bool degrees=False) -> Tensor");
  m.def("roi_align_rotated_backward(Tensor grad, Tensor boxes, SymInt[] input_size, " ROI_SAMPLES
        ", bool clockwise, bool degrees, bool channels_last) -> Tensor");
  m.def(
      "roi_pool(Tensor input, Tensor boxes, SymInt[2] output_size, float spatial_scale=1.0) "
      "-> (Tensor, Tensor)");
  m.def(
      "roi_pool_backward(Tensor grad, Tensor index, Tensor boxes, SymInt[] input_size, "
      "float spatial_scale, bool channels_last) -> Tensor");
  m.def("roi_pool_at(Tensor input, Tensor index, Tensor boxes, float spatial_scale) -> Tensor");
  m.def(
      "ps_roi_align(Tensor input, Tensor boxes, SymInt[2] output_size, float spatial_scale=1.0, "
      "int sampling_ratio=-1) -> Tensor");
  m.def(
      "ps_roi_align_backward(Tensor grad, Tensor boxes, SymInt[] input_size, "
      "float spatial_scale, int sampling_ratio, bool channels_last) -> Tensor");
  m.def(
      "crop_rois(Tensor images, Tensor boxes, SymInt[2] size, str interpolation='bilinear', "
      "str padding_mode='constant', float[] fill=[0.0]) -> Tensor");
  m.def(
      "crop_rois_backward_images(Tensor grad, Tensor boxes, SymInt[] images_size, "
      "str interpolation, str padding_mode) -> Tensor");
  m.def(
      "crop_rois_backward_boxes(Tensor grad, Tensor images, Tensor boxes, str interpolation, "
      "str padding_mode, float[] fill) -> Tensor");
  m.def(
      "paste_rois(Tensor images, Tensor patches, Tensor boxes, Tensor? alpha=None, "
      "str blend='replace', float feather=8.0, str interpolation='bilinear') -> Tensor");
  m.def(
      "paste_rois_backward_patches(Tensor grad, Tensor boxes, Tensor? alpha, "
      "SymInt[] patches_size, str blend, float feather, str interpolation) -> Tensor");
  m.def(
      "paste_rois_backward_alpha(Tensor grad, Tensor images, Tensor patches, Tensor boxes, "
      "Tensor alpha, str interpolation) -> Tensor");
  m.def(
      "convolve2d(Tensor input, Tensor kernel, SymInt[2] start, SymInt[2] size, "
      "str boundary='fill', Tensor? fill=None, bool flip=True) -> Tensor");
  m.def(
      "convolve2d_out(Tensor input, Tensor kernel, SymInt[2] start, SymInt[2] size, str boundary, "
      "Tensor? fill, bool flip, Tensor(a!) out) -> ()");
  m.def("convolve2d_fold(Tensor grad, SymInt[2] start, SymInt[2] size, str boundary) -> Tensor");
  m.def(
      "convolve2d_backward_kernel(Tensor grad, Tensor input, SymInt[2] kernel_size, "
      "SymInt[2] start, str boundary, Tensor? fill, bool flip, bool sum_batch) -> Tensor");
  m.def(
      "im2col(Tensor input, SymInt[] kernel_size, SymInt[] stride, SymInt[] padding, "
      "SymInt[] dilation, Tensor? fill=None, str layout='unfold') -> Tensor");
  m.def(
      "col2im(Tensor input, SymInt[] output_size, SymInt[] kernel_size, SymInt[] stride, "
      "SymInt[] padding, SymInt[] dilation, str layout='unfold') -> Tensor");
  m.def(
      "conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, "
      "SymInt[] padding=[0, 0], SymInt[2] dilation=1, SymInt groups=1) -> Tensor");
  m.def("conv2d_backward_input(Tensor grad, Tensor weight, SymInt[] input_size, " CONV2D_OPTIONS
        ", bool channels_last) -> Tensor");
  m.def("conv2d_backward_weight(Tensor grad, Tensor input, SymInt[] weight_size, " CONV2D_OPTIONS
        ") -> Tensor");
  m.def("connected_components(Tensor masks, int connectivity=8) -> (Tensor, Tensor)");
  m.def("component_stats(Tensor labels, SymInt regions) -> (Tensor, Tensor, Tensor)");
  m.def(
      "remove_small_regions(Tensor masks, SymInt min_area, str mode='holes', "
      "int connectivity=8) -> (Tensor, Tensor)");
  m.def(
      "distance_transform(Tensor masks, str metric='euclidean', float[] spacing=[], int dims=2, "
      "bool return_indices=False) -> (Tensor, Tensor)");
  m.def("pack_masks(Tensor masks) -> Tensor");
  m.def("unpack_masks(Tensor bits, SymInt width) -> Tensor");
  m.def("measure_masks(Tensor masks, bool packed=True) -> (Tensor, Tensor)");
  m.def(
      "mask_iou(Tensor masks1, Tensor masks2, str kind='iou', Tensor? iscrowd=None, "
      "bool packed1=True, bool packed2=True) -> Tensor");
  m.def("masks_to_runs(Tensor masks, SymInt width=-1) -> (Tensor, Tensor)");
  m.def("runs_to_bits(Tensor ends, Tensor offsets, SymInt[] size) -> Tensor");
  m.def(
      "paste_masks(Tensor masks, Tensor boxes, SymInt[2] size, str convention='detectron2', "
      "SymInt padding=0) -> Tensor");
  m.def(
      "paste_masks_backward(Tensor grad, Tensor boxes, SymInt[2] mask_size, str convention, "
      "SymInt padding) -> Tensor");
  m.def(
      "paste_binary_masks(Tensor masks, Tensor boxes, SymInt[2] size, float threshold=0.5, "
      "str out='bool', str convention='detectron2', SymInt padding=0) -> Tensor");
  m.def("mask_boundaries(Tensor bits, SymInt width, float dilation_ratio=0.02) -> Tensor");
  m.def(
      "suppress_masks(Tensor bits, Tensor order, Tensor? takes_part, Tensor? idxs, "
      "float iou_threshold) -> Tensor");
  m.def(
      "merge_masks(Tensor bits, SymInt width, Tensor order, Tensor? takes_part, "
      "float overlap_threshold) -> (Tensor, Tensor)");
  m.def("stability_score(Tensor logits, float mask_threshold, float threshold_offset) -> Tensor");
  m.def(
      "deform_conv2d(Tensor input, Tensor offset, Tensor weight, Tensor? bias=None, "
      "SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2] dilation=1, Tensor? mask=None) "
      "-> Tensor");
  m.def(
      "deform_conv2d_backward_input(Tensor grad, Tensor offset, Tensor weight, "
      "SymInt[] input_size, " DEFORM_CONV2D_OPTIONS ", bool channels_last) -> Tensor");
  m.def(
      "deform_conv2d_backward_offset(Tensor grad, Tensor input, Tensor offset, Tensor "
      "weight, " DEFORM_CONV2D_OPTIONS ") -> (Tensor, Tensor)");
  m.def(
      "deform_conv2d_backward_samples(Tensor grad, Tensor input, Tensor offset, Tensor "
      "weight, " DEFORM_CONV2D_OPTIONS ", bool channels_last) -> (Tensor, Tensor, Tensor)");
  m.def(
      "deform_conv2d_backward_weight(Tensor grad, Tensor input, Tensor offset, "
      "SymInt[] weight_size, " DEFORM_CONV2D_OPTIONS ") -> Tensor");
  m.def("multi_scale_deformable_attention(Tensor value, " ATTENTION_SAMPLES
        ", str method='default') -> Tensor");
  m.def("multi_scale_deformable_attention_backward_value(Tensor grad, " ATTENTION_SAMPLES
        ", str method, SymInt[] value_size) -> Tensor");
  m.def(
      "multi_scale_deformable_attention_backward_samples(Tensor grad, Tensor "
      "value, " ATTENTION_SAMPLES ", str method) -> (Tensor, Tensor)");
  m.def("point_sample(Tensor input, Tensor points, " POINT_OPTIONS ") -> Tensor");
  m.def(
      "point_sample_backward_input(Tensor grad, Tensor points, SymInt[] input_size, " POINT_OPTIONS
      ") -> Tensor");
  m.def("point_sample_backward_points(Tensor grad, Tensor input, Tensor points, " POINT_OPTIONS
        ") -> Tensor");
  m.def("match_cost(Tensor logits, Tensor boxes, " MATCH_TARGETS ") -> Tensor");
  m.def(
      "sigmoid_focal_loss(Tensor inputs, Tensor targets, float alpha=0.25, float gamma=2.) "
      "-> Tensor");
  m.def(
      "sigmoid_focal_loss_backward(Tensor grad, Tensor inputs, Tensor targets, float alpha, "
      "float gamma) -> Tensor");
  m.def("add_grey_means(Tensor pictures, Tensor colors, Tensor weights) -> Tensor");
  m.def("adjust_pixels(Tensor images, int[] kinds, float[] amounts, float[] more=[]) -> Tensor");
  m.def(
      "filter_separable(Tensor images, float[] rows, float[] columns, bool shared=True, "
      "bool pairs=False) -> Tensor");
  m.def("build_info() -> str");
}

// Says, in a process that knows better, why CUDA kernels must not be loaded; for ops/_loader.py.
extern "C" VISOPS_API void visops_refuse_cuda(const char* reason) {
  visops::reject_cuda_library(reason);
}

namespace {

visops::AnyKernel kernel(const char* name, visops::Slot slot) {
  if (slot == visops::Slot::kCuda && !visops::cuda_library_error().empty()) return nullptr;
  for (const visops::StubTable* stub : visops::StubTable::all()) {
    if (std::strcmp(stub->name(), name) == 0) return stub->kernel(slot);
  }
  return nullptr;
}

void on_device(int index, void (*body)(void*, void*), void* context) {
  torch::stable::accelerator::DeviceGuard guard(index);
  body(context, visops::cuda_library().current_stream(index));
}

constexpr visops::CpuLibrary kLibrary = {VISOPS_BUILD, kernel, on_device};

}  // namespace

// Kernels, for `_native`.
extern "C" VISOPS_API const visops::CpuLibrary* visops_cpu_library() { return &kLibrary; }
