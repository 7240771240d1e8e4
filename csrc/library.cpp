// Every operator of visops: the table of contents. Implementations register themselves in
// csrc/ops/<op>.cpp; fake kernels, autograd and vmap are in ops/<op>.py.
#include <Python.h>

#include <torch/csrc/stable/library.h>

#include "core/platform.h"

// What every form of the augmentation takes after its tensors and size.
#define AUGMENT_OPTIONS                                                               \
  "str interpolation='bilinear', str padding_mode='constant', float[] fill=[0.0], "   \
  "bool antialias=False, Tensor? window=None, Tensor? color=None, bool clamp=False, " \
  "float[] mean=[], float[] std=[], Tensor? erase=None, float[] erase_value=[0.0], "  \
  "bool inverse_map=False, bool half_pixel=False, "
#define AUGMENT_OPTIONS_GIVEN                                                           \
  "str interpolation, str padding_mode, float[] fill, bool antialias, Tensor? window, " \
  "Tensor? color, bool clamp, float[] mean, float[] std, Tensor? erase, "               \
  "float[] erase_value, bool inverse_map, bool half_pixel, "

#define SOFT_NMS_OPTIONS                                                                   \
  "str method='linear', float iou_threshold=0.3, float sigma=0.5, float min_score=0.001, " \
  "SymInt max_output=-1"

STABLE_TORCH_LIBRARY(visops, m) {
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
        "ScalarType out_dtype=float, bool channels_last=False) -> Tensor");
  m.def("augment_list(Tensor[] images, Tensor matrix, SymInt[] size, " AUGMENT_OPTIONS
        "ScalarType out_dtype=float, bool channels_last=False) -> Tensor");
  m.def("augment_out(Tensor image, Tensor matrix, " AUGMENT_OPTIONS_GIVEN "Tensor(a!) out) -> ()");
  m.def("augment_list_out(Tensor[] images, Tensor matrix, " AUGMENT_OPTIONS_GIVEN
        "Tensor(a!) out) -> ()");
  m.def("augment_backward(Tensor grad, Tensor image, Tensor matrix, " AUGMENT_OPTIONS_GIVEN
        "bool image_grad, bool matrix_grad, bool color_grad) -> (Tensor, Tensor, Tensor)");
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
  m.def(
      "weighted_boxes_fusion(Tensor[] boxes, Tensor[] scores, Tensor[] labels, float[] weights, "
      "float iou_threshold=0.55, float min_score=0.0, str conf_type='avg', "
      "bool allows_overflow=False) -> (Tensor, Tensor, Tensor)");
  m.def(
      "matrix_nms(Tensor objects, Tensor scores, Tensor? idxs, str method='gaussian', "
      "float sigma=2.0, float min_score=0.0, SymInt max_output=-1) -> (Tensor, Tensor)");
  m.def("box_iou(Tensor boxes1, Tensor boxes2, str kind='iou', float eps=1e-07) -> Tensor");
  m.def(
      "box_iou_backward(Tensor grad, Tensor boxes1, Tensor boxes2, str kind, float eps) -> Tensor");
  m.def("box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor");
  m.def("box_iou_rotated_backward(Tensor grad, Tensor boxes1, Tensor boxes2) -> Tensor");
  m.def("build_info() -> str");
}

// The module itself is empty: loading it registers the operators.
extern "C" VISOPS_API PyObject* PyInit__C() {
  static PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  return PyModule_Create(&definition);
}
