// Registration of an operator's fronts, written once for all devices:
//
//     VISOPS_KERNELS(m) { m.impl("nms", TORCH_BOX(&visops::nms)); }
#pragma once

#include <torch/csrc/stable/library.h>

#define VISOPS_KERNELS(m)                                                         \
  static void register_kernels(torch::stable::detail::StableLibrary& m);          \
  STABLE_TORCH_LIBRARY_IMPL(visops, CPU, library) { register_kernels(library); }  \
  STABLE_TORCH_LIBRARY_IMPL(visops, CUDA, library) { register_kernels(library); } \
  static void register_kernels(torch::stable::detail::StableLibrary& m)
