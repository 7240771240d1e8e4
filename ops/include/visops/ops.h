// Written by scripts/generate_cpp_header.py from the operators' schemas: don't edit it.
//
// The operators of visops as C++ functions on at::Tensor. The library must be in the process:
// linked (in CMake, visops::visops) or loaded with dlopen. Otherwise a call throws c10::Error.
// Bad arguments throw a std::exception whose message names them.
//
// There are no gradients: those are registered by Python, and backward() does no more than warn.
// Strings, defaults and results are as in torch.ops.visops.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

namespace visops {
namespace detail {

template <typename Function>
c10::TypedOperatorHandle<Function> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

}  // namespace detail

// Warp images with affine matrices: crop, resize, flip, rotate, shear and shift in one pass. The
// matrix [B, 2, 3] maps destination to source unless inverse_map is false.
inline at::Tensor affine(const at::Tensor& image, const at::Tensor& matrix, at::IntArrayRef size,
                         std::string_view interpolation = "bilinear",
                         std::string_view padding_mode = "constant",
                         at::ArrayRef<double> fill = {0.0}, bool inverse_map = true,
                         bool half_pixel = false) {
  static const auto op = detail::find<decltype(affine)>("visops::affine");
  return op.call(image, matrix, size, interpolation, padding_mode, fill, inverse_map, half_pixel);
}

// Geometry, colour, normalisation, erasing, dtype and layout of a batch, in one pass.
inline at::Tensor augment(const at::Tensor& image, const at::Tensor& matrix, at::IntArrayRef size,
                          std::string_view interpolation = "bilinear",
                          std::string_view padding_mode = "constant",
                          at::ArrayRef<double> fill = {0.0}, bool antialias = false,
                          const std::optional<at::Tensor>& window = std::nullopt,
                          const std::optional<at::Tensor>& color = std::nullopt, bool clamp = false,
                          at::ArrayRef<double> mean = {}, at::ArrayRef<double> std = {},
                          const std::optional<at::Tensor>& erase = std::nullopt,
                          at::ArrayRef<double> erase_value = {0.0}, bool inverse_map = false,
                          bool half_pixel = false,
                          std::optional<at::ScalarType> out_dtype = std::nullopt,
                          bool channels_last = false) {
  static const auto op = detail::find<decltype(augment)>("visops::augment");
  return op.call(image, matrix, size, interpolation, padding_mode, fill, antialias, window, color,
                 clamp, mean, std, erase, erase_value, inverse_map, half_pixel, out_dtype,
                 channels_last);
}

// Geometry, colour, normalisation, erasing, dtype and layout of a batch, in one pass. Images may
// have different sizes.
inline at::Tensor augment_list(
    at::TensorList images, const at::Tensor& matrix, at::IntArrayRef size,
    std::string_view interpolation = "bilinear", std::string_view padding_mode = "constant",
    at::ArrayRef<double> fill = {0.0}, bool antialias = false,
    const std::optional<at::Tensor>& window = std::nullopt,
    const std::optional<at::Tensor>& color = std::nullopt, bool clamp = false,
    at::ArrayRef<double> mean = {}, at::ArrayRef<double> std = {},
    const std::optional<at::Tensor>& erase = std::nullopt, at::ArrayRef<double> erase_value = {0.0},
    bool inverse_map = false, bool half_pixel = false,
    std::optional<at::ScalarType> out_dtype = std::nullopt, bool channels_last = false) {
  static const auto op = detail::find<decltype(augment_list)>("visops::augment_list");
  return op.call(images, matrix, size, interpolation, padding_mode, fill, antialias, window, color,
                 clamp, mean, std, erase, erase_value, inverse_map, half_pixel, out_dtype,
                 channels_last);
}

// Suppress within groups: classes, images, or both, in one call.
inline at::Tensor batched_nms(const at::Tensor& boxes, const at::Tensor& scores,
                              const std::optional<at::Tensor>& idxs, double iou_threshold,
                              int64_t max_output = -1,
                              std::optional<double> score_threshold = std::nullopt) {
  static const auto op = detail::find<decltype(batched_nms)>("visops::batched_nms");
  return op.call(boxes, scores, idxs, iou_threshold, max_output, score_threshold);
}

// Lower scores within groups: classes, images, or both, in one call.
inline std::tuple<at::Tensor, at::Tensor> batched_soft_nms(
    const at::Tensor& boxes, const at::Tensor& scores, const std::optional<at::Tensor>& idxs,
    std::string_view method = "linear", double iou_threshold = 0.3, double sigma = 0.5,
    double min_score = 0.001, int64_t max_output = -1) {
  static const auto op = detail::find<decltype(batched_soft_nms)>("visops::batched_soft_nms");
  return op.call(boxes, scores, idxs, method, iou_threshold, sigma, min_score, max_output);
}

// Overlaps of all pairs, or of boxes one to one: intersection over union. kind: iou, iof (of
// boxes1), iof2 (of boxes2), generalized, distance or complete.
inline at::Tensor box_iou(const at::Tensor& boxes1, const at::Tensor& boxes2,
                          std::string_view kind = "iou", double eps = 1e-07) {
  static const auto op = detail::find<decltype(box_iou)>("visops::box_iou");
  return op.call(boxes1, boxes2, kind, eps);
}

// Overlaps of rotated boxes, all pairs or one to one: intersection over union. kind: iou, iof (of
// boxes1) or iof2 (of boxes2).
inline at::Tensor box_iou_rotated(const at::Tensor& boxes1, const at::Tensor& boxes2,
                                  std::string_view kind = "iou") {
  static const auto op = detail::find<decltype(box_iou_rotated)>("visops::box_iou_rotated");
  return op.call(boxes1, boxes2, kind);
}

// Add columns back to the image that they came from: the adjoint of im2col.
inline at::Tensor col2im(const at::Tensor& input, at::IntArrayRef output_size,
                         at::IntArrayRef kernel_size, at::IntArrayRef stride,
                         at::IntArrayRef padding, at::IntArrayRef dilation,
                         std::string_view layout = "unfold") {
  static const auto op = detail::find<decltype(col2im)>("visops::col2im");
  return op.call(input, output_size, kernel_size, stride, padding, dilation, layout);
}

// Areas, boxes and centroids of the labels 1 to regions.
inline std::tuple<at::Tensor, at::Tensor, at::Tensor> component_stats(const at::Tensor& labels,
                                                                      int64_t regions) {
  static const auto op = detail::find<decltype(component_stats)>("visops::component_stats");
  return op.call(labels, regions);
}

// Label the connected regions of masks or label maps. Returns labels and how many components each
// mask has.
inline std::tuple<at::Tensor, at::Tensor> connected_components(const at::Tensor& masks,
                                                               int64_t connectivity = 8) {
  static const auto op =
      detail::find<decltype(connected_components)>("visops::connected_components");
  return op.call(masks, connectivity);
}

// Convolution of a neural network: torch.nn.functional.conv2d for every dtype.
inline at::Tensor conv2d(const at::Tensor& input, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias = std::nullopt,
                         at::IntArrayRef stride = {1, 1}, at::IntArrayRef padding = {0, 0},
                         at::IntArrayRef dilation = {1, 1}, int64_t groups = 1) {
  static const auto op = detail::find<decltype(conv2d)>("visops::conv2d");
  return op.call(input, weight, bias, stride, padding, dilation, groups);
}

// Convolution of images with kernels: scipy.signal.convolve2d, for batches and tensors. start and
// size name the part of the full result that is wanted.
inline at::Tensor convolve2d(const at::Tensor& input, const at::Tensor& kernel,
                             at::IntArrayRef start, at::IntArrayRef size,
                             std::string_view boundary = "fill",
                             const std::optional<at::Tensor>& fill = std::nullopt,
                             bool flip = true) {
  static const auto op = detail::find<decltype(convolve2d)>("visops::convolve2d");
  return op.call(input, kernel, start, size, boundary, fill, flip);
}

// Cut boxes out of images, and resize them to patches of one size.
inline at::Tensor crop_rois(const at::Tensor& images, const at::Tensor& boxes, at::IntArrayRef size,
                            std::string_view interpolation = "bilinear",
                            std::string_view padding_mode = "constant",
                            at::ArrayRef<double> fill = {0.0}) {
  static const auto op = detail::find<decltype(crop_rois)>("visops::crop_rois");
  return op.call(images, boxes, size, interpolation, padding_mode, fill);
}

// Convolve with a kernel whose taps are moved for each output pixel: DCN and DCNv2.
inline at::Tensor deform_conv2d(const at::Tensor& input, const at::Tensor& offset,
                                const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias = std::nullopt,
                                at::IntArrayRef stride = {1, 1}, at::IntArrayRef padding = {0, 0},
                                at::IntArrayRef dilation = {1, 1},
                                const std::optional<at::Tensor>& mask = std::nullopt) {
  static const auto op = detail::find<decltype(deform_conv2d)>("visops::deform_conv2d");
  return op.call(input, offset, weight, bias, stride, padding, dilation, mask);
}

// Measure the distance of every pixel of a mask to the nearest pixel outside. Indices are empty
// unless asked for.
inline std::tuple<at::Tensor, at::Tensor> distance_transform(const at::Tensor& masks,
                                                             std::string_view metric = "euclidean",
                                                             at::ArrayRef<double> spacing = {},
                                                             int64_t dims = 2,
                                                             bool return_indices = false) {
  static const auto op = detail::find<decltype(distance_transform)>("visops::distance_transform");
  return op.call(masks, metric, spacing, dims, return_indices);
}

// Windows of an image as columns of a matrix, which turns a convolution into a matrix product.
inline at::Tensor im2col(const at::Tensor& input, at::IntArrayRef kernel_size,
                         at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                         const std::optional<at::Tensor>& fill = std::nullopt,
                         std::string_view layout = "unfold") {
  static const auto op = detail::find<decltype(im2col)>("visops::im2col");
  return op.call(input, kernel_size, stride, padding, dilation, fill, layout);
}

// Bits of the boundaries of the bits of pack_masks.
inline at::Tensor mask_boundaries(const at::Tensor& bits, int64_t width,
                                  double dilation_ratio = 0.02) {
  static const auto op = detail::find<decltype(mask_boundaries)>("visops::mask_boundaries");
  return op.call(bits, width, dilation_ratio);
}

// Compute the overlaps of all pairs of masks. Takes the bits of pack_masks, or masks; kind: iou or
// ioa.
inline at::Tensor mask_iou(const at::Tensor& masks1, const at::Tensor& masks2,
                           std::string_view kind = "iou",
                           const std::optional<at::Tensor>& iscrowd = std::nullopt,
                           bool packed1 = true, bool packed2 = true) {
  static const auto op = detail::find<decltype(mask_iou)>("visops::mask_iou");
  return op.call(masks1, masks2, kind, iscrowd, packed1, packed2);
}

// Where the runs of masks end, down their columns, and where masks begin among them. Takes the bits
// of pack_masks if a width is given.
inline std::tuple<at::Tensor, at::Tensor> masks_to_runs(const at::Tensor& masks,
                                                        int64_t width = -1) {
  static const auto op = detail::find<decltype(masks_to_runs)>("visops::masks_to_runs");
  return op.call(masks, width);
}

// Compute what DETR's matcher minimises: class, L1 and GIoU costs of queries and targets. Returns
// each image's [queries, targets], one image after another.
inline at::Tensor match_cost(const at::Tensor& logits, const at::Tensor& boxes,
                             const at::Tensor& target_labels, const at::Tensor& target_boxes,
                             at::IntArrayRef counts, at::ArrayRef<double> weights,
                             std::string_view kind = "focal", double alpha = 0.25,
                             double gamma = 2.0) {
  static const auto op = detail::find<decltype(match_cost)>("visops::match_cost");
  return op.call(logits, boxes, target_labels, target_boxes, counts, weights, kind, alpha, gamma);
}

// Lower the scores of boxes or masks that overlap better ones: SOLOv2's Matrix NMS.
inline std::tuple<at::Tensor, at::Tensor> matrix_nms(const at::Tensor& objects,
                                                     const at::Tensor& scores,
                                                     const std::optional<at::Tensor>& idxs,
                                                     std::string_view method = "gaussian",
                                                     double sigma = 2.0, double min_score = 0.0,
                                                     int64_t max_output = -1) {
  static const auto op = detail::find<decltype(matrix_nms)>("visops::matrix_nms");
  return op.call(objects, scores, idxs, method, sigma, min_score, max_output);
}

// Areas and boxes of the bits of pack_masks, or of masks; x2 and y2 are exclusive.
inline std::tuple<at::Tensor, at::Tensor> measure_masks(const at::Tensor& masks,
                                                        bool packed = true) {
  static const auto op = detail::find<decltype(measure_masks)>("visops::measure_masks");
  return op.call(masks, packed);
}

// Merge masks into one label map, the best on top. Takes the bits of pack_masks, their width, and
// the order to draw them in.
inline std::tuple<at::Tensor, at::Tensor> merge_masks(const at::Tensor& bits, int64_t width,
                                                      const at::Tensor& order,
                                                      const std::optional<at::Tensor>& takes_part,
                                                      double overlap_threshold) {
  static const auto op = detail::find<decltype(merge_masks)>("visops::merge_masks");
  return op.call(bits, width, order, takes_part, overlap_threshold);
}

// Attend to a few sampled locations of each level: the attention of Deformable DETR.
inline at::Tensor multi_scale_deformable_attention(
    const at::Tensor& value, const std::optional<at::Tensor>& spatial_shapes, at::IntArrayRef sizes,
    const at::Tensor& sampling_locations, const at::Tensor& attention_weights,
    at::IntArrayRef points, std::string_view method = "default") {
  static const auto op = detail::find<decltype(multi_scale_deformable_attention)>(
      "visops::multi_scale_deformable_attention");
  return op.call(value, spatial_shapes, sizes, sampling_locations, attention_weights, points,
                 method);
}

// Pool regions from the level of a feature pyramid that fits their size, in one operator.
inline at::Tensor multiscale_roi_align(at::TensorList features, const at::Tensor& boxes,
                                       at::IntArrayRef output_size, at::ArrayRef<double> scales,
                                       int64_t sampling_ratio = -1, bool aligned = false,
                                       double canonical_scale = 224.0, int64_t canonical_level = 4,
                                       std::string_view level_rule = "torchvision") {
  static const auto op =
      detail::find<decltype(multiscale_roi_align)>("visops::multiscale_roi_align");
  return op.call(features, boxes, output_size, scales, sampling_ratio, aligned, canonical_scale,
                 canonical_level, level_rule);
}

// Keep the best of boxes that overlap: greedy non-maximum suppression.
inline at::Tensor nms(const at::Tensor& boxes, const at::Tensor& scores, double iou_threshold,
                      int64_t max_output = -1,
                      std::optional<double> score_threshold = std::nullopt) {
  static const auto op = detail::find<decltype(nms)>("visops::nms");
  return op.call(boxes, scores, iou_threshold, max_output, score_threshold);
}

// Return the boxes that nms keeps, each with the boxes that it suppresses. Returns the index of the
// kept box that each box belongs to.
inline at::Tensor nms_match(const at::Tensor& boxes, const at::Tensor& scores,
                            double iou_threshold) {
  static const auto op = detail::find<decltype(nms_match)>("visops::nms_match");
  return op.call(boxes, scores, iou_threshold);
}

// Suppress to results of a fixed size: for CUDA graphs, export and vmap.
inline std::tuple<at::Tensor, at::Tensor> nms_padded(
    const at::Tensor& boxes, const at::Tensor& scores, double iou_threshold, int64_t max_output,
    std::optional<double> score_threshold = std::nullopt) {
  static const auto op = detail::find<decltype(nms_padded)>("visops::nms_padded");
  return op.call(boxes, scores, iou_threshold, max_output, score_threshold);
}

// Keep the best of rotated boxes that overlap.
inline at::Tensor nms_rotated(const at::Tensor& boxes, const at::Tensor& scores,
                              const std::optional<at::Tensor>& idxs, double iou_threshold,
                              int64_t max_output = -1,
                              std::optional<double> score_threshold = std::nullopt) {
  static const auto op = detail::find<decltype(nms_rotated)>("visops::nms_rotated");
  return op.call(boxes, scores, idxs, iou_threshold, max_output, score_threshold);
}

// Average each of the best boxes with those that it would suppress.
inline std::tuple<at::Tensor, at::Tensor, at::Tensor> non_maximum_weighted(
    at::TensorList boxes, at::TensorList scores, at::TensorList labels,
    at::ArrayRef<double> weights, double iou_threshold = 0.55, double min_score = 0.0) {
  static const auto op =
      detail::find<decltype(non_maximum_weighted)>("visops::non_maximum_weighted");
  return op.call(boxes, scores, labels, weights, iou_threshold, min_score);
}

// Pack masks into bits.
inline at::Tensor pack_masks(const at::Tensor& masks) {
  static const auto op = detail::find<decltype(pack_masks)>("visops::pack_masks");
  return op.call(masks);
}

// Masks as paste_masks has them; out: bool, uint8 or packed.
inline at::Tensor paste_binary_masks(const at::Tensor& masks, const at::Tensor& boxes,
                                     at::IntArrayRef size, double threshold = 0.5,
                                     std::string_view out = "bool",
                                     std::string_view convention = "detectron2",
                                     int64_t padding = 0) {
  static const auto op = detail::find<decltype(paste_binary_masks)>("visops::paste_binary_masks");
  return op.call(masks, boxes, size, threshold, out, convention, padding);
}

// Paste masks that a detector predicts for boxes into the image. Returns numbers; convention:
// detectron2, or torchvision with padding.
inline at::Tensor paste_masks(const at::Tensor& masks, const at::Tensor& boxes,
                              at::IntArrayRef size, std::string_view convention = "detectron2",
                              int64_t padding = 0) {
  static const auto op = detail::find<decltype(paste_masks)>("visops::paste_masks");
  return op.call(masks, boxes, size, convention, padding);
}

// Paste patches into images, each into its box: the way back from crop_rois.
inline at::Tensor paste_rois(const at::Tensor& images, const at::Tensor& patches,
                             const at::Tensor& boxes,
                             const std::optional<at::Tensor>& alpha = std::nullopt,
                             std::string_view blend = "replace", double feather = 8.0,
                             std::string_view interpolation = "bilinear") {
  static const auto op = detail::find<decltype(paste_rois)>("visops::paste_rois");
  return op.call(images, patches, boxes, alpha, blend, feather, interpolation);
}

// Sample maps at points: PointRend's and Mask2Former's function of this name.
inline at::Tensor point_sample(const at::Tensor& input, const at::Tensor& points,
                               std::string_view mode = "bilinear",
                               std::string_view padding_mode = "zeros",
                               bool align_corners = false) {
  static const auto op = detail::find<decltype(point_sample)>("visops::point_sample");
  return op.call(input, points, mode, padding_mode, align_corners);
}

// Pool regions of maps, each bin from its own channels, as in Light-Head R-CNN.
inline at::Tensor ps_roi_align(const at::Tensor& input, const at::Tensor& boxes,
                               at::IntArrayRef output_size, double spatial_scale = 1.0,
                               int64_t sampling_ratio = -1) {
  static const auto op = detail::find<decltype(ps_roi_align)>("visops::ps_roi_align");
  return op.call(input, boxes, output_size, spatial_scale, sampling_ratio);
}

// Read an image at the positions of a map: cv2.remap. map_x and map_y [B, h, w] are dense or a grid
// (bilinear, spline); matrix [B, 3, 3] leads from there to the source. to_float: the result is
// float32, with white at 1.
inline at::Tensor remap(const at::Tensor& images, const at::Tensor& map_x, const at::Tensor& map_y,
                        at::IntArrayRef size,
                        const std::optional<at::Tensor>& matrix = std::nullopt,
                        std::string_view grid = "dense", bool relative = false,
                        std::string_view interpolation = "bilinear",
                        std::string_view padding_mode = "constant",
                        at::ArrayRef<double> fill = {0.0}, bool to_float = false) {
  static const auto op = detail::find<decltype(remap)>("visops::remap");
  return op.call(images, map_x, map_y, size, matrix, grid, relative, interpolation, padding_mode,
                 fill, to_float);
}

// Fill small holes of masks, or remove small islands.
inline std::tuple<at::Tensor, at::Tensor> remove_small_regions(const at::Tensor& masks,
                                                               int64_t min_area,
                                                               std::string_view mode = "holes",
                                                               int64_t connectivity = 8) {
  static const auto op =
      detail::find<decltype(remove_small_regions)>("visops::remove_small_regions");
  return op.call(masks, min_area, mode, connectivity);
}

// Pool regions of maps to one size: RoIAlign, as in Mask R-CNN.
inline at::Tensor roi_align(const at::Tensor& input, const at::Tensor& boxes,
                            at::IntArrayRef output_size, double spatial_scale = 1.0,
                            int64_t sampling_ratio = -1, bool aligned = false) {
  static const auto op = detail::find<decltype(roi_align)>("visops::roi_align");
  return op.call(input, boxes, output_size, spatial_scale, sampling_ratio, aligned);
}

// Pool regions of maps to one size: RoIAlign, as in Mask R-CNN. Takes the maximum of a bin's
// samples; also returns where it was.
inline std::tuple<at::Tensor, at::Tensor> roi_align_max(const at::Tensor& input,
                                                        const at::Tensor& boxes,
                                                        at::IntArrayRef output_size,
                                                        double spatial_scale,
                                                        int64_t sampling_ratio, bool aligned) {
  static const auto op = detail::find<decltype(roi_align_max)>("visops::roi_align_max");
  return op.call(input, boxes, output_size, spatial_scale, sampling_ratio, aligned);
}

// Pool rotated regions of maps to one size: RoIAlign in the frame of each box.
inline at::Tensor roi_align_rotated(const at::Tensor& input, const at::Tensor& boxes,
                                    at::IntArrayRef output_size, double spatial_scale = 1.0,
                                    int64_t sampling_ratio = -1, bool aligned = true,
                                    bool clockwise = false, bool degrees = false) {
  static const auto op = detail::find<decltype(roi_align_rotated)>("visops::roi_align_rotated");
  return op.call(input, boxes, output_size, spatial_scale, sampling_ratio, aligned, clockwise,
                 degrees);
}

// Pool regions of maps to one size: the largest element of each bin, as in Fast R-CNN.
inline std::tuple<at::Tensor, at::Tensor> roi_pool(const at::Tensor& input, const at::Tensor& boxes,
                                                   at::IntArrayRef output_size,
                                                   double spatial_scale = 1.0) {
  static const auto op = detail::find<decltype(roi_pool)>("visops::roi_pool");
  return op.call(input, boxes, output_size, spatial_scale);
}

// Bits, as of pack_masks, from the ends and offsets of masks_to_runs.
inline at::Tensor runs_to_bits(const at::Tensor& ends, const at::Tensor& offsets,
                               at::IntArrayRef size) {
  static const auto op = detail::find<decltype(runs_to_bits)>("visops::runs_to_bits");
  return op.call(ends, offsets, size);
}

// Compute the focal loss of logits, each of which says whether something is there.
inline at::Tensor sigmoid_focal_loss(const at::Tensor& inputs, const at::Tensor& targets,
                                     double alpha = 0.25, double gamma = 2.0) {
  static const auto op = detail::find<decltype(sigmoid_focal_loss)>("visops::sigmoid_focal_loss");
  return op.call(inputs, targets, alpha, gamma);
}

// Lower the scores of boxes that overlap better ones, instead of dropping them.
inline std::tuple<at::Tensor, at::Tensor> soft_nms(const at::Tensor& boxes,
                                                   const at::Tensor& scores,
                                                   std::string_view method = "linear",
                                                   double iou_threshold = 0.3, double sigma = 0.5,
                                                   double min_score = 0.001,
                                                   int64_t max_output = -1) {
  static const auto op = detail::find<decltype(soft_nms)>("visops::soft_nms");
  return op.call(boxes, scores, method, iou_threshold, sigma, min_score, max_output);
}

// Lower the scores of rotated boxes that overlap better ones, instead of dropping them.
inline std::tuple<at::Tensor, at::Tensor> soft_nms_rotated(
    const at::Tensor& boxes, const at::Tensor& scores, const std::optional<at::Tensor>& idxs,
    std::string_view method = "linear", double iou_threshold = 0.3, double sigma = 0.5,
    double min_score = 0.001, int64_t max_output = -1) {
  static const auto op = detail::find<decltype(soft_nms_rotated)>("visops::soft_nms_rotated");
  return op.call(boxes, scores, idxs, method, iou_threshold, sigma, min_score, max_output);
}

// Score how little masks change with the threshold, as Segment Anything does.
inline at::Tensor stability_score(const at::Tensor& logits, double mask_threshold,
                                  double threshold_offset) {
  static const auto op = detail::find<decltype(stability_score)>("visops::stability_score");
  return op.call(logits, mask_threshold, threshold_offset);
}

// Which of the masks in `order` suppression keeps, by position.
inline at::Tensor suppress_masks(const at::Tensor& bits, const at::Tensor& order,
                                 const std::optional<at::Tensor>& takes_part,
                                 const std::optional<at::Tensor>& idxs, double iou_threshold) {
  static const auto op = detail::find<decltype(suppress_masks)>("visops::suppress_masks");
  return op.call(bits, order, takes_part, idxs, iou_threshold);
}

// Masks from the bits of pack_masks.
inline at::Tensor unpack_masks(const at::Tensor& bits, int64_t width) {
  static const auto op = detail::find<decltype(unpack_masks)>("visops::unpack_masks");
  return op.call(bits, width);
}

// Fuse the boxes that several models found in one image.
inline std::tuple<at::Tensor, at::Tensor, at::Tensor> weighted_boxes_fusion(
    at::TensorList boxes, at::TensorList scores, at::TensorList labels,
    at::ArrayRef<double> weights, double iou_threshold = 0.55, double min_score = 0.0,
    std::string_view conf_type = "avg", bool allows_overflow = false) {
  static const auto op =
      detail::find<decltype(weighted_boxes_fusion)>("visops::weighted_boxes_fusion");
  return op.call(boxes, scores, labels, weights, iou_threshold, min_score, conf_type,
                 allows_overflow);
}

// Fuse the boxes that several models found in one volume.
inline std::tuple<at::Tensor, at::Tensor, at::Tensor> weighted_boxes_fusion_3d(
    at::TensorList boxes, at::TensorList scores, at::TensorList labels,
    at::ArrayRef<double> weights, double iou_threshold = 0.55, double min_score = 0.0,
    std::string_view conf_type = "avg", bool allows_overflow = false) {
  static const auto op =
      detail::find<decltype(weighted_boxes_fusion_3d)>("visops::weighted_boxes_fusion_3d");
  return op.call(boxes, scores, labels, weights, iou_threshold, min_score, conf_type,
                 allows_overflow);
}

}  // namespace visops
