#include "python/kernels.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include "core/dispatch/cpu_library.h"
#include "core/dispatch/shared_library.h"
#include "core/pixels/colors/hsv.h"
#include "core/pixels/colors/lab.h"
#include "core/pixels/filters/filter.h"
#include "core/pixels/filters/median.h"
#include "core/pixels/jpeg.h"
#include "core/pixels/noise.h"
#include "core/pixels/operations.h"
#include "core/warp/affine.h"
#include "core/warp/augment.h"
#include "visops_build.h"  // written by the build

namespace visops {
namespace {

const CpuLibrary& cpu_library() {
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

template <class Params>
void take(const CpuLibrary& library, KernelStub<Params>& stub) {
  using Kernel = typename KernelStub<Params>::Kernel;
  for (Slot slot : {Slot::kDefault, Slot::kAvx2, Slot::kAvx512, Slot::kCudaEmulated}) {
    const AnyKernel kernel = library.kernel(stub.name(), slot);
    if (kernel != nullptr) stub.set(slot, reinterpret_cast<Kernel>(kernel));
  }
}

}  // namespace

void take_kernels() {
  const CpuLibrary& library = cpu_library();
  take(library, affine_stub);
  take(library, augment_stub);
  take(library, filter_stub);
  take(library, hsv_stub);
  take(library, jpeg_stub);
  take(library, lab_stub);
  take(library, median_stub);
  take(library, noise_stub);
  take(library, pixel_operation_stub);
}

}  // namespace visops
