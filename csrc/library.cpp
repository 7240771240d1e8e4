// Every operator of visops: the table of contents. Implementations register themselves in
// csrc/ops/<op>.cpp; fake kernels, autograd and vmap are in ops/<op>.py.
#include <Python.h>

#include <torch/csrc/stable/library.h>

#include "core/platform.h"

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
  m.def("build_info() -> str");
}

// The module itself is empty: loading it registers the operators.
extern "C" VISOPS_API PyObject* PyInit__C() {
  static PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  return PyModule_Create(&definition);
}
