#include "numpy/bindings.h"

PYBIND11_MODULE(_numpy, m) {
  m.doc() = "NumPy fronts of the visops kernels; use them through the visops package.";
  visops::bind_affine(m);
}
