#include "python/bindings.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include "core/dispatch/cuda_library.h"
#include "core/dispatch/shared_library.h"
#include "core/pixels/adjust.h"
#include "core/pixels/colors/grey_means.h"
#include "core/pixels/colors/hsv.h"
#include "core/pixels/colors/lab.h"
#include "core/pixels/filters/filter.h"
#include "core/pixels/filters/median.h"
#include "core/pixels/jpeg.h"
#include "core/pixels/noise.h"
#include "core/pixels/operations.h"
#include "core/pixels/shading.h"
#include "core/warp/affine.h"
#include "core/warp/augment.h"
#include "visops_build.h"  // written by the build

namespace visops {
namespace {

const CpuLibrary& open_cpu_library() {
  const std::string path = folder_of_this_library() + "lib/" + VISOPS_LIBRARY;
  std::string error;
  void* const handle = open_library(path, &error);
  if (handle == nullptr) throw std::runtime_error("visops: " + error);
  const auto entry = reinterpret_cast<CpuLibraryEntry>(symbol_of(handle, kCpuLibraryEntry));
  const CpuLibrary* const library = entry == nullptr ? nullptr : entry();
  if (library == nullptr || std::strcmp(library->build, VISOPS_BUILD) != 0) {
    throw std::runtime_error("visops: _native is of another build than " + path + kReinstall);
  }
  return *library;
}

const CpuLibrary& cpu_library() {
  static const CpuLibrary& library = open_cpu_library();
  return library;
}

template <class Params>
bool take(KernelStub<Params>& stub, Slot slot) {
  const AnyKernel kernel = cpu_library().kernel(stub.name(), slot);
  if (kernel == nullptr) return false;
  return stub.set(slot, reinterpret_cast<typename KernelStub<Params>::Kernel>(kernel));
}

template <class Params>
void take(KernelStub<Params>& stub) {
  for (Slot slot : {Slot::kDefault, Slot::kAvx2, Slot::kAvx512, Slot::kCudaEmulated}) {
    take(stub, slot);
  }
}

}  // namespace

void take_kernels() {
  take(adjust_stub);
  take(affine_stub);
  take(augment_stub);
  take(filter_stub);
  take(grey_means_stub);
  take(hsv_stub);
  take(jpeg_stub);
  take(lab_stub);
  take(median_stub);
  take(noise_stub);
  take(pixel_operation_stub);
  take(send_numbers_stub);
  take(separable_stub);
  take(shade_stub);
}

bool has_cuda_kernels() {
  static const bool found = take(augment_stub, Slot::kCuda) &&
                            take(send_numbers_stub, Slot::kCuda) &&
                            take(grey_means_stub, Slot::kCuda) && take(adjust_stub, Slot::kCuda) &&
                            take(separable_stub, Slot::kCuda);
  return found;
}

void kernels_internal::on_device(int index, void (*body)(void*, void*), void* context) {
  cpu_library().on_device(index, body, context);
}

}  // namespace visops
