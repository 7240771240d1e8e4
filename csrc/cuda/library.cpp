// The one symbol that the library of CUDA kernels exports; NOTE [ How visops is built ] in
// scripts/build_extensions.py. The stubs here are this library's own copies: its kernels register
// with them when it is loaded, and the main library takes the kernels over by name.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <stdexcept>

#include "core/dispatch/cuda_library.h"
#include "visops_build.h"  // written by the build

namespace visops {
namespace {

void for_each_kernel(void (*take)(void*, const char*, AnyKernel), void* context) {
  for (const StubTable* stub : StubTable::all()) {
    if (stub->has(Slot::kCuda)) take(context, stub->name(), stub->kernel(Slot::kCuda));
  }
}

void* current_stream(int device_index) {
  void* stream = nullptr;
  if (aoti_torch_get_current_cuda_stream(device_index, &stream) != AOTI_TORCH_SUCCESS) {
    throw std::runtime_error("visops: torch has no current stream for cuda:" +
                             std::to_string(device_index));
  }
  return stream;
}

constexpr CudaLibrary kLibrary = {VISOPS_BUILD, for_each_kernel, current_stream};

}  // namespace
}  // namespace visops

extern "C" VISOPS_API const visops::CudaLibrary* visops_cuda_library() { return &visops::kLibrary; }
