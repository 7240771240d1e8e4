// Registration of an operator's fronts, written once for all devices:
//
//     VISOPS_KERNELS(m) { m.impl("nms", VISOPS_BOX(&visops::nms)); }
//
// NOTE [ Errors of another C++ runtime ]
// A wheel that Clang builds holds libc++, whose exceptions torch can't catch where it was built
// with another library or has its own copy: the process would end. There a boxed function lets
// nothing pass; torch throws in its place, with the same text.
#pragma once

#include <torch/csrc/stable/library.h>

#if defined(_LIBCPP_VERSION)
namespace visops {

using Boxed = void (*)(StableIValue* stack, uint64_t inputs, uint64_t outputs);

// Calls; returns the text of what was thrown until the thread's next error, or null.
const char* error_of(Boxed call, StableIValue* stack, uint64_t inputs, uint64_t outputs);

template <Boxed call>
void guarded(StableIValue* stack, uint64_t inputs, uint64_t outputs) {
  const char* const error = error_of(call, stack, inputs, outputs);
  if (error != nullptr) aoti_torch_check(false, "", "", 0, error);
}

}  // namespace visops
#define VISOPS_BOX(function) visops::guarded<TORCH_BOX(function)>
#else
#define VISOPS_BOX(function) TORCH_BOX(function)
#endif

#define VISOPS_KERNELS(m)                                                         \
  static void register_kernels(torch::stable::detail::StableLibrary& m);          \
  STABLE_TORCH_LIBRARY_IMPL(visops, CPU, library) { register_kernels(library); }  \
  STABLE_TORCH_LIBRARY_IMPL(visops, CUDA, library) { register_kernels(library); } \
  static void register_kernels(torch::stable::detail::StableLibrary& m)
